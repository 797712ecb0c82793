/** What was spent on each day, in bars from zero, beside a budget. */
import type { DayBar } from "../lib/ledger";

interface Props {
  readonly bars: readonly DayBar[];
  readonly limit: number | null;
  readonly form: (value: number) => string;
  readonly label: string;
}

const LEFT = 84;
const WIDTH = 500;
const HEIGHT = 130;

export function DayChart({ bars, limit, form, label }: Props) {
  const most = Math.max(...bars.map((bar) => bar.spent + bar.reserved), limit ?? 0);
  const end = most === 0 ? 1 : most;
  const y = (value: number) => 12 + (1 - value / end) * HEIGHT;
  const step = WIDTH / Math.max(1, bars.length);
  const ticks = limit !== null && limit < most * 0.9 ? [0, limit, most] : [0, most];
  return (
    <svg className="chart" viewBox="0 0 600 172" role="img" aria-label={label}>
      {ticks.map((tick) => (
        <g key={tick}>
          <line className={tick === limit ? "l-wish" : "l-axis"} x1={LEFT} x2={LEFT + WIDTH} y1={y(tick)} y2={y(tick)} />
          <text x={LEFT - 6} y={y(tick) + 4} textAnchor="end">{form(tick)}</text>
        </g>
      ))}
      {limit !== null && <text x={LEFT + WIDTH} y={y(limit) + (limit > end * 0.85 ? 14 : -5)} textAnchor="end" className="strong">budget of a day</text>}
      {bars.map((bar, index) => (
        <g key={bar.day}>
          <title>{`${bar.day} (UTC): ${form(bar.spent)} spent${bar.reserved > 0 ? `, ${form(bar.reserved)} reserved` : ""}`}</title>
          <rect className="ledger-hit" x={LEFT + index * step} y="12" width={step} height={HEIGHT} />
          <rect className={limit !== null && bar.spent >= limit && bar.spent > 0 ? "f-fail" : "f-info"} x={LEFT + index * step + step * 0.15} width={step * 0.7} y={y(bar.spent)} height={(bar.spent / end) * HEIGHT} />
          <rect className="f-none" x={LEFT + index * step + step * 0.15} width={step * 0.7} y={y(bar.spent + bar.reserved)} height={(bar.reserved / end) * HEIGHT} />
        </g>
      ))}
      <text x={LEFT} y="164">{bars[0]?.day}</text>
      <text x={LEFT + WIDTH} y="164" textAnchor="end">{bars.at(-1)?.day} (UTC)</text>
    </svg>
  );
}
