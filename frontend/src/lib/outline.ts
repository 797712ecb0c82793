/** What a run's outline says: order, filters, histograms and figures, without asking the server again. */
import type { OutlineAnswer } from "../api/queries";

export type Outcome = "pass" | "fail" | "error" | "none";

const OUTCOMES: Record<string, Outcome> = { p: "pass", f: "fail", e: "error", u: "none" };
const SEVERITY: Record<Outcome, number> = { fail: 0, error: 1, none: 2, pass: 3 };

export interface Column {
  readonly name: string;
  readonly scores: readonly (number | null)[];
  readonly outcomes: string;
}

export interface Outline {
  readonly size: number;
  readonly ordinals: readonly number[];
  readonly repetitions: readonly number[];
  readonly outcomes: readonly Outcome[];
  readonly latencies: readonly (number | null)[];
  readonly columns: readonly Column[];
  readonly excluded: readonly string[];
}

export function readOutline(answer: OutlineAnswer): Outline {
  return {
    size: answer.ordinals.length,
    ordinals: answer.ordinals,
    repetitions: answer.repetitions,
    outcomes: Array.from(answer.outcomes, (letter) => OUTCOMES[letter] ?? "none"),
    latencies: answer.latenciesMs,
    columns: answer.evaluators.map((one) => ({
      name: one.evaluatorName,
      scores: one.scores,
      outcomes: one.outcomes,
    })),
    excluded: answer.excludedEvaluators,
  };
}

export interface Counts {
  readonly pass: number;
  readonly fail: number;
  readonly error: number;
  readonly none: number;
}

export function countOutcomes(outcomes: readonly Outcome[]): Counts {
  const counts = { pass: 0, fail: 0, error: 0, none: 0 };
  for (const outcome of outcomes) counts[outcome] += 1;
  return counts;
}

export type Order = "worst" | "ordinal" | "slowest" | `score:${string}`;

export interface Filter {
  readonly outcome: Outcome | null;
  readonly failedEvaluator: string | null;
  readonly order: Order;
  /** Between which scores of an evaluator; null where there is no bound. */
  readonly range?: { readonly evaluator: string; readonly low: number | null; readonly high: number | null } | null;
}

const orders = new WeakMap<Outline, Map<Order, readonly number[]>>();

/** All positions in an order; each order of an outline is worked out once. */
export function sortPositions(outline: Outline, order: Order): readonly number[] {
  const known = orders.get(outline) ?? new Map<Order, readonly number[]>();
  orders.set(outline, known);
  const before = known.get(order);
  if (before !== undefined) return before;
  const positions = Array.from({ length: outline.size }, (_, position) => position);
  if (order !== "ordinal") positions.sort(comparePositions(outline, order));
  known.set(order, positions);
  return positions;
}

/** The positions of the items that a filter leaves, in its order. */
export function select(outline: Outline, filter: Filter, found: ReadonlySet<string> | null = null): readonly number[] {
  const { outcome, failedEvaluator } = filter;
  const range = filter.range == null || (filter.range.low === null && filter.range.high === null) ? null : filter.range;
  const scores = outline.columns.find((one) => one.name === range?.evaluator)?.scores;
  const isWithin = (score: number | null) => score !== null && score >= (range?.low ?? -Infinity) && score <= (range?.high ?? Infinity);
  const column = outline.columns.find((one) => one.name === failedEvaluator);
  const all = sortPositions(outline, filter.order);
  if (outcome === null && failedEvaluator === null && range === null && found === null) return all;
  return all.filter(
    (position) =>
      (outcome === null || outline.outcomes[position] === outcome) &&
      (failedEvaluator === null || column?.outcomes[position] === "f") &&
      (range === null || isWithin(scores?.[position] ?? null)) &&
      (found === null || found.has(placeOf(outline, position))),
  );
}

/** The evaluators whose scores a row may show: those that judge, those of the names first, which need not judge. */
export function chooseScored(outline: Outline, names: readonly (string | undefined)[]): Column[] {
  const first = outline.columns.filter((one) => names.includes(one.name));
  return [...first, ...outline.columns.filter((one) => /[pf]/.test(one.outcomes) && !first.includes(one))];
}

/** Which item stands at a position: its ordinal and its repetition. */
export function placeOf(outline: Outline, position: number): string {
  return `${outline.ordinals[position]}.${outline.repetitions[position]}`;
}

/** The item beside one in a list, its first where that one is not in it; null at an end. */
export function findStep(outline: Outline, positions: readonly number[], place: string, by: 1 | -1): string | null {
  const [ordinal, repetition = "0"] = place.split("."); // an address without quotes says `3` for `3.0`
  const at = positions.findIndex((position) => placeOf(outline, position) === `${ordinal}.${repetition}`);
  const next = positions[at < 0 ? 0 : at + by];
  return next === undefined ? null : placeOf(outline, next);
}

function comparePositions(outline: Outline, order: Exclude<Order, "ordinal">): (a: number, b: number) => number {
  if (order === "slowest") {
    return (a, b) => (outline.latencies[b] ?? -1) - (outline.latencies[a] ?? -1) || a - b;
  }
  if (order.startsWith("score:")) {
    const scores = outline.columns.find((one) => one.name === order.slice("score:".length))?.scores ?? [];
    return (a, b) => (scores[a] ?? Infinity) - (scores[b] ?? Infinity) || a - b;
  }
  const badness = failuresOf(outline);
  return (a, b) =>
    SEVERITY[outline.outcomes[a] ?? "none"] - SEVERITY[outline.outcomes[b] ?? "none"] ||
    (badness[b] ?? 0) - (badness[a] ?? 0) ||
    a - b;
}

/** The items to look at first: the worst, with one that errored among them, if any did. */
export function findWorst(outline: Outline, most: number): number[] {
  const order = sortPositions(outline, "worst");
  const failed = order.filter((position) => outline.outcomes[position] === "fail");
  const errored = order.filter((position) => outline.outcomes[position] === "error");
  return [...failed.slice(0, most - Math.min(1, errored.length)), ...errored].slice(0, most);
}

/** How many evaluators are not content with each item. */
function failuresOf(outline: Outline): Float64Array {
  const failures = new Float64Array(outline.size);
  for (const column of outline.columns) {
    for (let position = 0; position < outline.size; position += 1) {
      if (column.outcomes[position] === "f") failures[position] = (failures[position] ?? 0) + 1;
    }
  }
  return failures;
}

export interface Histogram {
  readonly low: number;
  readonly high: number;
  readonly bins: readonly number[];
}

const BINS = 10;

/** Ten bins over the range of an evaluator, or of its scores where it has none. */
export function histogram(scores: readonly (number | null)[], range: readonly [number | null, number | null]): Histogram | null {
  let [low, high] = range;
  let least = Infinity;
  let most = -Infinity;
  for (const score of scores) {
    if (score === null) continue;
    least = Math.min(least, score);
    most = Math.max(most, score);
  }
  if (least > most) return null;
  low = Math.min(low ?? least, least);
  high = Math.max(high ?? most, most);
  const bins = new Array<number>(BINS).fill(0);
  const width = high - low || 1;
  for (const score of scores) {
    if (score === null) continue;
    const bin = Math.min(BINS - 1, Math.floor(((score - low) / width) * BINS));
    bins[bin] = (bins[bin] ?? 0) + 1;
  }
  return { low, high: high === low ? low + 1 : high, bins };
}

/** A quantile of the known values; null where none is known. */
export function quantile(values: readonly (number | null)[], share: number): number | null {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  if (known.length === 0) return null;
  return known[Math.min(known.length - 1, Math.max(0, Math.ceil(share * known.length) - 1))] ?? null;
}

/** Wilson's interval of 95 % for a rate; null of nothing. (E. B. Wilson, 1927, doi:10.2307/2276774) */
export function wilson(passed: number, judged: number): readonly [number, number] | null {
  if (judged === 0) return null;
  const z = 1.959964;
  const rate = passed / judged;
  const centre = rate + (z * z) / (2 * judged);
  const half = z * Math.sqrt((rate * (1 - rate)) / judged + (z * z) / (4 * judged * judged));
  const scale = 1 + (z * z) / judged;
  return [Math.max(0, (centre - half) / scale), Math.min(1, (centre + half) / scale)];
}
