import { describe, expect, test } from "vitest";
import { type ChangeFilter, filterChanges, narrowsChanges } from "./change-filter";
import { pairRuns } from "./pairing";
import { side } from "./side.fixture";

/** Runs of five items with two evaluators: `length`, of which less is better and which judges nothing, and `exact`. */
function runs() {
  const scores = (length: (number | null)[], exact: (number | null)[], outcomes: string) =>
    side("p".repeat(5), { outline: { evaluators: [
      { evaluatorName: "length", scores: length, outcomes: "-----" },
      { evaluatorName: "exact", scores: exact, outcomes },
    ] } });
  return pairRuns(
    [scores([0.5, 0.5, 0.2, 0.5, 0.5], [1, 0, 0.6, 0.6, 0.9], "pfppp"), scores([0.5, 0.5, 0.3, 0.1, null], [0, 1, 0.6, 0.5, null], "fppp-")],
    "ordinal",
    new Set(["length"]),
  );
}

const keys = (filter: ChangeFilter) => {
  const pairing = runs();
  return filterChanges(pairing, pairing.items, filter).map((item) => item.key).sort();
};

describe("items of a comparison", () => {
  test.each<[ChangeFilter, string[]]>([
    [{}, ["#0", "#1", "#2", "#3", "#4"]],
    [{ least: 0 }, ["#0", "#1", "#2", "#3", "#4"]],
    [{ evaluator: "exact" }, ["#0", "#1", "#3"]],
    [{ evaluator: "length" }, ["#2", "#3"]],
    [{ evaluator: "gone" }, []],
    [{ change: "verdict" }, ["#0", "#1"]],
    [{ change: "failed" }, ["#0"]],
    [{ change: "passed" }, ["#1"]],
    [{ change: "passed", evaluator: "length" }, []],
    [{ change: "worse" }, ["#0", "#2", "#3"]],
    [{ change: "better" }, ["#1", "#3"]],
    [{ change: "better", evaluator: "length" }, ["#3"]],
    [{ least: 0.1 }, ["#0", "#1", "#2", "#3"]],
    [{ least: 0.4, evaluator: "length" }, ["#3"]],
    [{ least: 0.11, evaluator: "exact", change: "worse" }, ["#0"]],
    [{ least: 0.4, change: "worse" }, ["#0"]],
  ])("are left by %j", (filter, left) => {
    expect(keys(filter)).toEqual(left);
  });

  test("have crossed the threshold where fewer of their repeats passed", () => {
    const repeats = { ordinals: [0, 0], repetitions: [0, 1] };
    const pairing = pairRuns([side("pp", { outline: repeats }), side("pf", { outline: repeats })], "ordinal");
    expect(filterChanges(pairing, pairing.items, { change: "failed" })).toHaveLength(1);
    expect(filterChanges(pairing, pairing.items, { change: "passed" })).toHaveLength(0);
  });

  test("are left where one of several runs has changed them, and never by an item that a run lacks", () => {
    const pairing = pairRuns([side("pp"), side("p"), side("pf")], "ordinal");
    expect(filterChanges(pairing, pairing.items, { change: "failed", least: 1 }).map((item) => item.key)).toEqual(["#1"]);
  });

  test("are all left by a filter that says nothing", () => {
    expect([narrowsChanges({}), narrowsChanges({ least: 0 }), narrowsChanges({ least: 0.1 })]).toEqual([false, false, true]);
  });
});
