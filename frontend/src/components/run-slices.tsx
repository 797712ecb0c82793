/** Where a run is weak: its pass rate by the values of one key of the items' metadata, read when somebody looks. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { type Run, itemAttributesQuery } from "../api/queries";
import { RateBar } from "../charts/charts";
import { count, cut, plural, rate, shown } from "../lib/format";
import type { Outline } from "../lib/outline";
import { pairRuns, sliceItems } from "../lib/pairing";
import { Failure, Loading } from "./bits";

const route = getRouteApi("/runs/$runId");

interface Props {
  readonly run: Run;
  readonly outline: Outline;
  readonly version: string;
}

export function RunSlices({ run, outline, version }: Props) {
  const chosen = route.useSearch({ select: (search) => search.slice });
  const [isOpen, setIsOpen] = useState(chosen !== undefined);
  return (
    <section>
      <details open={isOpen} onToggle={(event) => setIsOpen(event.currentTarget.open)}>
        <summary>Pass rate by metadata</summary>
        {isOpen && <Slices run={run} outline={outline} version={version} />}
      </details>
    </section>
  );
}

function Slices({ run, outline, version }: Props) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const attributes = useQuery(itemAttributesQuery(run.id, version));
  const pairing = useMemo(() => (attributes.data === undefined ? null : pairRuns([{ outline, attributes: attributes.data }], "ordinal")), [outline, attributes.data]);
  const names = attributes.data?.metadata.map((one) => one.name) ?? [];
  const name = search.slice !== undefined && names.includes(search.slice) ? search.slice : names[0];
  const slices = useMemo(
    () => (pairing === null || name === undefined ? [] : sliceItems(pairing, name).sort((a, b) => (a.rates[0] ?? 0) - (b.rates[0] ?? 0) || b.n - a.n)),
    [pairing, name],
  );
  if (attributes.isPending) return <Loading />;
  if (attributes.isLoadingError) return <Failure error={attributes.error} retry={() => void attributes.refetch()} />;
  if (name === undefined) return <p className="muted">No key of the items’ metadata has few values, such as a topic.</p>;
  const choose = (next: { slice: string; value?: string }) =>
    void navigate({ search: ({ slice: _, value: __, ...rest }) => ({ ...rest, ...next }), replace: true, resetScroll: false });
  return (
    <>
      <div className="bar spaced-top">
        <label className="label">
          by{" "}
          <select className="field" value={name} onChange={(event) => choose({ slice: event.target.value })}>
            {names.map((one) => <option key={one} value={one}>{shown(one)}</option>)}
          </select>
        </label>
        <span className="label">the lowest first, of the judged items; errors count as not passed{slices.length > 5 && `; of ${plural(slices.length, "value")} some differ by chance`}</span>
      </div>
      <div className="panel gap">
        <table>
          <thead><tr><th>{shown(name)}</th><th className="num">n</th><th className="num">Pass rate</th><th className="hide-s">95 % interval</th></tr></thead>
          <tbody>
            {slices.map((slice) => {
              const isChosen = search.slice === name && search.value === slice.value;
              return (
                <tr key={slice.value} className={isChosen ? "on" : ""}>
                  <th scope="row">
                    <button type="button" className="plain link" aria-pressed={isChosen} onClick={() => choose({ slice: name, ...(isChosen ? {} : { value: slice.value }) })}>
                      {shown(cut(slice.value, 80)) || "(empty)"}
                    </button>
                  </th>
                  <td className="num none">{count(slice.n)}</td>
                  <td className="num">{rate(slice.rates[0])}</td>
                  <td className="hide-s"><RateBar passed={(slice.rates[0] ?? 0) * slice.n} judged={slice.n} /></td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </>
  );
}
