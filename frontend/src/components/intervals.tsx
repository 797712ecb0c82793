/** Estimates with their intervals, and the evidence of an alert, on an axis. */
import { rate, score } from "../lib/format";

interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** A mean between 0 and 1 with its interval of 95 %. */
export function IntervalBar({ estimate }: { estimate: Estimate }) {
  const at = (value: number) => Math.min(200, Math.max(0, value * 200));
  return (
    <svg className="ratebar" viewBox="0 0 200 10" preserveAspectRatio="none" role="img" aria-label={`${rate(estimate.value)}, between ${rate(estimate.low)} and ${rate(estimate.high)}`}>
      <rect className="f-none" y="3" width="200" height="4" />
      <rect className="f-pass" y="3" width={at(estimate.value)} height="4" />
      <rect className="f-fg" x={at(estimate.low)} y="4.4" width={at(estimate.high) - at(estimate.low)} height="1.2" />
      <rect className="f-fg" x={at(estimate.low)} y="1.5" width="1.2" height="7" />
      <rect className="f-fg" x={at(estimate.high) - 1.2} y="1.5" width="1.2" height="7" />
    </svg>
  );
}

const LOWEST = 0.1;

/** How far the evidence is from what is needed, on a logarithmic axis. */
export function EvidenceChart({ evidence, needed, fires }: { evidence: number; needed: number; fires: boolean }) {
  const most = Math.max(needed * 10, evidence * 2, 100);
  const x = (value: number) => 20 + (Math.log10(Math.max(value, LOWEST) / LOWEST) / Math.log10(most / LOWEST)) * 940;
  const ticks = [];
  for (let value = LOWEST; value <= most; value *= 10) ticks.push(value);
  const label = `Evidence ${score(evidence)} on a logarithmic scale; the alert fires at ${score(needed)}`;
  return (
    <>
    <p className="only-s">{fires && <span className="fail">✗ </span>}<b>{score(evidence)}</b> of the {score(needed)} at which it fires; 1 means no evidence.</p>
    <div className="hide-s">
    <svg className="chart" viewBox="0 0 1000 96" role="img" aria-label={label}>
      {ticks.map((value) => (
        <g key={value}>
          <line className="l-axis" x1={x(value)} x2={x(value)} y1="30" y2="66" />
          <text x={x(value)} y="84" textAnchor="middle">{value >= 1e5 ? value.toExponential(0).replace("e+", "e") : Number(value.toPrecision(2)).toLocaleString("en-US")}</text>
        </g>
      ))}
      <text x={x(1) + 5} y="26">no evidence</text>
      <line className="l-wish" x1={x(needed)} x2={x(needed)} y1="18" y2="70" />
      <text className="strong" x={x(needed) - 5} y="14" textAnchor="end">fires at {score(needed)}</text>
      <rect className={fires ? "f-fail" : "f-info"} x={x(LOWEST)} y="43" width={Math.max(2, x(evidence) - x(LOWEST))} height="10" rx="2" />
      <text className={fires ? "t-fail" : "strong"} x={x(evidence) + 8} y="52">{fires ? "✗ " : ""}{evidence >= 1e5 ? evidence.toExponential(1) : score(evidence)}</text>
    </svg>
    </div>
    </>
  );
}
