/** The columns of a matrix: what each run is, how it fared and what it took, and which one is best. */
import { Link } from "@tanstack/react-router";
import type { Run } from "../api/queries";
import { isLive } from "../api/queries";
import { cost, count, cut, duration, plural, points, rate, shown } from "../lib/format";
import type { Best } from "../lib/matrix-best";

export interface MatrixColumn {
  readonly run: Run;
  /** The place of the run in the matrix. */
  readonly index: number;
  /** The value by which columns are grouped; null where they are not. */
  readonly group: string | null;
  readonly label: string;
  readonly detail: string | null;
  readonly isBest: boolean;
  /** The median latency of its items in milliseconds. */
  readonly medianMs: number | null;
}

/** What a column is called where it stands alone. */
export const nameOfColumn = (column: MatrixColumn): string => (column.group === null ? column.label : `${column.label} · ${column.group}`);

/** What stands at the head of a column: no rate without its n, errors and what nobody judged on their own. */
export function ColumnFigures({ column: { run, medianMs, isBest } }: { column: MatrixColumn }) {
  const judged = run.judgedCount;
  const decided = judged + run.erroredCount;
  const unjudged = Math.max(0, run.totalItems - decided);
  return (
    <span className="matrix-figures">
      <span>
        <b>{rate(judged === 0 ? null : run.passedItems / judged)}</b> <span className="muted">{count(run.passedItems)}/{count(judged)}</span>
        {isBest && <span className="tag best">★ best</span>}
        {isLive(run.status) && <span className="tag">running</span>}
      </span>
      <span>
        {run.erroredCount > 0 ? <span className="error">! {plural(run.erroredCount, "error")}</span> : <span className="muted">no errors</span>}
        {unjudged > 0 && <span className="muted"> · {count(unjudged)} not judged</span>}
      </span>
      <span className="muted">
        {run.tokenizedItemCount === 0 && run.totalCostUsd === null ? "no cost recorded" : cost(run.totalCostUsd)}
        {run.pricedItemCount < run.tokenizedItemCount && ` (${count(run.pricedItemCount)}/${count(run.tokenizedItemCount)} priced)`}
      </span>
      <span className="muted">{duration(medianMs)} median</span>
    </span>
  );
}

export function ColumnName({ column }: { column: MatrixColumn }) {
  const name = shown(column.label);
  return (
    <>
      <Link className="link cut" to="/runs/$runId" params={{ runId: column.run.id }} title={name.length > 400 ? name.slice(0, 400) : name}><bdi>{shown(cut(column.label, 120))}</bdi></Link>
      {column.detail !== null && <span className="sub cut">{shown(column.detail)}</span>}
    </>
  );
}

/** The best column, where the difference from all others is more than chance; else what cannot be told. */
export function MatrixBest({ best, columns }: { best: Best | null; columns: readonly MatrixColumn[] }) {
  if (best === null) {
    if (columns.length < 2) return null;
    return (
      <>
        <p className="verdict"><span className="none">– Nothing to compare</span></p>
        <p className="sentence">Fewer than two of these runs judged any item.</p>
      </>
    );
  }
  const name = (index: number) => {
    const column = columns.find((one) => one.index === index);
    return column === undefined ? null : <bdi>{shown(cut(nameOfColumn(column), 80))}</bdi>;
  };
  const more = best.doubtCount - 1;
  return (
    <>
      <p className="verdict">
        {best.isSignal
          ? <><span className="pass">★ {name(best.first)}</span> <span className="of">is best, by more than chance</span></>
          : <span className="none">– Too close to call</span>}
      </p>
      <p className="sentence">
        {best.isSignal
          ? <>Next is <b>{name(best.second)}</b>: </>
          : <>No pass rate is above that of <b>{name(best.first)}</b>, which cannot be told apart from <b>{name(best.second)}</b>{more > 0 && ` and ${count(more)} more`}: </>}
        {describeDifference(best)} <span className="muted">What errored counts as not passed here.</span>
      </p>
    </>
  );
}

function describeDifference({ isSignal, comparisonCount, difference: { delta, low, high }, n, better, worse, p }: Best): string {
  if (n === 0) return "no item is judged in both.";
  const together = comparisonCount > 1 ? ` for all ${count(comparisonCount)} comparisons of the first together` : "";
  const text = `${points(delta)} points over ${plural(n, "item")} that both judged, between ${points(low)} and ${points(high)} (95 %${together}).`;
  if (isSignal || low <= 0 || p <= 0.05) return text;
  return `${text} It did better on ${plural(better, "item")} and worse on ${count(worse)}, too few to rule out chance (exact test, p = ${p.toFixed(3)}).`;
}
