/** Charts as SVG, with classes for colours and a label that says the finding. */
import { memo, useState } from "react";
import { count, plural, points, rate, score, shown, time } from "../lib/format";
import { type Counts, type Histogram, type Outcome, type Outline, sortPositions, wilson } from "../lib/outline";

export function OutcomeBar({ counts }: { counts: Counts }) {
  const total = counts.pass + counts.fail + counts.error + counts.none || 1;
  let x = 0;
  return (
    <svg className="outcomes" viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true">
      {(["pass", "fail", "error", "none"] as const).map((outcome) => {
        const width = (counts[outcome] / total) * 1000;
        const part = <rect key={outcome} className={`f-${outcome}`} x={x} width={Math.max(0, width - 1.5)} height="8" />;
        x += width;
        return part;
      })}
    </svg>
  );
}

export function RateBar({ passed, judged, wanted }: { passed: number; judged: number; wanted?: number | null }) {
  const interval = wilson(passed, judged);
  if (interval === null) return null;
  const [low, high] = interval.map((end) => end * 200) as [number, number];
  return (
    <svg className="ratebar" viewBox="0 0 200 10" preserveAspectRatio="none" aria-hidden="true">
      <rect className="f-none" y="3" width="200" height="4" />
      <rect className="f-pass" y="3" width={(passed / judged) * 200} height="4" />
      <rect className="f-fg" x={low} y="4.4" width={high - low} height="1.2" />
      <rect className="f-fg" x={low} y="1.5" width="1.2" height="7" />
      <rect className="f-fg" x={high - 1.2} y="1.5" width="1.2" height="7" />
      {wanted != null && <line className="l-wish" x1={wanted * 200} x2={wanted * 200} y1="0" y2="10" />}
    </svg>
  );
}

interface HistogramProps {
  readonly data: Histogram;
  readonly threshold: number | null;
  readonly lowerIsBetter: boolean;
}

export function ScoreHistogram({ data, threshold, lowerIsBetter }: HistogramProps) {
  const most = Math.max(...data.bins, 1);
  const width = (data.high - data.low) / data.bins.length;
  const at = threshold === null ? null : ((threshold - data.low) / (data.high - data.low)) * 112;
  const label = `Scores in ten bins from ${score(data.low)} to ${score(data.high)}: ${data.bins.join(", ")}`;
  return (
    <svg className="hist" viewBox="0 0 112 24" role="img" aria-label={label}>
      {data.bins.map((n, index) => {
        const better = lowerIsBetter ? data.low + index * width : data.low + (index + 1) * width;
        const passes = threshold !== null && (lowerIsBetter ? better <= threshold : better >= threshold - 1e-9);
        const height = n === 0 ? 0.8 : 1.5 + (n / most) * 19.5;
        const fill = n === 0 ? "f-none" : threshold === null ? "f-info" : passes ? "f-pass" : "f-fail";
        return <rect key={index} className={fill} x={0.6 + index * 11.2} y={23 - height} width="10" height={height} />;
      })}
      {at !== null && at >= 0 && at <= 112 && <line className="l-wish" x1={at} x2={at} y1="0" y2="24" />}
      <line className="l-axis" x1="0" x2="112" y1="23.5" y2="23.5" />
    </svg>
  );
}

const MOST_COLUMNS = 500;
const MOST_ROWS = 40;

/** Items by evaluators, the worst items at the left; above 500 items a column is a group's worst. */
export const HeatMap = memo(function HeatMap({ outline, onOpen }: { outline: Outline; onOpen: (position: number) => void }) {
  const [isWhole, setIsWhole] = useState(false);
  const order = sortPositions(outline, "worst");
  const groups = Math.min(order.length, MOST_COLUMNS);
  const columns = Array.from({ length: groups }, (_, index) =>
    order.slice(Math.floor((index * order.length) / groups), Math.floor(((index + 1) * order.length) / groups)),
  );
  const rows = isWhole ? outline.columns : outline.columns.slice(0, MOST_ROWS);
  const left = 150;
  const step = (1000 - left) / Math.max(groups, 1);
  const failed = outline.outcomes.filter((outcome) => outcome === "fail").length;
  const label = `Items by evaluators, worst items left: ${failed} of ${outline.size} failed`;
  return (
    <>
    <svg className="heat" viewBox={`0 0 1000 ${rows.length * 15}`} role="img" aria-label={label}>
      {rows.map((row, line) => (
        <g key={row.name}>
          <NameText className="" y={line * 15 + 10} name={row.name} most={24} />
          <path className="f-fail" d={cells(columns, row.outcomes, "f", left, step, line * 15, 12)} />
          <path className="f-soft" d={cells(columns, row.outcomes, "p", left, step, line * 15 + 5, 7)} />
          <path className="f-none" d={cells(columns, row.outcomes, "i", left, step, line * 15 + 9, 3)} />
          <path className="f-error" d={errorCells(columns, row.outcomes, outline, left, step, line * 15)} />
        </g>
      ))}
      <rect
        x={left}
        width={1000 - left}
        height={rows.length * 15}
        fill="transparent"
        cursor="pointer"
        onClick={(event) => {
          const box = event.currentTarget.getBoundingClientRect();
          const column = columns[Math.floor(((event.clientX - box.left) / box.width) * groups)];
          if (column?.[0] !== undefined) onOpen(column[0]);
        }}
      />
    </svg>
    {rows.length < outline.columns.length && (
      <p className="foot-row">
        <span>The first {count(rows.length)} of {count(outline.columns.length)} evaluators</span>
        <button type="button" className="btn bare" onClick={() => setIsWhole(true)}>Show all {count(outline.columns.length)}</button>
      </p>
    )}
    </>
  );
});

/** The name of a row, cut where there is no room for it; whole where the mouse rests on it. */
function NameText({ name, most, y, className }: { name: string; most: number; y: number; className: string }) {
  const text = shown(name);
  if (text.length <= most) return <text className={className} x="0" y={y}>{text}</text>;
  return <text className={className} x="0" y={y}>{`${text.slice(0, most - 1)}…`}<title>{text}</title></text>;
}

function cells(
  columns: readonly (readonly number[])[],
  outcomes: string,
  wanted: "p" | "f" | "i" | "e",
  left: number,
  step: number,
  y: number,
  height: number,
): string {
  const gap = step > 3 ? 0.8 : 0;
  let path = "";
  columns.forEach((positions, index) => {
    if (worst(positions, outcomes) !== wanted) return;
    const width = (step - gap).toFixed(2);
    path += `M${(left + index * step).toFixed(2)} ${y}h${width}v${height}h-${width}z`;
  });
  return path;
}

/** Columns whose items have no score of an evaluator and errored. */
function errorCells(
  columns: readonly (readonly number[])[],
  outcomes: string,
  outline: Outline,
  left: number,
  step: number,
  y: number,
): string {
  const letters = Array.from(outcomes, (letter, position) =>
    letter === "-" && outline.outcomes[position] === "error" ? "e" : letter,
  ).join("");
  return cells(columns, letters, "e", left, step, y, 12);
}

function worst(positions: readonly number[], outcomes: string): string {
  let found = "-";
  for (const position of positions) {
    const letter = outcomes[position] ?? "-";
    if (letter === "f") return "f";
    if (letter === "e") found = "e";
    if (found === "e") continue;
    if (letter === "p" || (letter === "i" && found === "-")) found = letter;
  }
  return found;
}

export interface TrendPoint {
  readonly id: string;
  readonly startedAt: string;
  readonly passed: number;
  readonly judged: number;
  /** What is another one than in the run before, in words. */
  readonly changed: readonly string[];
}

/** Pass rates over time with their intervals, on an axis from `start` to 100 %; what changed between two runs is marked. */
export function TrendChart({ points: all, start = 0 }: { points: readonly TrendPoint[]; start?: number }) {
  const runs = all.filter((run) => run.judged > 0);
  if (runs.length < 2) return <p className="muted">A trend needs at least two finished runs; there is {runs.length}.</p>;
  const x = (index: number) => 40 + (index / (runs.length - 1)) * 830;
  const y = (value: number) => 10 + ((1 - value) / (1 - start)) * 150;
  const rateOf = (run: TrendPoint) => run.passed / run.judged;
  const [first, last] = [runs[0] as TrendPoint, runs.at(-1) as TrendPoint];
  const label = `Pass rate of ${runs.length} runs, the last at ${rate(rateOf(last))}${start > 0 ? `; the axis begins at ${rate(start)}` : ""}`;
  return (
    <svg className="chart wide" viewBox="0 0 940 190" role="img" aria-label={label}>
      {[0, 0.25, 0.5, 0.75, 1].map((part) => start + part * (1 - start)).map((value) => (
        <g key={value}>
          <line className="l-axis" x1="40" x2="880" y1={y(value)} y2={y(value)} />
          <text x="34" y={y(value) + 4} textAnchor="end">{Number((value * 100).toFixed(2))}</text>
        </g>
      ))}
      {runs.map((run, i) => run.changed.length > 0 && i > 0 && (
        <g key={run.id}>
          <line className="l-mark" x1={x(i)} x2={x(i)} y1="10" y2="160" />
          <text x={x(i)} y="172" textAnchor={i === runs.length - 1 ? "end" : "middle"}>
            ◆<title>{run.changed.join("; ")}</title>
          </text>
        </g>
      ))}
      <polyline className="l-data" points={runs.map((run, i) => `${x(i)},${y(rateOf(run))}`).join(" ")} />
      {runs.map((run, i) => {
        const interval = wilson(run.passed, run.judged);
        return (
          <g key={run.id}>
            {interval !== null && <line className="l-int" x1={x(i)} x2={x(i)} y1={y(interval[0])} y2={y(interval[1])} />}
            <circle className="ring" cx={x(i)} cy={y(rateOf(run))} r="3.5">
              <title>{[`${time(run.startedAt)}: ${rate(rateOf(run))} (${run.passed}/${run.judged})`, ...run.changed].join("\n")}</title>
            </circle>
          </g>
        );
      })}
      <text className="strong" x={Math.min(x(runs.length - 1) + 8, 884)} y={y(rateOf(last)) + 4}>{rate(rateOf(last))}</text>
      <text x="40" y="186">{time(first.startedAt)}</text>
      <text x="880" y="186" textAnchor="end">{time(last.startedAt)}</text>
    </svg>
  );
}

export interface Change {
  readonly name: string;
  /** The change as it is written, from baseline to candidate. */
  readonly raw: number;
  /** The same and its interval of 95 %, turned so that below zero is worse. */
  readonly delta: number;
  readonly interval: readonly [number, number] | null;
  readonly outcome: Outcome;
}

const MOST_CHANGES = 24;

/** Changes with their intervals around zero; left is worse. Of many, those that are decided and the largest. */
export function ChangeChart({ changes: all }: { changes: readonly Change[] }) {
  const ranked = all.slice(1).sort((a, b) => Number(a.outcome === "none") - Number(b.outcome === "none") || Math.abs(b.delta) - Math.abs(a.delta));
  const chosen = new Set([...all.slice(0, 1), ...ranked.slice(0, MOST_CHANGES)]);
  const changes = all.filter((one) => chosen.has(one));
  const reach = Math.max(0.01, ...changes.flatMap((one) => [one.delta, ...(one.interval ?? [])].map(Math.abs)));
  const x = (value: number) => 400 + (value / reach) * 180;
  const height = changes.length * 25;
  const worse = changes.filter((one) => one.outcome === "fail").map((one) => one.name);
  const label = `Changes with 95 % intervals: ${worse.length ? `${worse.join(", ")} regressed` : "nothing regressed"}`;
  return (
    <>
    <ChangeTable changes={changes} />
    {all.length > changes.length && <p className="label">{plural(all.length - changes.length, "more evaluator")} changed less; “Side by side” has all of them.</p>}
    <svg className="chart hide-s" viewBox={`0 0 760 ${height + 20}`} role="img" aria-label={label}>
      <line className="l-fg" x1="400" x2="400" y1="4" y2={height} />
      {[-reach, reach].map((value) => (
        <text key={value} x={x(value)} y={height + 14} textAnchor="middle">{points(value)}</text>
      ))}
      <text x="400" y={height + 14} textAnchor="middle">0</text>
      {changes.map((one, index) => {
        const y = 16 + index * 25;
        const fill = one.outcome === "fail" ? "f-fail" : one.outcome === "pass" ? "f-pass" : "f-fg";
        return (
          <g key={one.name}>
            <NameText className={index === 0 ? "strong" : ""} y={y + 4} name={one.name} most={32} />
            {one.interval !== null && (
              <rect
                className={fill}
                x={x(one.interval[0])}
                y={y - 0.8}
                width={Math.max(1, x(one.interval[1]) - x(one.interval[0]))}
                height="1.6"
              />
            )}
            <circle className={fill} cx={x(one.delta)} cy={y} r="4" />
            <text className={one.outcome === "none" ? "" : `t-${one.outcome}`} x="600" y={y + 4}>
              {points(one.raw)}
            </text>
            <text x="648" y={y + 4}>{CHANGE_WORDS[one.outcome]}</text>
          </g>
        );
      })}
    </svg>
    </>
  );
}

const CHANGE_WORDS: Record<Outcome, string> = {
  fail: "regressed",
  pass: "improved",
  error: "errored",
  none: "no clear change",
};

/** The same changes where a chart would be too small to read. */
function ChangeTable({ changes }: { changes: readonly Change[] }) {
  return (
    <table className="only-s">
      <tbody>
        {changes.map((one) => (
          <tr key={one.name}>
            <th scope="row">{shown(one.name)}</th>
            <td className={`num ${one.outcome}`}>{points(one.raw)}</td>
            <td className="muted num">{CHANGE_WORDS[one.outcome]}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
