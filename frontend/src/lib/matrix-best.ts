/** Which run of a matrix is best, and whether that is more than chance. */
import { type Matrix, mayMixItems } from "./matrix";
import { type Difference, pairedDifference } from "./pairing";

export interface Best {
  /** The run with the highest pass rate, by its place in the matrix. */
  readonly first: number;
  /** The next one; where the first is not better than each other run by more than chance, the highest it cannot be told apart from. */
  readonly second: number;
  readonly isSignal: boolean;
  /** How many runs the first one cannot be told apart from. */
  readonly doubtCount: number;
  /** Of how many comparisons each is one. */
  readonly comparisonCount: number;
  /** By how much the first one is better than the second, over the items that both judged. */
  readonly difference: Difference;
  readonly n: number;
  /** Items that the first one passed more often than the second, and the reverse. */
  readonly better: number;
  readonly worse: number;
  /** The p-value of these two counts, times the number of comparisons. */
  readonly p: number;
}

/** The quantiles of the normal distribution for 95 % over 1, 2, 3 ... two-sided comparisons, by Bonferroni. */
const Z = [
  1.96, 2.2414, 2.394, 2.4977, 2.5758, 2.6383, 2.6901, 2.7344, 2.7729, 2.807, 2.8376, 2.8653, 2.8905, 2.9137, 2.9352, 2.9552, 2.9738,
  2.9913, 3.0078, 3.0233, 3.038, 3.052, 3.0654,
];
const LEVEL = 0.05;

type Shares = readonly (number | null)[];

/**
 * Which run passes most, and whether that is more than chance: the best of many is often best by luck, so it is
 * compared with each of the others, at 95 % for all of these comparisons together. What errored did not pass, as in
 * every comparison of runs. Null where fewer than two runs judged anything.
 */
export function findBest(matrix: Matrix): Best | null {
  const shares = matrix.sides.map((_, run): Shares => matrix.rows.map((row) => row.cells[run]?.passShare ?? null));
  const ranked = rankRuns(shares);
  const [first, ...others] = ranked;
  if (first === undefined || others.length === 0) return null;
  const isPaired = !mayMixItems(matrix);
  const against = others.map((run) => ({ run, ...compareShares(shares[run] ?? [], shares[first] ?? [], others.length) }));
  // The interval holds for about: of few items it excludes 0 where the exact test, as of the gate, is far from sure.
  const doubts = against.filter((one) => !isPaired || one.n === 0 || one.difference.low <= 0 || one.p > LEVEL);
  const shown = doubts[0] ?? against[0];
  if (shown === undefined) return null;
  const { run: second, ...comparison } = shown;
  return { first, second, isSignal: doubts.length === 0, doubtCount: doubts.length, comparisonCount: others.length, ...comparison };
}

/** The runs that judged anything, those with the highest pass rates first. */
function rankRuns(shares: readonly Shares[]): number[] {
  const rates = shares.flatMap((ones, run) => {
    const known = ones.filter((one) => one !== null);
    return known.length === 0 ? [] : [{ rate: known.reduce((sum, one) => sum + one, 0) / known.length, run }];
  });
  return rates.sort((a, b) => b.rate - a.rate || a.run - b.run).map((one) => one.run);
}

function compareShares(before: Shares, now: Shares, comparisons: number) {
  const pairs = before.flatMap((share, row) => (share === null || now[row] == null ? [] : [[share, now[row]] as const]));
  const better = pairs.filter(([share, other]) => other > share).length;
  const worse = pairs.filter(([share, other]) => other < share).length;
  const z = Z[Math.min(comparisons, Z.length) - 1];
  return {
    difference: pairedDifference(pairs.map(([share]) => share), pairs.map(([, share]) => share), z),
    n: pairs.length,
    better,
    worse,
    p: Math.min(1, comparisons * signTest(better, worse)),
  };
}

/** The exact two-sided p-value of counts that are as likely either way by chance: of passes and failures, McNemar's. */
export function signTest(better: number, worse: number): number {
  const all = better + worse;
  // In logarithms, as the smallest terms of many items are below any number.
  let term = -all * Math.LN2;
  let tail = 0;
  for (let k = 0; k <= Math.min(better, worse); k += 1) {
    tail += Math.exp(term);
    term += Math.log((all - k) / (k + 1));
  }
  return Math.min(1, 2 * tail);
}
