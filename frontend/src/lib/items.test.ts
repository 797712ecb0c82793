import { describe, expect, test } from "vitest";
import type { Item } from "../api/queries";
import { commandOf, errorsOf, nameOf, readPlace, traceOf } from "./items";

const ITEM: Item = {
  id: "1", input: {}, expectedOutput: null, actualOutput: {}, metadata: null, evalResults: [], createdAt: "", datasetItemId: null,
  annotation: null, tokensIn: null, tokensOut: null, costUsd: null, latencyMs: null, ordinal: 3, repetition: 0, error: null, judgeErrors: [],
};
const own = (dokimos: Record<string, unknown>, rest: Partial<Item> = {}): Item => ({ ...ITEM, metadata: { dokimos }, ...rest });

describe("errorsOf", () => {
  test("has the application's error with its traceback", () => {
    const item = own({ errorDetail: { traceback: "Traceback ..." } }, { error: "ValueError: no" });
    expect(errorsOf(item)).toEqual([{ evaluator: null, text: "ValueError: no", traceback: "Traceback ..." }]);
  });

  test("has each evaluator's error once, and those of judges of the server", () => {
    const item = own({ errors: { tone: "no reply" }, errorDetails: { tone: { traceback: "T" } } }, {
      error: "tone: no reply",
      judgeErrors: [{ jobId: "j", evaluatorName: "judge", kind: "timeout", message: "late", createdAt: "" }],
    });
    expect(errorsOf(item).map((one) => [one.evaluator, one.text, one.traceback])).toEqual([
      ["tone", "no reply", "T"],
      ["judge", "late", null],
    ]);
  });

  test("takes metadata of any shape", () => {
    for (const dokimos of [null, 1, "x", [1], { errors: [1], errorDetail: "x" }]) {
      expect(errorsOf({ ...ITEM, metadata: { dokimos } })).toEqual([]);
      expect(nameOf({ ...ITEM, metadata: { dokimos } })).toBe("#3");
    }
  });
});

describe("commandOf", () => {
  test("runs the one item again, with words that a shell would take apart in quotes", () => {
    const provenance = { command: ["/venv/bin/dokimos", "run", "my evals.py", "-j", "2"] };
    expect(commandOf(own({ id: "it's" }), provenance)).toBe("dokimos run 'my evals.py' -j 2 --filter 'id:it'\\''s'");
    expect(commandOf(own({ id: "w1" }), { command: ["C:\\x\\dokimos.exe", "run", "e.py"] })).toBe("dokimos run e.py --filter id:w1");
  });

  test("is not made up where nobody knows how it was run", () => {
    expect(commandOf(ITEM, { command: ["dokimos", "run", "e.py"] })).toBeNull();
    expect(commandOf(own({ id: "a" }), { command: ["pytest"] })).toBeNull();
    expect(commandOf(own({ id: "a" }), null)).toBeNull();
  });
});

test("an item names its trace under either name, and nothing else is taken for one", () => {
  const [traceId, spanId] = ["4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"];
  expect(traceOf({ metadata: { traceId, spanId } })).toEqual({ traceId, spanId });
  expect(traceOf({ metadata: { source: { traceId, spanId: "../x" } } })).toEqual({ traceId, spanId: null });
  expect(traceOf({ metadata: { traceId: traceId.toUpperCase(), spanId: spanId.toUpperCase() } })).toEqual({ traceId, spanId });
  expect(traceOf({ metadata: { traceId: "javascript:alert(1)" } })).toBeNull();
  expect(traceOf({ metadata: null })).toBeNull();
  expect([readPlace("3.1"), readPlace("3"), readPlace("x")]).toEqual([{ ordinal: 3, repetition: 1 }, { ordinal: 3, repetition: 0 }, null]);
});
