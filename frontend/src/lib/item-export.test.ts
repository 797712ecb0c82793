import { expect, test } from "vitest";
import { exportFilter } from "./item-export";

test("what filters the list filters the export, and what only sorts or opens does not", () => {
  expect(exportFilter({ order: "score:F1", item: "3.0", slice: "topic" })).toEqual({});
  expect(exportFilter({ search: "a b", outcome: "error", evaluator: "F1" })).toEqual({ search: "a b", outcome: "errored", failedEvaluator: "F1" });
  expect(exportFilter({ order: "score:F1", low: 0.25 })).toEqual({ scoreOf: "F1", scoreFrom: 0.25 });
  expect(exportFilter({ order: "slowest", low: 0.25 })).toEqual({});
  expect(exportFilter({ slice: "topic", value: "tents" })).toEqual({ metadataKey: "topic", metadataValue: "tents" });
});
