/** Lines and bars over time, from zero, with what they say as a label. */
import { time } from "../lib/format";

interface Line {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

interface Props {
  readonly times: readonly string[];
  readonly lines: readonly Line[];
  readonly form: (value: number) => string;
  /** The end of the axis; by default the greatest value. */
  readonly most?: number;
  readonly label: string;
}

export function LineChart({ times, lines, form, most, label }: Props) {
  const top = most ?? Math.max(...lines.flatMap((line) => line.values.map((value) => value ?? 0)), 0);
  const end = top === 0 ? 1 : top;
  const x = (index: number) => 64 + (times.length < 2 ? 0 : (index / (times.length - 1)) * 420);
  const y = (value: number) => 12 + (1 - Math.min(1, value / end)) * 130;
  return (
    <svg className="chart trend" viewBox="0 0 600 172" role="img" aria-label={label}>
      {[0, 0.5, 1].map((part) => (
        <g key={part}>
          <line className="l-axis" x1="64" x2="484" y1={y(end * part)} y2={y(end * part)} />
          <text x="58" y={y(end * part) + 4} textAnchor="end">{form(end * part)}</text>
        </g>
      ))}
      {lines.map((line, order) => {
        const last = line.values.findLastIndex((value) => value !== null);
        return (
          <g key={line.name}>
            {partsOf(line.values).map((part) => part.length === 1
              ? <circle key={part[0]} className="f-info" cx={x(part[0] as number)} cy={y(line.values[part[0] as number] ?? 0)} r="2" />
              : <polyline key={part[0]} className={order === 0 ? "l-data" : "l-int"} fill="none" points={part.map((index) => `${x(index).toFixed(1)},${y(line.values[index] ?? 0).toFixed(1)}`).join(" ")} />)}
            {last >= 0 && <text className={order === 0 ? "strong" : ""} x="490" y={placeOf(lines, order, (value) => y(value))}>{line.name} {form(line.values[last] ?? 0)}</text>}
          </g>
        );
      })}
      {times[0] !== undefined && <text x="64" y="164">{time(times[0])}</text>}
      {times.length > 1 && <text x="484" y="164" textAnchor="end">{time(times.at(-1) ?? "")}</text>}
    </svg>
  );
}

const LINE = 20; // of text, as large as narrow pages have it

/** Where the name of a line stands, at least a line of text from the one above. */
function placeOf(lines: readonly Line[], order: number, y: (value: number) => number): number {
  const wanted = lines.map((line) => y(line.values.findLast((value) => value !== null) ?? 0) + 4);
  if (order === 0) return wanted[0] ?? 0;
  const [first = 0, own = 0] = [wanted[0], wanted[order]];
  return Math.abs(first - own) >= LINE ? own : own < first || (own === first && first > LINE + 6) ? first - LINE : first + LINE;
}

/** Runs of places without a gap. */
function partsOf(values: readonly (number | null)[]): number[][] {
  const parts: number[][] = [];
  values.forEach((value, index) => {
    if (value === null) return;
    const last = parts.at(-1);
    if (last !== undefined && last.at(-1) === index - 1) last.push(index);
    else parts.push([index]);
  });
  return parts;
}
