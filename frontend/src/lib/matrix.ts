/** Runs of a grid of parameters, such as prompts and providers: a column for each run, a row for each item. */
import { type Outcome, placeOf } from "./outline";
import {
  type Cell, type PairedBy, type ScoreTable, type Side, groupItems, idsOf, meanScore, readCell, tableScores,
} from "./pairing";
import { MOST_CHOSEN } from "./runs";

/** The member of a run's metadata that names its parameters, those of rows of a grid first. */
const DECLARED = "matrix";
/** The parameters of runs that declare none: the first one that runs have, and one of the others. */
const USUAL: readonly (readonly string[])[] = [["prompt"], ["provider", "model"]];

type Config = Readonly<Record<string, unknown>> | null;

export interface Axes {
  /** By which columns are grouped; null where there is one parameter. */
  readonly group: string | null;
  /** What tells the columns of a group apart; null where the runs name no parameter. */
  readonly column: string | null;
  /** The parameters that can be chosen. */
  readonly names: readonly string[];
}

interface Wish {
  readonly group?: string;
  readonly by?: string;
}

/** The parameters of runs: those of the address, else those that the runs declare, else the usual ones, else what differs. */
export function readAxes(configs: readonly Config[], wish: Wish = {}): Axes {
  const declared = [...new Set(configs.flatMap(declaredIn))].filter((name) => isKnown(configs, name)).slice(0, 2);
  const usual = USUAL.flatMap((names) => names.find((name) => isKnown(configs, name)) ?? []);
  const differing = [...new Set(configs.flatMap((config) => Object.keys(config ?? {})))]
    .filter((name) => name !== DECLARED && isKnown(configs, name) && new Set(configs.map((config) => valueOf(config, name))).size > 1)
    .sort();
  const [first, second] = declared.length > 0 ? declared : usual.length > 0 ? usual : differing;
  const names = [...new Set([...declared, ...usual, ...differing, ...[wish.group, wish.by].filter((name) => name !== undefined && isKnown(configs, name))])] as string[];
  const chosen = (name: string | undefined) => (name !== undefined && names.includes(name) ? name : undefined);
  const group = chosen(wish.group) ?? second ?? null;
  const by = chosen(wish.by);
  // Who groups by what told the columns apart has the other one tell them apart.
  const column = (by !== group ? by : undefined) ?? (group === first ? second : first) ?? null;
  return group === column ? { group: null, column, names } : { group, column, names };
}

function declaredIn(config: Config): string[] {
  return [config?.[DECLARED]].flat().filter((name) => typeof name === "string");
}

const isKnown = (configs: readonly Config[], name: string): boolean => configs.some((config) => valueOf(config, name) !== null);

/** The value of a parameter as text; null where the run does not have it, or where it is no single value. */
export function valueOf(config: Config, name: string | null): string | null {
  const value = name === null || config === null || !Object.hasOwn(config, name) ? undefined : config[name];
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : null;
}

/** Whether two runs have the same values of the parameters that either declares: runs without a matrix always do. */
export const isSameCombination = (one: Config, other: Config): boolean =>
  [...declaredIn(one), ...declaredIn(other)].every((name) => valueOf(one, name) === valueOf(other, name));

export interface Combination<T> {
  readonly key: string;
  /** The parameters with their values; empty where the runs declare none. */
  readonly label: string;
  readonly runs: readonly T[];
}

/** The runs by the parameters that runs of a matrix declare, each part and the parts newest first. */
export function splitByCombination<T extends { readonly config: Config }>(newestFirst: readonly T[]): Combination<T>[] {
  const names = [...new Set(newestFirst.flatMap((run) => declaredIn(run.config)))];
  const parts = new Map<string, { label: string; runs: T[] }>();
  for (const run of newestFirst) {
    const values = names.map((name) => valueOf(run.config, name));
    const key = JSON.stringify(values);
    const part = parts.get(key) ?? { label: names.map((name, at) => `${name}: ${values[at] ?? "none"}`).join(" · "), runs: [] };
    part.runs.push(run);
    parts.set(key, part);
  }
  return [...parts].map(([key, part]) => ({ key, ...part }));
}

interface Listed {
  readonly id: string;
  readonly status: string;
  readonly config: Config;
}

export interface Combinations<T> {
  /** The latest run of each combination, as many as a matrix has columns. */
  readonly runs: readonly T[];
  /** How many combinations there are. */
  readonly count: number;
}

/** The latest ended run of each combination of parameters; of runs that name none of them, nothing. */
export function latestRuns<T extends Listed>(newestFirst: readonly T[], axes: Axes): Combinations<T> {
  const latest = new Map<string, T>();
  for (const run of newestFirst) {
    const values = [axes.group, axes.column].map((name) => valueOf(run.config, name));
    const isEnded = run.status === "SUCCESS" || run.status === "FAILED";
    const key = JSON.stringify(values);
    if (isEnded && values.some((value) => value !== null) && !latest.has(key)) latest.set(key, run);
  }
  return { runs: [...latest.values()].slice(0, MOST_CHOSEN), count: latest.size };
}

/** The combinations of an experiment by the parameters that its runs declare, or the usual ones: not by whatever differs. */
export function findCombinations<T extends Listed>(newestFirst: readonly T[], wish: Wish = {}): Combinations<T> {
  const configs = newestFirst.map((run) => run.config);
  const isNamed = wish.group !== undefined || wish.by !== undefined || configs.some((config) => declaredIn(config).length > 0)
    || USUAL.flat().some((name) => isKnown(configs, name));
  return isNamed ? latestRuns(newestFirst, readAxes(configs, wish)) : { runs: [], count: 0 };
}

export interface Group<T> {
  readonly value: string | null;
  readonly runs: readonly T[];
}

/** The runs in groups, both in the order of their values; those without a value come last. */
export function groupRuns<T extends { readonly config: Config }>(runs: readonly T[], axes: Axes): Group<T>[] {
  const byValue = (name: string | null) => (a: T, b: T) => compareValues(valueOf(a.config, name), valueOf(b.config, name));
  const sorted = [...runs].sort((a, b) => byValue(axes.group)(a, b) || byValue(axes.column)(a, b));
  const groups: { value: string | null; runs: T[] }[] = [];
  for (const run of sorted) {
    const value = valueOf(run.config, axes.group);
    const last = groups.at(-1);
    if (last !== undefined && last.value === value) last.runs.push(run);
    else groups.push({ value, runs: [run] });
  }
  return groups;
}

function compareValues(a: string | null, b: string | null): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return a.localeCompare(b, "en", { numeric: true }) || (a < b ? -1 : Number(a > b));
}

export interface Row {
  readonly key: string;
  /** For each run, null where it does not have the item. */
  readonly cells: readonly (Cell | null)[];
  readonly passed: number;
  readonly failed: number;
  readonly errored: number;
  readonly missing: number;
}

export interface Matrix {
  readonly sides: readonly Side[];
  readonly rows: readonly Row[];
  readonly pairedBy: PairedBy;
  readonly evaluators: readonly string[];
  readonly scores: ScoreTable;
}

/** The items of runs, the worst first: those that the smallest share of the runs passed, errors as not passed. */
export function buildMatrix(sides: readonly Side[]): Matrix {
  const pairedBy = choosePairing(sides);
  const groups = sides.map((side) => groupItems(side, pairedBy));
  const keys = new Set(groups.flatMap((group) => [...group.keys()]));
  const evaluators = [...new Set(sides.flatMap((side) => side.outline.columns.map((column) => column.name)))];
  const rows = [...keys].map((key): Row => {
    const cells = sides.map((side, run) => {
      const positions = groups[run]?.get(key);
      return positions === undefined ? null : readCell(side.outline, positions);
    });
    const count = (outcome: Outcome) => cells.filter((cell) => cell?.outcome === outcome).length;
    return { key, cells, passed: count("pass"), failed: count("fail"), errored: count("error"), missing: cells.filter((cell) => cell === null).length };
  });
  const shares = new Map(rows.map((row) => [row, shareOf(row)]));
  // Sorting is stable: what is equally bad stays in the order of the dataset.
  rows.sort((a, b) => (shares.get(a) ?? 0) - (shares.get(b) ?? 0) || b.failed - a.failed);
  return { sides, rows, pairedBy, evaluators, scores: tableScores(sides, evaluators) };
}

/** The mean share of passes over the runs that judged an item; above all shares where none did. */
function shareOf(row: Row): number {
  const shares = row.cells.flatMap((cell) => cell?.passShare ?? []);
  return shares.length === 0 ? 2 : shares.reduce((sum, one) => sum + one, 0) / shares.length;
}

const PAIRINGS: readonly PairedBy[] = ["lineage", "dataset_item_id", "example"];

/** By what items are the same in all runs: by ids where every item of every run has one and runs share them, else by place. */
function choosePairing(sides: readonly Side[]): PairedBy {
  return PAIRINGS.find((by) => sides.length > 0 && sides.every((side) => hasIds(side, by)) && areShared(sides, by)) ?? "ordinal";
}

function hasIds(side: Side, by: PairedBy): boolean {
  const ids = idsOf(side, by) ?? [];
  const { ordinals, size } = side.outline;
  if (ids.length !== size || ids.some((id) => id === null)) return false;
  // An id that two items have would make one item of them.
  return new Set(ids).size === new Set(ordinals).size;
}

function areShared(sides: readonly Side[], by: PairedBy): boolean {
  const filled = sides.map((side) => new Set(idsOf(side, by))).filter((ids) => ids.size > 0);
  return filled.length < 2 || filled.slice(1).some((ids) => [...ids].some((id) => filled[0]?.has(id)));
}

export type Show = "differ" | "failed" | "errors" | "missing";
export const SHOWS: readonly Show[] = ["differ", "failed", "errors", "missing"];

const IS_SHOWN: Record<Show, (row: Row) => boolean> = {
  differ: (row) => row.passed > 0 && row.failed > 0,
  failed: (row) => row.failed > 0 && row.passed === 0,
  errors: (row) => row.errored > 0,
  missing: (row) => row.missing > 0,
};

export const countShown = (rows: readonly Row[], show: Show): number => rows.filter(IS_SHOWN[show]).length;

/** The rows that a filter leaves, and a search: for each run the places of the items that it found. */
export function selectRows(matrix: Matrix, show: Show | undefined, found: readonly ReadonlySet<string>[] | null): readonly Row[] {
  if (show === undefined && found === null) return matrix.rows;
  return matrix.rows.filter((row) => (show === undefined || IS_SHOWN[show](row)) && (found === null || isFound(matrix, row, found)));
}

function isFound(matrix: Matrix, row: Row, found: readonly ReadonlySet<string>[]): boolean {
  return row.cells.some((cell, run) => {
    const outline = matrix.sides[run]?.outline;
    return outline !== undefined && cell?.positions.some((position) => found[run]?.has(placeOf(outline, position)));
  });
}

/** How many of the evaluators that judged an item it passed, over its repeats. */
export function countVerdicts(side: Side | undefined, cell: Cell): { readonly passed: number; readonly judged: number } {
  let [passed, judged] = [0, 0];
  for (const column of side?.outline.columns ?? []) {
    for (const position of cell.positions) {
      const outcome = column.outcomes[position];
      if (outcome === "p" || outcome === "f") judged += 1;
      if (outcome === "p") passed += 1;
    }
  }
  return { passed, judged };
}

/** The evaluator whose scores cells show at first: one that scored every judged item; null where none did. */
export function findCommonEvaluator(matrix: Matrix): string | null {
  const scoresAll = (name: string) => matrix.rows.every((row) => row.cells.every((cell, run) =>
    cell === null || cell.outcome === "none" || cell.outcome === "error" || meanScore(matrix.scores.get(name)?.[run], cell) !== null));
  return matrix.evaluators.find(scoresAll) ?? null;
}

/** Whether a row may be of different items: by their places alone, items are the same only where all runs have all of them. */
export function mayMixItems(matrix: Matrix): boolean {
  return matrix.pairedBy === "ordinal" && new Set(matrix.sides.map((side) => new Set(side.outline.ordinals).size)).size > 1;
}
