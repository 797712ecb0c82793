import { describe, expect, test } from "vitest";
import {
  buildMatrix, countShown, countVerdicts, findCombinations, findCommonEvaluator, groupRuns, isSameCombination, latestRuns, readAxes, selectRows, splitByCombination, valueOf,
} from "./matrix";
import { side } from "./side.fixture";

const GRID = [
  { prompt: "short", provider: "gpt" }, { prompt: "long", provider: "gpt" }, { prompt: "short", provider: "claude" },
];

describe("runs of one combination", () => {
  test("have the same values of what either declares", () => {
    const run = { matrix: ["prompt", "provider"], prompt: "short", provider: "gpt", seed: 1 };
    expect(isSameCombination(run, { ...run, seed: 2 })).toBe(true);
    expect(isSameCombination(run, { ...run, prompt: "long" })).toBe(false);
    expect(isSameCombination({ prompt: "short" }, run)).toBe(false);
  });

  test("are all runs that declare nothing", () => {
    expect(isSameCombination({ prompt: "short" }, { prompt: "long" })).toBe(true);
    expect(isSameCombination(null, {})).toBe(true);
  });

  test("are one part of the runs each, that of the latest run first", () => {
    const of = (prompt: string, provider: string, seed: number) => ({ config: { matrix: ["prompt", "provider"], prompt, provider, seed } });
    const runs = [of("long", "gpt", 4), of("short", "gpt", 3), of("long", "gpt", 2), { config: { prompt: "long" } }, { config: null }];
    expect(splitByCombination(runs)).toEqual([
      { key: '["long","gpt"]', label: "prompt: long · provider: gpt", runs: [runs[0], runs[2]] },
      { key: '["short","gpt"]', label: "prompt: short · provider: gpt", runs: [runs[1]] },
      { key: '["long",null]', label: "prompt: long · provider: none", runs: [runs[3]] },
      { key: "[null,null]", label: "prompt: none · provider: none", runs: [runs[4]] },
    ]);
  });

  test("are not told apart where none declares a parameter", () => {
    const runs = [{ config: { prompt: "long" } }, { config: { prompt: "short" } }];
    expect(splitByCombination(runs)).toEqual([{ key: "[]", label: "", runs }]);
    expect(splitByCombination([])).toEqual([]);
  });
});

describe("the parameters of runs", () => {
  test("are prompt and provider, columns grouped by provider", () => {
    expect(readAxes(GRID)).toEqual({ group: "provider", column: "prompt", names: ["prompt", "provider"] });
    expect(readAxes(GRID, { group: "prompt" })).toMatchObject({ group: "prompt", column: "provider" });
  });

  test("are a model where there is no provider, and one alone groups nothing", () => {
    expect(readAxes([{ prompt: "a", model: "x" }, { prompt: "b", model: "y" }])).toMatchObject({ group: "model", column: "prompt" });
    expect(readAxes([{ model: "x" }, { model: "y" }])).toMatchObject({ group: null, column: "model" });
  });

  test("are those that runs declare, whatever else they have", () => {
    const runs = [{ matrix: ["k", "temperature"], k: 3, temperature: 0.2, prompt: "a", provider: "b" }, { k: 5, temperature: 0 }];
    expect(readAxes(runs)).toMatchObject({ group: "temperature", column: "k" });
    expect(readAxes([{ matrix: ["gone", 3], prompt: "a" }])).toMatchObject({ group: null, column: "prompt" });
    expect(readAxes([{ matrix: "k", k: 3 }, { k: 4 }])).toMatchObject({ group: null, column: "k" });
  });

  test("are what differs where nobody named any, or what the address names", () => {
    const runs = [{ suite: "a.yaml", same: 1, list: [1] }, { suite: "b.yaml", same: 1, list: [2] }];
    expect(readAxes(runs)).toEqual({ group: null, column: "suite", names: ["suite"] });
    expect(readAxes(GRID, { group: "nothing", by: "provider" })).toMatchObject({ group: "provider", column: "prompt" });
    expect(readAxes([null, {}])).toEqual({ group: null, column: null, names: [] });
  });

  test("have single values, and none that all objects have", () => {
    expect([valueOf({ a: 0 }, "a"), valueOf({ a: false }, "a"), valueOf({ a: {} }, "a"), valueOf({}, "constructor")]).toEqual(["0", "false", null, null]);
  });
});

describe("the runs of a matrix", () => {
  const runs = [
    { id: "5", status: "RUNNING", config: GRID[0] ?? null },
    { id: "4", status: "SUCCESS", config: GRID[0] ?? null },
    { id: "3", status: "FAILED", config: GRID[1] ?? null },
    { id: "2", status: "SUCCESS", config: GRID[0] ?? null },
    { id: "1", status: "SUCCESS", config: null },
  ];

  test("are the latest that ended of each combination", () => {
    expect(latestRuns(runs, readAxes(GRID)).runs.map((run) => run.id)).toEqual(["4", "3"]);
    expect(findCombinations(runs).count).toBe(2);
  });

  test("are not those that differ in anything", () => {
    const others = [{ id: "1", status: "SUCCESS", config: { suite: "a" } }, { id: "2", status: "SUCCESS", config: { suite: "b" } }];
    expect(findCombinations(others).runs).toEqual([]);
    expect(findCombinations(others, { by: "suite" }).runs).toHaveLength(2);
  });

  test("are at most as many as a matrix has columns", () => {
    const many = Array.from({ length: 30 }, (_, n) => ({ id: String(n), status: "SUCCESS", config: { model: `m${n}` } }));
    const { runs: chosen, count } = findCombinations(many);
    expect([chosen.length, count]).toEqual([24, 30]);
  });

  test("stand in groups, numbers in their order, those without a value last", () => {
    const configs = [{ model: "m10", prompt: "b" }, { prompt: "a" }, { model: "m9", prompt: "a" }, { model: "m10", prompt: "a" }];
    const groups = groupRuns(configs.map((config) => ({ config })), readAxes(configs));
    expect(groups.map((group) => [group.value, group.runs.map((run) => run.config.prompt)])).toEqual([["m9", ["a"]], ["m10", ["a", "b"]], [null, ["a"]]]);
  });
});

describe("the rows of a matrix", () => {
  const matrix = buildMatrix([side("ppfeu"), side("pfffu"), side("ppf")]);

  test("have the worst first, and what nobody judged last", () => {
    expect(matrix.rows.map((row) => row.key)).toEqual(["#2", "#3", "#1", "#0", "#4"]);
    expect(matrix.rows[1]).toMatchObject({ passed: 0, failed: 1, errored: 1, missing: 1 });
  });

  test("are left by filters: an error is not a failure, and neither is a missing item", () => {
    const keys = (show: "differ" | "failed" | "errors" | "missing") => selectRows(matrix, show, null).map((row) => row.key);
    expect([keys("differ"), keys("failed"), keys("errors"), keys("missing")]).toEqual([["#1"], ["#2", "#3"], ["#3"], ["#3", "#4"]]);
    expect(countShown(matrix.rows, "differ")).toBe(1);
    const error = buildMatrix([side("p"), side("e")]);
    expect(countShown(error.rows, "differ")).toBe(0);
  });

  test("are found by an item of any run", () => {
    const none = new Set<string>();
    expect(selectRows(matrix, undefined, [none, new Set(["3.0"]), none]).map((row) => row.key)).toEqual(["#3"]);
    expect(selectRows(matrix, "differ", [none, new Set(["3.0"]), none])).toEqual([]);
  });

  test("are paired by the ids of examples where every run has them, whatever the order", () => {
    const { rows, pairedBy } = buildMatrix([side("pf", { attributes: { exampleIds: ["a", "b"] } }), side("ff", { attributes: { exampleIds: ["b", "c"] } })]);
    expect(pairedBy).toBe("example");
    expect(rows.map((row) => [row.key, row.cells.map((cell) => cell?.outcome ?? null)])).toEqual([
      ["b", ["fail", "fail"]], ["c", [null, "fail"]], ["a", ["pass", null]],
    ]);
  });

  test("are paired by place where an id is missing, twice in a run, or in no other run", () => {
    const pairings = [[["a", null], ["a", "b"]], [["a", "a"], ["a", "b"]], [["a", "b"], ["c", "d"]]].map((ids) =>
      buildMatrix(ids.map((exampleIds) => side("pp", { attributes: { exampleIds } }))).pairedBy);
    expect(pairings).toEqual(["ordinal", "ordinal", "ordinal"]);
  });

  test("are paired by the cases of a dataset before anything else", () => {
    const ids = { lineageIds: ["l1", "l2"], datasetItemIds: ["d1", "d2"], exampleIds: ["a", "b"] };
    expect(buildMatrix([side("pp", { attributes: ids }), side("pp", { attributes: { ...ids, datasetItemIds: ["d3", "d4"] } })]).pairedBy).toBe("lineage");
  });

  test("show the scores of an evaluator that scored all, and count verdicts else", () => {
    expect(findCommonEvaluator(matrix)).toBe("exact");
    const some = buildMatrix([side("pf"), side("pf", { scores: [1, null] })]);
    expect(findCommonEvaluator(some)).toBeNull();
    const cell = some.rows[0]?.cells[0];
    expect(cell != null && countVerdicts(some.sides[0], cell)).toEqual({ passed: 0, judged: 1 });
  });
});
