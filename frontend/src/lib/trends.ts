/** The pass rate of an experiment over its runs: what changed between them, and the part of the axis that is shown. */
import { wilson } from "./outline";

interface Rated {
  readonly passed: number;
  readonly judged: number;
}

const STARTS: readonly number[] = [0.99, 0.98, 0.95, 0.9];

/** Where the axis may begin so that rates near 100 % can be told apart, with their intervals whole; 0 where it may not. */
export function findAxisStart(runs: readonly Rated[]): number {
  const lows = runs.flatMap((run) => wilson(run.passed, run.judged)?.[0] ?? []);
  const lowest = Math.min(...lows);
  return lows.length < 2 ? 0 : (STARTS.find((start) => start <= lowest) ?? 0);
}

/** Evaluators that changed, by the runs that are shown: what a run in between changed counts for the next one. */
export function placeChanges(
  points: readonly { readonly runId: string; readonly changedEvaluators: readonly string[] }[],
  isShown: (runId: string) => boolean,
): Map<string, readonly string[]> {
  const changes = new Map<string, readonly string[]>();
  let waiting: readonly string[] = [];
  for (const { runId, changedEvaluators } of points) {
    waiting = [...new Set([...waiting, ...changedEvaluators])];
    if (!isShown(runId)) continue;
    changes.set(runId, waiting);
    waiting = [];
  }
  return changes;
}

const MOST_NAMES = 3;

/** The evaluators that changed, in a few words. */
export function sayChanges(names: readonly string[]): string[] {
  if (names.length === 0) return [];
  const rest = names.length - MOST_NAMES;
  const more = rest > 0 ? ` and ${rest} more` : "";
  return [`evaluator${names.length === 1 ? "" : "s"} changed: ${names.slice(0, MOST_NAMES).join(", ")}${more}`];
}
