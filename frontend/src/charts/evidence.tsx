/** The evidence of an alert over time on a logarithmic scale, beside what it takes to fire, with what was decided. */
import type { EvidencePoint } from "../api/online";
import { score, time } from "../lib/format";
import { LOWEST, placeOfEvidence, ticksOfEvidence } from "../lib/evidence";

export interface Mark {
  readonly at: string;
  readonly sign: string;
  readonly text: string;
}

interface Props {
  readonly points: readonly EvidencePoint[];
  readonly marks: readonly Mark[];
}

const LEFT = 64;
const RIGHT = 560;
const TOP = 22;
const BOTTOM = 150;
const MARKS_AT = 14;

export function EvidenceOverTime({ points, marks }: Props) {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined) return null;
  const start = Date.parse(first.at);
  const span = Math.max(1, Date.parse(last.at) - start);
  const most = Math.max(last.needed * 2, ...points.map((one) => one.evidence), 100);
  const x = (at: string) => LEFT + Math.min(1, Math.max(0, (Date.parse(at) - start) / span)) * (RIGHT - LEFT);
  const y = (value: number) => BOTTOM - placeOfEvidence(value, most) * (BOTTOM - TOP);
  const line = (chosen: readonly EvidencePoint[]) => chosen.map((one) => `${x(one.at).toFixed(1)},${y(one.evidence).toFixed(1)}`).join(" ");
  const peak = points.reduce((best, one) => (one.evidence > best.evidence ? one : best));
  const shownMarks = marks.filter((mark) => Date.parse(mark.at) >= start);
  return (
    <svg className="chart" viewBox="0 0 600 176" role="img" aria-label={`Evidence from ${time(first.at)} to ${time(last.at)}: ${score(last.evidence)} now, ${score(peak.evidence)} at most, ${time(peak.at)}; it fires at ${score(last.needed)}`}>
      {ticksOfEvidence(most).map((tick) => (
        <g key={tick}>
          <line className="l-axis" x1={LEFT} x2={RIGHT} y1={y(tick)} y2={y(tick)} />
          <text x={LEFT - 6} y={y(tick) + 4} textAnchor="end">{tick >= 1e5 ? tick.toExponential(0).replace("e+", "e") : tick.toLocaleString("en-US")}</text>
        </g>
      ))}
      <polyline className="l-wish" fill="none" points={points.map((one) => `${x(one.at).toFixed(1)},${y(one.needed).toFixed(1)}`).join(" ")} />
      <text className="strong" x={LEFT + 4} y={y(first.needed) - 5}>fires at {score(last.needed)}</text>
      <polyline className="l-data" points={line(points)} />
      {points.filter((one) => one.status === "FIRING").map((one) => <circle key={one.at} className="f-fail" cx={x(one.at)} cy={y(one.evidence)} r="2.5" />)}
      {shownMarks.map((mark) => (
        <g key={mark.at + mark.text}>
          <title>{`${time(mark.at)}: ${mark.text}`}</title>
          <line className="l-axis" x1={x(mark.at)} x2={x(mark.at)} y1={MARKS_AT + 4} y2={BOTTOM} />
          <text className={`t-${mark.sign}`} x={x(mark.at)} y={MARKS_AT} textAnchor="middle">{mark.text.slice(0, 1)}</text>
        </g>
      ))}
      <text x={LEFT} y="168">{time(first.at)}</text>
      <text x={RIGHT} y="168" textAnchor="end">{time(last.at)}</text>
      {y(last.evidence) < BOTTOM && <text className="strong" x={RIGHT + 4} y={y(Math.max(last.evidence, LOWEST)) + 4}>{last.evidence >= 1e5 ? last.evidence.toExponential(0).replace("e+", "e") : Number(last.evidence.toPrecision(2)).toLocaleString("en-US")}</text>}
    </svg>
  );
}
