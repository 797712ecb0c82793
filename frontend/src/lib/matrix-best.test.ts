import { describe, expect, test } from "vitest";
import { buildMatrix } from "./matrix";
import { findBest, signTest } from "./matrix-best";
import { side } from "./side.fixture";

describe("the best run", () => {
  const of = (...runs: string[]) => findBest(buildMatrix(runs.map((outcomes) => side(outcomes))));

  test("is better than all others by more than chance", () => {
    expect(of("f".repeat(30), "p".repeat(30))).toMatchObject({ first: 1, second: 0, isSignal: true, n: 30 });
    expect(of("f".repeat(30), "p".repeat(30), "p".repeat(29) + "f")).toMatchObject({ first: 1, second: 2, isSignal: false });
  });

  test("of many runs needs a larger difference than of two", () => {
    const good = "p".repeat(30);
    const worse = "f".repeat(6) + "p".repeat(24);
    expect(of(good, worse)?.isSignal).toBe(true);
    expect(of(good, ...Array.from({ length: 23 }, () => worse))?.isSignal).toBe(false);
  });

  test("counts errors as not passed, and compares what both judged", () => {
    expect(of("p".repeat(30), "e".repeat(30))).toMatchObject({ first: 0, isSignal: true });
    expect(of("p".repeat(10) + "u".repeat(20), "f".repeat(30))?.n).toBe(10);
  });

  test("is not there where fewer than two runs judged anything", () => {
    expect([of("pp"), of("pp", "uu"), of()]).toEqual([null, null, null]);
  });

  test("is too close to call where nothing was judged by both", () => {
    expect(of("pu", "uf")).toMatchObject({ isSignal: false, n: 0 });
  });

  test("is not told by few items, whatever the interval says", () => {
    for (const [size, runs] of [[3, 1], [5, 1], [5, 23], [7, 23]] as const) {
      expect(of("p".repeat(size), ...Array.from({ length: runs }, () => "f".repeat(size)))?.isSignal).toBe(false);
    }
    expect(of("pppppp", "ffffff")).toMatchObject({ isSignal: true, better: 6, worse: 0 });
    expect(of("pppppp", "ffffff", "ffffff")).toMatchObject({ isSignal: false });
    expect(of("pppppp", "ffffff", "ffffff")?.p).toBeCloseTo(0.0625, 8);
  });

  test("names the highest run that it cannot be told apart from, and how many there are", () => {
    const good = "p".repeat(40);
    // The second is above the third, and judged too little to be compared.
    const [near, unknown, far] = ["p".repeat(38) + "ff", "fppp" + "u".repeat(36), "f".repeat(40)];
    expect(of(good, far, near, unknown)).toMatchObject({ first: 0, second: 2, doubtCount: 2, comparisonCount: 3, n: 40 });
    expect(of(good, far, "f".repeat(39) + "p")).toMatchObject({ first: 0, second: 2, doubtCount: 0, isSignal: true });
    expect(of(good, "p".repeat(20) + "f".repeat(20), "u".repeat(39) + "f")).toMatchObject({ second: 2, doubtCount: 1, n: 1 });
  });

  test("is not told where rows may be of different items", () => {
    expect(of("p".repeat(40), "f".repeat(40))?.isSignal).toBe(true);
    expect(of("p".repeat(40), "f".repeat(41))?.isSignal).toBe(false);
  });
});

describe("the exact test", () => {
  test("has the p-values of McNemar's, also of many items", () => {
    const known = [[0, 0, 1], [3, 3, 1], [3, 0, 0.25], [0, 6, 0.03125], [8, 2, 0.109375], [2600, 2400, 0.004883649738]] as const;
    for (const [better, worse, p] of known) expect(signTest(better, worse)).toBeCloseTo(p, 8);
    expect(signTest(5000, 0)).toBe(0);
  });
});
