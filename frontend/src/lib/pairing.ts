/** Runs side by side: their items paired as the server pairs them, and how each fared against the baseline. */
import type { ItemAttributesAnswer } from "../api/queries";
import { type Outcome, type Outline, placeOf } from "./outline";

export type PairedBy = "dataset_item_id" | "lineage" | "example" | "ordinal";

export interface Side {
  readonly outline: Outline;
  /** What pairs and slices its items; null where nobody has asked for it. */
  readonly attributes: ItemAttributesAnswer | null;
}

/** How an item fared against the baseline. */
export type Kind = "failed" | "errored" | "passed" | "scores" | "same" | "new" | "dropped" | "unjudged";

export const KINDS: readonly Kind[] = ["failed", "errored", "passed", "scores", "new", "dropped", "unjudged", "same"];

/** An item in one of the runs. */
export interface Cell {
  /** The positions of its repeats in the outline. */
  readonly positions: readonly number[];
  readonly outcome: Outcome;
  /** The share of the judged repeats that passed, errored ones as not passed; null where none was judged. */
  readonly passShare: number | null;
}

export interface PairedItem {
  readonly key: string;
  /** For each run, null where it does not have the item. */
  readonly cells: readonly (Cell | null)[];
  /** The worst of the kinds against the baseline. */
  readonly kind: Kind;
  /** For each run what became of the item; "same" for the baseline itself. */
  readonly kinds: readonly Kind[];
  /** By how much the scores fell in all, against the baseline and over all runs and evaluators; negative where they rose. */
  readonly drop: number;
}

export interface Pairing {
  readonly sides: readonly Side[];
  readonly items: readonly PairedItem[];
  /** The evaluators of any of the runs. */
  readonly evaluators: readonly string[];
  readonly scores: ScoreTable;
  /** The evaluators of which a lower score is better. */
  readonly lowerIsBetter: ReadonlySet<string>;
}

export type ScoreTable = ReadonlyMap<string, readonly (readonly (number | null)[] | null)[]>;

/** Pair the items of runs, of which the first is the baseline; what changed for the worse comes first. */
export function pairRuns(sides: readonly Side[], by: PairedBy, lowerIsBetter: ReadonlySet<string> = new Set()): Pairing {
  const keys = sides.map((side) => groupItems(side, by));
  const order = new Set(keys.flatMap((groups) => [...groups.keys()]));
  const evaluators = [...new Set(sides.flatMap((side) => side.outline.columns.map((column) => column.name)))];
  const scores = tableScores(sides, evaluators);
  const items = [...order].map((key): PairedItem => {
    const cells = sides.map((side, run) => {
      const positions = keys[run]?.get(key);
      return positions === undefined ? null : readCell(side.outline, positions);
    });
    let drop = 0;
    const kinds = cells.map((cell, run): Kind => {
      if (run === 0) return "same";
      let differs = false;
      for (const name of evaluators) {
        const change = changeOf(scores, name, cells, run) ?? 0;
        differs ||= change !== 0;
        drop -= lowerIsBetter.has(name) ? -change : change;
      }
      return kindOf(cells[0] ?? null, cell, differs);
    });
    const kind = KINDS.find((one) => kinds.slice(1).includes(one)) ?? "same";
    return { key, cells, kind, kinds, drop };
  });
  items.sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || b.drop - a.drop || placeIn(a) - placeIn(b));
  return { sides, items, evaluators, scores, lowerIsBetter };
}

/** For each evaluator its scores in each run, null where it scored nothing there. */
export function tableScores(sides: readonly Side[], evaluators: readonly string[]): ScoreTable {
  return new Map(
    evaluators.map((name) => [name, sides.map((side) => side.outline.columns.find((one) => one.name === name)?.scores ?? null)]),
  );
}

/** What pairs each item of a run, in the order of its outline; undefined where that is its place. */
export function idsOf(side: Side, by: PairedBy): readonly (string | null)[] | undefined {
  const { attributes } = side;
  if (by === "dataset_item_id") return attributes?.datasetItemIds;
  if (by === "lineage") return attributes?.lineageIds;
  return by === "example" ? attributes?.exampleIds : undefined;
}

/** The positions of each item of a run, its repeats together. */
export function groupItems(side: Side, by: PairedBy): Map<string, number[]> {
  const groups = new Map<string, number[]>();
  const ids = idsOf(side, by);
  for (let position = 0; position < side.outline.size; position += 1) {
    const key = ids?.[position] ?? `#${side.outline.ordinals[position]}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [position]);
    else group.push(position);
  }
  return groups;
}

export function readCell(outline: Outline, positions: readonly number[]): Cell {
  let passed = 0;
  let judged = 0;
  let errored = 0;
  for (const position of positions) {
    const outcome = outline.outcomes[position];
    if (outcome === "error") errored += 1;
    if (outcome !== "none") judged += 1;
    if (outcome === "pass") passed += 1;
  }
  const outcome = judged === 0 ? "none" : passed === judged ? "pass" : errored === positions.length ? "error" : "fail";
  return { positions, outcome, passShare: judged === 0 ? null : passed / judged };
}

function kindOf(before: Cell | null, now: Cell | null, differs: boolean): Kind {
  if (before === null) return now === null ? "same" : "new";
  if (now === null) return "dropped";
  if (before.passShare === null || now.passShare === null) {
    return before.passShare === now.passShare ? (differs ? "scores" : "same") : "unjudged";
  }
  if (now.outcome === "error" && before.outcome !== "error") return "errored";
  if (now.passShare < before.passShare) return "failed";
  if (now.passShare > before.passShare) return "passed";
  return differs ? "scores" : "same";
}

/** The mean of an item's scores over its repeats; null where it has none. */
export function meanScore(scores: readonly (number | null)[] | null | undefined, cell: Cell | null | undefined): number | null {
  if (scores == null || cell == null) return null;
  let sum = 0;
  let n = 0;
  for (const position of cell.positions) {
    const score = scores[position] ?? null;
    if (score === null) continue;
    sum += score;
    n += 1;
  }
  return n === 0 ? null : sum / n;
}

/** The share of an item's repeats that an evaluator passed, of those that it judged; null where it judged none. */
export function verdictShare(side: Side | undefined, name: string, cell: Cell | null | undefined): number | null {
  const outcomes = side?.outline.columns.find((one) => one.name === name)?.outcomes;
  if (outcomes === undefined || cell == null) return null;
  let passed = 0;
  let judged = 0;
  for (const position of cell.positions) {
    const letter = outcomes[position];
    if (letter === "p") passed += 1;
    if (letter === "p" || letter === "f") judged += 1;
  }
  return judged === 0 ? null : passed / judged;
}

/** What a run changed of an item's score; null where one of the two has none. */
export function changeOf(scores: ScoreTable, name: string, cells: readonly (Cell | null)[], run: number): number | null {
  const before = meanScore(scores.get(name)?.[0], cells[0]);
  const now = meanScore(scores.get(name)?.[run], cells[run]);
  return before === null || now === null ? null : now - before;
}

function placeIn(item: PairedItem): number {
  for (const cell of item.cells) if (cell !== null) return cell.positions[0] ?? 0;
  return 0;
}

export function countKinds(items: readonly PairedItem[], run?: number): Record<Kind, number> {
  const counts: Record<Kind, number> = { failed: 0, errored: 0, passed: 0, scores: 0, same: 0, new: 0, dropped: 0, unjudged: 0 };
  for (const item of items) counts[run === undefined ? item.kind : (item.kinds[run] ?? "same")] += 1;
  return counts;
}

/** Where an item stands in a run, as its page addresses it. */
export function placeOfCell(side: Side, cell: Cell): string {
  return placeOf(side.outline, cell.positions[0] ?? 0);
}

export interface Slice {
  readonly value: string;
  readonly n: number;
  /** For each run the share of passes among these items. */
  readonly rates: readonly number[];
  /** For each run the change against the baseline with its interval of 95 %; null for the baseline. */
  readonly changes: readonly (Difference | null)[];
}

/** The items that every run judged, by the value that one key of their metadata has; the largest fall first. */
export function sliceItems(pairing: Pairing, name: string): Slice[] {
  const groups = new Map<string, PairedItem[]>();
  for (const item of pairing.items) {
    if (item.cells.some((cell) => cell?.passShare == null)) continue;
    const value = sliceOf(pairing, item, name);
    if (value === null) continue;
    const group = groups.get(value);
    if (group === undefined) groups.set(value, [item]);
    else group.push(item);
  }
  const slices = [...groups].map(([value, items]): Slice => {
    const shares = pairing.sides.map((_, run) => items.map((item) => item.cells[run]?.passShare ?? 0));
    const base = shares[0] ?? [];
    return {
      value,
      n: items.length,
      rates: shares.map((values) => values.reduce((sum, one) => sum + one, 0) / items.length),
      changes: shares.map((values, run) => (run === 0 ? null : pairedDifference(base, values))),
    };
  });
  const worst = (slice: Slice) => Math.min(...slice.changes.map((one) => one?.delta ?? 0));
  return slices.sort((a, b) => worst(a) - worst(b) || b.n - a.n || (a.value < b.value ? -1 : 1));
}

/** The value of one key of an item's metadata, from the first run that has the item; null where it has none. */
export function sliceOf(pairing: Pairing, item: PairedItem, name: string): string | null {
  for (const [run, cell] of item.cells.entries()) {
    const column = pairing.sides[run]?.attributes?.metadata.find((one) => one.name === name);
    if (cell === null || column === undefined) continue;
    const code = column.codes[cell.positions[0] ?? 0] ?? -1;
    return code < 0 ? null : String(column.values[code]);
  }
  return null;
}

export interface Difference {
  readonly delta: number;
  readonly low: number;
  readonly high: number;
}

/**
 * The difference of two paired rates, with the interval of 95 % that Agresti and Min adjust by half a pair in each
 * cell (2005, doi:10.1002/sim.1781), which holds for few pairs and where nothing differs. Shares of repeats count
 * as parts of a pair. Another `z` is for another level, such as that of one of several comparisons.
 */
export function pairedDifference(before: readonly number[], now: readonly number[], z = 1.959964): Difference {
  const n = before.length;
  let up = 0;
  let down = 0;
  for (const [index, share] of before.entries()) {
    const change = (now[index] ?? 0) - share;
    if (change > 0) up += change;
    else down -= change;
  }
  const [b, c, size] = [up + 0.5, down + 0.5, n + 2];
  const centre = (b - c) / size;
  const half = z * Math.sqrt(((b + c) / size - centre * centre) / size);
  return { delta: n === 0 ? 0 : (up - down) / n, low: Math.max(-1, centre - half), high: Math.min(1, centre + half) };
}
