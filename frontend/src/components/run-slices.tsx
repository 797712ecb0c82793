/** Where a run is weak: its pass rate by the values of one key of the items' metadata, read when somebody looks. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { type Run, itemAttributesQuery } from "../api/queries";
import { RateBar } from "../charts/charts";
import { plural, rate } from "../lib/format";
import type { Outline } from "../lib/outline";
import { pairRuns, sliceItems } from "../lib/pairing";
import { Failure, Loading } from "./bits";
import { SliceKey, SliceTable } from "./slice-table";

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
  const chosen = search.slice === name ? search.value : undefined;
  const choose = (next: { slice: string; value?: string }) =>
    void navigate({ search: ({ slice: _, value: __, ...rest }) => ({ ...rest, ...next }), replace: true, resetScroll: false });
  return (
    <>
      <div className="bar spaced-top">
        <SliceKey names={names} name={name} onChoose={(slice) => choose({ slice })} />
        <span className="label">the lowest first, of the judged items; errors count as not passed{slices.length > 5 && `; of ${plural(slices.length, "value")} some differ by chance`}</span>
      </div>
      <div className="panel gap">
        <SliceTable
          name={name}
          slices={slices}
          chosen={chosen}
          onChoose={(value) => choose({ slice: name, ...(value === chosen ? {} : { value }) })}
          head={<><th role="columnheader" className="num">Pass rate</th><th role="columnheader" className="hide-s">95 % interval</th></>}
          cells={({ rates, n }) => (
            <><td role="cell" className="num">{rate(rates[0])}</td><td role="cell" className="hide-s"><RateBar passed={(rates[0] ?? 0) * n} judged={n} /></td></>
          )}
        />
      </div>
    </>
  );
}
