/** The items of runs that a trace is known to belong to: those of its reviews, and the one from which it was opened. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { itemOfRunQuery } from "../api/queries";
import { type TraceDetails, reviewsQuery } from "../api/traces";
import { shown } from "../lib/format";
import { nameOf, readPlace, traceOf } from "../lib/items";

const MOST = 3;

interface Props {
  readonly trace: TraceDetails;
  /** The run and the item of the address. */
  readonly run: string | undefined;
  readonly item: string | undefined;
}

export function TraceItems({ trace, run, item }: Props) {
  const reviews = useQuery(reviewsQuery(trace.id));
  const opened = run === undefined || item === undefined ? null : readPlace(item);
  const places = [
    ...(run === undefined || opened === null ? [] : [{ runId: run, ...opened }]),
    ...(reviews.data?.content ?? []).map(({ runId, itemId }) => ({ runId, itemId })),
  ];
  const answers = useQueries({ queries: places.slice(0, MOST).map(itemOfRunQuery) });
  const found = answers.flatMap(({ data }, index) => {
    if (data?.item == null) return [];
    // An address can name any item: only one that names this trace is said to be of it.
    const isOfIt = places[index] !== undefined && ("itemId" in places[index] || traceOf(data.item)?.traceId === trace.traceId);
    return isOfIt ? [{ run: data.run, item: data.item }] : [];
  });
  return found
    .filter((one, index) => found.findIndex((other) => other.item.id === one.item.id) === index)
    .map(({ run: of, item: one }) => (
      <span key={one.id}>
        <Link className="link" to="/runs/$runId" params={{ runId: of.id }} search={{ item: `${one.ordinal}.${one.repetition}` }}>
          item {shown(nameOf(one))}
        </Link>{" "}
        of run {shown(of.name ?? of.experimentName)}
      </span>
    ));
}
