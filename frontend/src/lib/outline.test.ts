import { describe, expect, it } from "vitest";
import { chooseScored, countOutcomes, findStep, findWorst, histogram, quantile, readOutline, select, wilson } from "./outline";

const outline = readOutline({
  ordinals: [0, 1, 2, 3, 3],
  repetitions: [0, 0, 0, 0, 1],
  outcomes: "pfeuf",
  latenciesMs: [5, null, 30, 10, 20],
  evaluators: [
    { evaluatorName: "exact", scores: [1, 0, null, null, 0], outcomes: "pf--f" },
    { evaluatorName: "tone", scores: [0.9, 0.2, null, 0.5, 0.1], outcomes: "pfiif" },
    { evaluatorName: "facts", scores: [1, 1, null, null, 0], outcomes: "pp--f" },
  ],
  excludedEvaluators: [],
});
const all = { outcome: null, failedEvaluator: null, order: "worst" } as const;

describe("order and filters of items", () => {
  it("leads from item to item of the list, and from one outside of it to the first", () => {
    const list = select(outline, { ...all, outcome: "fail" });
    expect([findStep(outline, list, "3.1", 1), findStep(outline, list, "1.0", 1), findStep(outline, list, "0.0", -1), findStep(outline, list, "1", -1)]).toEqual(["1.0", null, "3.1", "3.1"]);
  });

  it("puts what failed most first, then errors, then what nobody judged", () => {
    expect(select(outline, all)).toEqual([4, 1, 2, 3, 0]);
  });

  it("keeps the order of the dataset, sorts by latency and by score, what is missing last", () => {
    expect(select(outline, { ...all, order: "ordinal" })).toEqual([0, 1, 2, 3, 4]);
    expect(select(outline, { ...all, order: "slowest" })).toEqual([2, 4, 3, 0, 1]);
    expect(select(outline, { ...all, order: "score:tone" })).toEqual([4, 1, 3, 0, 2]);
  });

  it("shows the scores of those that judge, and those of a chosen one first, though it only informs", () => {
    const informing = { name: "length", scores: [1, 2, 3, 4, 5], outcomes: "iiiii" };
    const columns = [...outline.columns, informing];
    const names = (chosen?: string) => chooseScored({ ...outline, columns }, [chosen]).map((one) => one.name);
    expect(names()).toEqual(["exact", "tone", "facts"]);
    expect(names("facts")).toEqual(["facts", "exact", "tone"]);
    expect(names("length")).toEqual(["length", "exact", "tone", "facts"]);
  });

  it("filters by outcome, by evaluator and by what a search found", () => {
    expect(select(outline, { ...all, outcome: "fail" })).toEqual([4, 1]);
    const within = (low: number | null, high: number | null) => select(outline, { ...all, order: "score:tone", range: { evaluator: "tone", low, high } });
    expect([within(0.2, 0.5), within(null, 0.2), within(null, null)]).toEqual([[1, 3], [4, 1], [4, 1, 3, 0, 2]]);
    expect(select(outline, { ...all, failedEvaluator: "facts" })).toEqual([4]);
    expect(select(outline, { ...all, failedEvaluator: "gone" })).toEqual([]);
    expect(select(outline, all, new Set(["3.1", "0.0"]))).toEqual([4, 0]);
  });

  it("counts each repetition of an item", () => {
    expect(countOutcomes(outline.outcomes)).toEqual({ pass: 1, fail: 2, error: 1, none: 1 });
  });
});

describe("figures", () => {
  it("spreads scores over the range of the evaluator", () => {
    expect(histogram([0, 0.05, 1, null], [0, 1])?.bins).toEqual([2, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
  });

  it("widens the range to scores beyond it, and has none without scores", () => {
    expect(histogram([-10, 110], [0, 100])).toMatchObject({ low: -10, high: 110 });
    expect(histogram([null], [0, 1])).toBeNull();
    expect(histogram([7, 7], [null, null])?.bins[0]).toBe(2);
  });

  it("has quantiles of what was measured", () => {
    expect(quantile([4, null, 1, 3, 2], 0.5)).toBe(2);
    expect(quantile([4, 1, 3, 2], 0.95)).toBe(4);
    expect(quantile([null], 0.5)).toBeNull();
  });

  it("has the interval of Wilson, whose values are tabled for 27 of 46 and 0 of 10", () => {
    expect(wilson(27, 46)?.map((end) => end.toFixed(3))).toEqual(["0.443", "0.717"]);
    expect(wilson(0, 10)?.map((end) => end.toFixed(3))).toEqual(["0.000", "0.278"]);
    expect(wilson(0, 0)).toBeNull();
  });
});

describe("findWorst", () => {
  const outlineOf = (outcomes: string) =>
    readOutline({
      ordinals: [...outcomes].map((_, index) => index),
      repetitions: [...outcomes].map(() => 0),
      outcomes,
      latenciesMs: [],
      evaluators: [],
      excludedEvaluators: [],
    });

  it("has one errored item among many failed ones, and no item that passed", () => {
    expect(findWorst(outlineOf("pffffe"), 3)).toEqual([1, 2, 5]);
    expect(findWorst(outlineOf("pfeeep"), 3)).toEqual([1, 2, 3]);
    expect(findWorst(outlineOf("ppuu"), 3)).toEqual([]);
    expect(findWorst(outlineOf(""), 3)).toEqual([]);
  });
});
