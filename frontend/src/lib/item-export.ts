/** The filters of the list of items in the words of the export of the server. */
import type { Query } from "../api/client";
import type { RunSearch } from "../router";

const OUTCOMES = { pass: "passed", fail: "failed", error: "errored", none: "unjudged" } as const;

/** What the export of a run is asked for so that it has the items of the list; empty where nothing filters it. */
export function exportFilter({ search, outcome, evaluator, order, low, high, slice, value }: RunSearch): Query {
  const scoreOf = order?.startsWith("score:") && (low !== undefined || high !== undefined) ? order.slice("score:".length) : undefined;
  const isSliced = slice !== undefined && value !== undefined;
  const query = {
    search,
    outcome: outcome && OUTCOMES[outcome],
    failedEvaluator: evaluator,
    ...(scoreOf !== undefined && { scoreOf, scoreFrom: low, scoreTo: high }),
    ...(isSliced && { metadataKey: slice, metadataValue: value }),
  };
  return Object.fromEntries(Object.entries(query).filter(([, one]) => one !== undefined && one !== ""));
}
