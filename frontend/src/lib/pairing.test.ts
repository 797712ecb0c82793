import { describe, expect, test } from "vitest";
import { changeOf, countKinds, pairRuns, pairedDifference, sliceItems } from "./pairing";
import { side } from "./side.fixture";

describe("pairRuns", () => {
  test("says of each item what became of it, the worst first", () => {
    const { items } = pairRuns(
      [side("pppfepfu", { scores: [1, 1, 1, 0, null, 1, 0, null] }), side("pfepppfp", { scores: [0.9, 0, null, 1, 1, 1, 0, 1] })],
      "ordinal",
    );
    expect(items.map((item) => [item.key, item.kind])).toEqual([
      ["#1", "failed"],
      ["#2", "errored"],
      ["#4", "passed"],
      ["#3", "passed"],
      ["#0", "scores"],
      ["#7", "unjudged"],
      ["#5", "same"],
      ["#6", "same"],
    ]);
    expect(countKinds(items)).toMatchObject({ failed: 1, errored: 1, passed: 2, scores: 1, unjudged: 1, same: 2 });
  });

  test("pairs by the dataset's item whatever the order, and tells new and dropped ones", () => {
    const before = side("pf", { scores: [1, 0], attributes: { datasetItemIds: ["a", "b"] } });
    const now = side("pf", { scores: [1, 0], attributes: { datasetItemIds: ["b", "c"] } });
    const { items } = pairRuns([before, now], "dataset_item_id");
    expect(items.map((item) => [item.key, item.kind])).toEqual([["b", "passed"], ["c", "new"], ["a", "dropped"]]);
  });

  test("takes repeats of one item together", () => {
    const repeats = { ordinals: [0, 0], repetitions: [0, 1] };
    const pairing = pairRuns([side("pp", { scores: [1, 1], outline: repeats }), side("pf", { scores: [1, 0.5], outline: repeats })], "ordinal");
    const [item] = pairing.items;
    expect([item?.kind, item?.cells[1]?.passShare, item?.drop]).toEqual(["failed", 0.5, 0.25]);
    expect(changeOf(pairing.scores, "exact", item?.cells ?? [], 1)).toBe(-0.25);
  });

  test("a lower score is better where the evaluator says so", () => {
    const runs = [side("ff", { scores: [0, 1] }), side("ff", { scores: [1, 0] })];
    expect(pairRuns(runs, "ordinal").items.map((item) => item.key)).toEqual(["#1", "#0"]);
    expect(pairRuns(runs, "ordinal", new Set(["exact"])).items.map((item) => item.key)).toEqual(["#0", "#1"]);
  });

  test("of three runs the worst change counts, and each has its own", () => {
    const { items } = pairRuns([side("p", { scores: [1] }), side("p", { scores: [1] }), side("f", { scores: [0] })], "ordinal");
    expect([items[0]?.kind, items[0]?.kinds]).toEqual(["failed", ["same", "same", "failed"]]);
  });

  test("an evaluator that only one run has changes nothing", () => {
    const other = { evaluators: [{ evaluatorName: "tone", scores: [0.5], outcomes: "p" }] };
    const pairing = pairRuns([side("p", { scores: [1] }), side("p", { scores: [1], outline: other })], "ordinal");
    expect([pairing.evaluators, pairing.items[0]?.kind]).toEqual([["exact", "tone"], "same"]);
  });

  test("nothing is nothing", () => {
    expect(pairRuns([side("", { scores: [] }), side("", { scores: [] })], "ordinal").items).toEqual([]);
  });
});

describe("slices", () => {
  const topics = { metadata: [{ name: "topic", values: ["tents", 7], codes: [0, 0, 1, -1] }] };

  test("are compared by the items that every run judged, the largest fall first", () => {
    const slices = sliceItems(pairRuns([side("pppp", { scores: [1, 1, 1, 1], attributes: topics }), side("pfpu", { scores: [1, 0, 1, null], attributes: topics })], "ordinal"), "topic");
    expect(slices.map((slice) => [slice.value, slice.n, slice.rates])).toEqual([
      ["tents", 2, [1, 0.5]],
      ["7", 1, [1, 1]],
    ]);
    expect(slices[0]?.changes[1]?.delta).toBe(-0.5);
    expect(sliceItems(pairRuns([side("p", { scores: [1] })], "ordinal"), "nothing")).toEqual([]);
  });
});

describe("pairedDifference", () => {
  test("is that of Agresti and Min", () => {
    // 20 pairs of 100 fell, 5 rose: (5.5 - 20.5) / 102 = -0.14706, and 1.96 sqrt((26 - 15^2 / 102) / 102^2).
    const before = [...Array<number>(20).fill(1), ...Array<number>(80).fill(0)];
    const now = [...Array<number>(20).fill(0), ...Array<number>(5).fill(1), ...Array<number>(75).fill(0)];
    const { delta, low, high } = pairedDifference(before, now);
    expect(delta).toBeCloseTo(-0.15, 10);
    expect(low).toBeCloseTo(-0.14706 - 0.0937, 3);
    expect(high).toBeCloseTo(-0.14706 + 0.0937, 3);
  });

  test("has a width where nothing differs, and stays within bounds", () => {
    const { delta, low, high } = pairedDifference([1], [1]);
    expect(delta).toBe(0);
    expect(low).toBeLessThan(-0.3);
    expect(high).toBeLessThanOrEqual(1);
  });
});
