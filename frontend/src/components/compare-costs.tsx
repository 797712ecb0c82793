/** What runs took beside how they fared: latency, cost and tokens, so that a gain is seen with its price. */
import type { Run } from "../api/queries";
import { cost, count, cut, duration, percent, shown } from "../lib/format";
import { quantile } from "../lib/outline";
import type { Pairing } from "../lib/pairing";
import { wordOfRun } from "../lib/runs";

interface Figures {
  readonly median: number | null;
  readonly slow: number | null;
  readonly costPerItem: number | null;
  readonly tokensPerItem: number | null;
}

export function Costs({ pairing, runs }: { pairing: Pairing; runs: readonly Run[] }) {
  const figures = runs.map((run, index): Figures => {
    const latencies = pairing.sides[index]?.outline.latencies ?? [];
    const tokens = (run.totalTokensIn ?? 0) + (run.totalTokensOut ?? 0);
    return {
      median: quantile(latencies, 0.5),
      slow: quantile(latencies, 0.95),
      costPerItem: run.totalCostUsd === null || run.pricedItemCount === 0 ? null : run.totalCostUsd / run.pricedItemCount,
      tokensPerItem: run.tokenizedItemCount === 0 ? null : tokens / run.tokenizedItemCount,
    };
  });
  const base = figures[0];
  if (base === undefined || figures.every((one) => Object.values(one).every((value) => value === null))) return null;
  const hasTokens = figures.some((one) => one.tokensPerItem !== null || one.costPerItem !== null);
  const cell = (name: keyof Figures, label: string, index: number, form: (value: number | null) => string) => {
    const value = figures[index]?.[name] ?? null;
    return <td role="cell" className="num" data-label={label}>{form(value)}{index > 0 && <span className="sub">{percent(base[name], value)}</span>}</td>;
  };
  return (
    <section>
      <div className="sec"><h2>{hasTokens ? "Latency and cost" : "Latency"}</h2><span className="label">of all items of each run, beside the baseline</span></div>
      <div className="panel">
        <table role="table" className="cards-s">
          <thead role="rowgroup">
            <tr role="row">
              <th role="columnheader">Run</th>
              <th role="columnheader" className="num">Latency, median</th>
              <th role="columnheader" className="num">95th percentile</th>
              {hasTokens && <><th role="columnheader" className="num">Cost per item</th><th role="columnheader" className="num">Tokens per item</th><th role="columnheader" className="num">Total cost</th></>}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {runs.map((run, index) => (
              <tr role="row" key={run.id}>
                <th scope="row" role="rowheader">{shown(cut(run.name ?? run.id, 40))}<span className="sub">{wordOfRun(index, runs.length)}</span></th>
                {cell("median", "Latency, median", index, duration)}
                {cell("slow", "95th percentile", index, duration)}
                {hasTokens && cell("costPerItem", "Cost per item", index, (value) => (figures[index]?.tokensPerItem == null && value === null ? "–" : cost(value)))}
                {hasTokens && cell("tokensPerItem", "Tokens per item", index, (value) => (value === null ? "–" : count(Math.round(value))))}
                {hasTokens && <td role="cell" className="num" data-label="Total cost">
                  {run.tokenizedItemCount === 0 && run.totalCostUsd === null ? "–" : cost(run.totalCostUsd)}
                  {run.pricedItemCount < run.tokenizedItemCount && <span className="sub">{count(run.pricedItemCount)}/{count(run.tokenizedItemCount)} items priced</span>}
                </td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
