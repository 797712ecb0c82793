import { describe, expect, test } from "vitest";
import type { ItemAttributesAnswer, OutlineAnswer } from "../api/queries";
import { readOutline } from "./outline";
import { type Side, changeOf, countKinds, pairRuns, pairedDifference, sliceItems } from "./pairing";

function side(outcomes: string, scores: readonly (number | null)[], changes: Partial<OutlineAnswer> = {}, attributes: Partial<ItemAttributesAnswer> = {}): Side {
  const ordinals = [...outcomes].map((_, index) => index);
  const repetitions = ordinals.map(() => 0);
  const outline = readOutline({
    ordinals,
    repetitions,
    outcomes,
    latenciesMs: ordinals.map(() => null),
    evaluators: [{ evaluatorName: "exact", scores: [...scores], outcomes: outcomes.replaceAll(/[eu]/g, "-") }],
    excludedEvaluators: [],
    ...changes,
  });
  return { outline, attributes: { ordinals, repetitions, datasetItemIds: [], lineageIds: [], exampleIds: [], metadata: [], ...attributes } };
}

describe("pairRuns", () => {
  test("says of each item what became of it, the worst first", () => {
    const { items } = pairRuns(
      [side("pppfepfu", [1, 1, 1, 0, null, 1, 0, null]), side("pfepppfp", [0.9, 0, null, 1, 1, 1, 0, 1])],
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
    const before = side("pf", [1, 0], {}, { datasetItemIds: ["a", "b"] });
    const now = side("pf", [1, 0], {}, { datasetItemIds: ["b", "c"] });
    const { items } = pairRuns([before, now], "dataset_item_id");
    expect(items.map((item) => [item.key, item.kind])).toEqual([["b", "passed"], ["c", "new"], ["a", "dropped"]]);
  });

  test("takes repeats of one item together", () => {
    const repeats = { ordinals: [0, 0], repetitions: [0, 1] };
    const pairing = pairRuns([side("pp", [1, 1], repeats), side("pf", [1, 0.5], repeats)], "ordinal");
    const [item] = pairing.items;
    expect([item?.kind, item?.cells[1]?.passShare, item?.drop]).toEqual(["failed", 0.5, 0.25]);
    expect(changeOf(pairing.scores, "exact", item?.cells ?? [], 1)).toBe(-0.25);
  });

  test("a lower score is better where the evaluator says so", () => {
    const runs = [side("ff", [0, 1]), side("ff", [1, 0])];
    expect(pairRuns(runs, "ordinal").items.map((item) => item.key)).toEqual(["#1", "#0"]);
    expect(pairRuns(runs, "ordinal", new Set(["exact"])).items.map((item) => item.key)).toEqual(["#0", "#1"]);
  });

  test("of three runs the worst change counts, and each has its own", () => {
    const { items } = pairRuns([side("p", [1]), side("p", [1]), side("f", [0])], "ordinal");
    expect([items[0]?.kind, items[0]?.kinds]).toEqual(["failed", ["same", "same", "failed"]]);
  });

  test("an evaluator that only one run has changes nothing", () => {
    const other = { evaluators: [{ evaluatorName: "tone", scores: [0.5], outcomes: "p" }] };
    const pairing = pairRuns([side("p", [1]), side("p", [1], other)], "ordinal");
    expect([pairing.evaluators, pairing.items[0]?.kind]).toEqual([["exact", "tone"], "same"]);
  });

  test("nothing is nothing", () => {
    expect(pairRuns([side("", []), side("", [])], "ordinal").items).toEqual([]);
  });
});

describe("slices", () => {
  const topics = { metadata: [{ name: "topic", values: ["tents", 7], codes: [0, 0, 1, -1] }] };

  test("are compared by the items that every run judged, the largest fall first", () => {
    const slices = sliceItems(pairRuns([side("pppp", [1, 1, 1, 1], {}, topics), side("pfpu", [1, 0, 1, null], {}, topics)], "ordinal"), "topic");
    expect(slices.map((slice) => [slice.value, slice.n, slice.rates])).toEqual([
      ["tents", 2, [1, 0.5]],
      ["7", 1, [1, 1]],
    ]);
    expect(slices[0]?.changes[1]?.delta).toBe(-0.5);
    expect(sliceItems(pairRuns([side("p", [1])], "ordinal"), "nothing")).toEqual([]);
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
