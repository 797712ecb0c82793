/** A cost that is the sum of the model calls with a known price: it says where others are missing in it. */
import { cost, count } from "./format";

export interface Priced {
  readonly costUsd: number | null;
  /** Model calls whose cost is known; null where nobody has counted them. */
  readonly pricedCallCount: number | null;
  /** Model calls that used tokens at an unknown price. */
  readonly unpricedCallCount: number | null;
}

export const NOTHING_PRICED: Priced = { costUsd: null, pricedCallCount: null, unpricedCallCount: null };

/** Adds up what is known on either side. */
export function addPriced(one: Priced, other: Priced): Priced {
  const add = (a: number | null, b: number | null) => (a === null || b === null ? (a ?? b) : a + b);
  return {
    costUsd: add(one.costUsd, other.costUsd),
    pricedCallCount: add(one.pricedCallCount, other.pricedCallCount),
    unpricedCallCount: add(one.unpricedCallCount, other.unpricedCallCount),
  };
}

export function isLowerBound({ costUsd, unpricedCallCount }: Priced): boolean {
  return costUsd !== null && (unpricedCallCount ?? 0) > 0;
}

/** For a cell: `≥ $0.0120` where calls are missing in it. */
export function leastCost(priced: Priced): string {
  return `${isLowerBound(priced) ? "≥ " : ""}${cost(priced.costUsd)}`;
}

/** `2 of 5 calls unpriced`; empty where none is missing in the sum, or all are. */
export function unpricedNote(priced: Priced): string {
  const unpriced = priced.unpricedCallCount ?? 0;
  const calls = unpriced + (priced.pricedCallCount ?? 0);
  return isLowerBound(priced) ? `${count(unpriced)} of ${count(calls)} calls unpriced` : "";
}

/** For a sentence: `at least $0.0120 (2 of 5 calls unpriced)`. */
export function costInWords(priced: Priced): string {
  return isLowerBound(priced) ? `at least ${cost(priced.costUsd)} (${unpricedNote(priced)})` : cost(priced.costUsd);
}
