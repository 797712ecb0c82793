/** The table of runs: its columns, what is chosen to compare, and how evaluators went over runs. */
import { wilson } from "./outline";

export const COLUMNS = [
  { name: "status", title: "Status", by: null, isNumber: false },
  { name: "rate", title: "Pass rate", by: "passRate", isNumber: true },
  { name: "passed", title: "Passed", by: null, isNumber: true },
  { name: "errors", title: "Errors", by: null, isNumber: true },
  { name: "cost", title: "Cost", by: "totalCostUsd", isNumber: true },
  { name: "tokens", title: "Tokens", by: null, isNumber: true },
  { name: "latency", title: "Latency", by: "avgLatencyMs", isNumber: true },
  { name: "model", title: "Model", by: null, isNumber: false },
  { name: "dataset", title: "Dataset", by: null, isNumber: false },
  { name: "branch", title: "Branch", by: null, isNumber: false },
  { name: "tags", title: "Tags", by: null, isNumber: false },
] as const;

export const RUN_STATUSES = ["SUCCESS", "FAILED", "RUNNING", "EVALUATING", "CANCELLED"] as const;

/** The status of a run in words: how it ended, which says nothing of what it scored. */
export const sayStatus = (status: string): string => (status === "SUCCESS" ? "completed" : status.toLowerCase());

export const RUN_ORDERS = ["startedAt", "passRate", "totalCostUsd", "avgLatencyMs"].flatMap((by) => [`${by},desc`, `${by},asc`]);

export type ColumnName = (typeof COLUMNS)[number]["name"];

const USUAL: readonly ColumnName[] = ["status", "rate", "passed", "errors", "cost", "latency", "branch"];
/** Of so many runs at most the page of comparisons says how they differ. */
export const MOST_COMPARED = 4;
/** So many runs have room as columns of a matrix. */
export const MOST_CHOSEN = 24;

/** The columns of an address, such as `rate,cost`; the usual ones where it names none that there are. */
export function readColumns(text: string | undefined): readonly ColumnName[] {
  const wanted = text?.split(",") ?? [];
  const named = COLUMNS.map((one) => one.name).filter((name) => wanted.includes(name));
  return named.length > 0 ? named : USUAL;
}

/** The columns with one more or one less, as the address has them; undefined for the usual ones. */
export function toggleColumn(columns: readonly ColumnName[], name: ColumnName): string | undefined {
  const chosen = COLUMNS.map((one) => one.name).filter((one) => (one === name) !== columns.includes(one));
  return chosen.length === 0 || chosen.join() === USUAL.join() ? undefined : chosen.join();
}

/** The chosen runs with one more or one less; of more than a matrix shows, the first one goes. */
export function chooseRun<T extends { readonly id: string }>(chosen: readonly T[], run: T): readonly T[] {
  if (chosen.some((one) => one.id === run.id)) return chosen.filter((one) => one.id !== run.id);
  return [...chosen, run].slice(-MOST_CHOSEN);
}

/**
 * An interval of at least 95 % for a mean of scores within a range, from their number alone: nothing within a
 * range varies more than a coin with the same mean. (R. Bhatia and C. Davis, 2000, doi:10.2307/2589180)
 */
export function meanInterval(mean: number, n: number, low: number, high: number): readonly [number, number] | null {
  if (!(high > low) || mean < low || mean > high) return null;
  const interval = wilson(((mean - low) / (high - low)) * n, n);
  return interval && [low + interval[0] * (high - low), low + interval[1] * (high - low)];
}

/** What a run of a comparison is called where its name has no room: the word by which it was chosen. */
export const wordOfRun = (index: number, count: number): string => (index === 0 ? "baseline" : count === 2 ? "candidate" : `candidate ${index}`);
