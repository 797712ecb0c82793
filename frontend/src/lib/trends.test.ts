import { describe, expect, it } from "vitest";
import { findAxisStart, placeChanges, sayChanges } from "./trends";

describe("the trend of an experiment", () => {
  it("begins its axis above zero only where all intervals lie near 100 %", () => {
    expect(findAxisStart([{ passed: 9_990, judged: 10_000 }, { passed: 9_985, judged: 10_000 }])).toBe(0.99);
    expect(findAxisStart([{ passed: 990, judged: 1_000 }, { passed: 940, judged: 1_000 }])).toBe(0.9);
    expect(findAxisStart([{ passed: 20, judged: 20 }, { passed: 20, judged: 20 }])).toBe(0); // too few to be sure
    expect(findAxisStart([{ passed: 1_000, judged: 1_000 }, { passed: 0, judged: 0 }])).toBe(0);
  });

  it("marks what changed at the next run that is shown", () => {
    const points = [
      { runId: "a", changedEvaluators: [] },
      { runId: "hidden", changedEvaluators: ["exact"] },
      { runId: "b", changedEvaluators: ["f1", "exact"] },
    ];
    expect(placeChanges(points, (id) => id !== "hidden").get("b")).toEqual(["exact", "f1"]);
  });

  it("names a few of the evaluators", () => {
    expect(sayChanges([])).toEqual([]);
    expect(sayChanges(["a"])).toEqual(["evaluator changed: a"]);
    expect(sayChanges(["a", "b", "c", "d"])).toEqual(["evaluators changed: a, b, c and 1 more"]);
  });
});
