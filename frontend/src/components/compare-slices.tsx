/** Where runs differ: their pass rates by the values of one key of the items' metadata. */
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Run } from "../api/queries";
import { count, cut, points, rate, shown } from "../lib/format";
import { type Pairing, sliceItems } from "../lib/pairing";
import { wordOfRun } from "../lib/runs";
import { SliceKey, SliceTable } from "./slice-table";

const route = getRouteApi("/experiments/$experimentId/runs/$runId/diff");

export function Slices({ pairing, runs }: { pairing: Pairing; runs: readonly Run[] }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const names = [...new Set(pairing.sides.flatMap((side) => side.attributes?.metadata.map((column) => column.name) ?? []))];
  const name = search.slice !== undefined && names.includes(search.slice) ? search.slice : names[0];
  const slices = useMemo(() => (name === undefined ? [] : sliceItems(pairing, name)), [pairing, name]);
  if (name === undefined || slices.length === 0) return null;
  const choose = (next: { slice?: string; value?: string }) =>
    void navigate({ search: ({ value: _, item: __, ...rest }) => ({ ...rest, ...next }), replace: true, resetScroll: false });
  return (
    <section>
      <div className="sec">
        <h2>Where it changed</h2>
        <SliceKey names={names} name={name} onChoose={(slice) => choose({ slice })} />
        <span className="label">
          items that every run judged{runs.length === 2 && "; in brackets the 95 % interval"}
          {slices.length > 5 && `; of ${count(slices.length)} slices some differ by chance`}
        </span>
      </div>
      <div className="panel">
        <SliceTable
          name={name}
          slices={slices}
          isCards
          chosen={search.slice === name ? search.value : undefined}
          onChoose={(value) => choose({ slice: name, value })}
          head={
            <>
              {runs.map((run, index) => (
                <th role="columnheader" key={run.id} className="num">{index === 0 ? "Baseline" : runs.length === 2 ? "Candidate" : shown(cut(run.name ?? run.id, 24))}</th>
              ))}
              {runs.length === 2 && <th role="columnheader" className="num">Change, in points</th>}
            </>
          }
          cells={(slice) => (
            <>
              {slice.rates.map((one, index) => (
                <td role="cell" key={runs[index]?.id} className="num" data-label={wordOfRun(index, runs.length)}>
                  {rate(one)}
                  {runs.length > 2 && <ChangeWord change={slice.changes[index] ?? null} />}
                </td>
              ))}
              {runs.length === 2 && <td role="cell" className="num" data-label="Change, in points"><ChangeWord change={slice.changes[1] ?? null} withInterval /></td>}
            </>
          )}
        />
      </div>
    </section>
  );
}

interface ChangeWordProps {
  readonly change: { readonly delta: number; readonly low: number; readonly high: number } | null;
  readonly withInterval?: boolean;
}

function ChangeWord({ change, withInterval = false }: ChangeWordProps) {
  if (change === null) return null;
  const outcome = change.high < 0 ? "fail" : change.low > 0 ? "pass" : "none";
  return (
    <>
      {" "}
      <span className={outcome}>{outcome === "fail" ? "✗ " : outcome === "pass" ? "✓ " : ""}{points(change.delta)}</span>
      {withInterval && <span className="muted"> [{points(change.low)}, {points(change.high)}]</span>}
    </>
  );
}
