import { describe, expect, it } from "vitest";
import type { TraceAlert } from "../api/online";
import {
  NEW_ALERT, alertBodyOf, beginsAnew, calledBy, faultOf, readAlert, sayLowerBounds, sayTimes, spanOf, valueOf, watchedBy, withKind, withMetric, withShare, writeAlert,
} from "./alerts";

const STORED: TraceAlert = {
  id: "a", projectId: "p", tenantId: null, name: "slow", enabled: true, kind: "CHANGE", metric: "LATENCY", ruleId: null, filter: { model: "m", rootName: null, userId: null },
  direction: "RISE", over: 1005.0000001, reference: 0.123456789012345, baseline: { count: 500, from: null, to: null }, tolerance: 0.010000000000001,
  importance: 2, limit: null, window: null, createdAt: "2026-11-01T00:00:00Z", updatedAt: "2026-11-01T00:00:00Z", version: "7", status: "WATCHING",
  problem: null, needsRestart: false, falseAlarmsPerYear: 1, observationCount: 900, lowerBoundCount: 0, observedUntil: null, learnedCount: null, evidence: 1, needed: 365, mean: null,
  meanSinceFiring: null, value: null, firing: null,
};

describe("an alert", () => {
  it("says how many of the costs that it has seen lack some calls", () => {
    expect(sayLowerBounds(2)).toBe("The cost of 2 traces is a lower bound: some of the model calls are unpriced.");
    expect([sayLowerBounds(0), sayLowerBounds(null)]).toEqual(["", ""]);
  });

  it("is sent as it was set, to the last digit, and without the reference that it learned", () => {
    expect(alertBodyOf(STORED)).toEqual({
      name: "slow", enabled: true, kind: "CHANGE", metric: "LATENCY", filter: { model: "m" }, direction: "RISE", over: 1005.0000001, importance: 2,
      baseline: { count: 500 }, tolerance: 0.010000000000001,
    });
    const period = { ...STORED, baseline: { count: null, from: "2026-11-01T00:00:01.234567Z", to: "2026-11-02T00:00:00Z" } };
    expect(alertBodyOf(period)["baseline"]).toEqual({ from: "2026-11-01T00:00:01.234567Z", to: "2026-11-02T00:00:00Z" });
    const reference = { ...STORED, over: null, baseline: null, reference: 1005.0000000001, filter: null };
    expect(alertBodyOf(reference)).toMatchObject({ reference: 1005.0000000001 });
    expect(alertBodyOf(reference)).not.toHaveProperty("filter");
  });

  it("keeps what fits its kind only", () => {
    const limit = { ...STORED, kind: "THRESHOLD", baseline: null, reference: null, tolerance: 0, limit: 0.2, window: { traces: null, minutes: 60 } } as const;

    expect(alertBodyOf(limit)).toEqual({
      name: "slow", enabled: true, kind: "THRESHOLD", metric: "LATENCY", filter: { model: "m" }, direction: "RISE", over: 1005.0000001, importance: 2,
      limit: 0.2, window: { minutes: 60 },
    });
    expect(writeAlert({ ...NEW_ALERT, metric: "SCORE", ruleId: "r", model: "ignored" })).not.toHaveProperty("filter");
  });

  it("is typed in percent, seconds, dollars and points of a score", () => {
    const typed = (next: object) => writeAlert({ ...NEW_ALERT, kind: "THRESHOLD", limit: "12.5", ...next })["limit"];

    expect(typed({})).toBe(0.125);
    expect(typed({ metric: "LATENCY" })).toBe(12_500);
    expect(typed({ metric: "LATENCY", isShare: true, over: "10" })).toBe(0.125);
    expect(typed({ metric: "COST" })).toBe(12.5);
    expect(typed({ metric: "SCORE" })).toBe(12.5);
    expect(writeAlert({ ...NEW_ALERT, metric: "LATENCY", isShare: true, over: "1.005" })["over"]).toBe(1005);
    expect(readAlert({ ...STORED, over: null, reference: 1500, baseline: null }).reference).toBe("1.5");
  });

  it("sends a number anew where its unit is another one", () => {
    const draft = { ...readAlert({ ...STORED, over: null, tolerance: 500 }), metric: "ERROR_RATE" } as const;

    expect(draft.tolerance).toBe("0.5");
    expect(writeAlert(draft, { ...STORED, over: null, tolerance: 500 })["tolerance"]).toBe(0.005);
  });

  it("begins anew with another thing to watch, and with no other change", () => {
    const draft = readAlert(STORED);
    const changes = (next: object) => beginsAnew(writeAlert({ ...draft, ...next }, STORED), STORED);

    expect(changes({ name: "other", enabled: false, importance: "3" })).toBe(false);
    expect(changes({ tolerance: "1.5" })).toBe(true);
    expect(changes({ model: "" })).toBe(true);
    expect(changes({ against: "value", reference: "12" })).toBe(true);
  });

  it("is not sent with a number that is missing, which would be taken for 0", () => {
    for (const next of [{ kind: "THRESHOLD" }, { against: "value" }, { metric: "COST", isShare: true }, { count: " " }, { importance: "" }] as const) {
      expect(() => writeAlert({ ...NEW_ALERT, ...next })).toThrow(RangeError);
    }
    expect(writeAlert({ ...NEW_ALERT, tolerance: "" })["tolerance"]).toBe(0);
  });

  it("is sent with a filter as it is stored, spaces and all, as long as nobody types another", () => {
    const stored = { ...STORED, name: " slow", filter: { model: " m ", rootName: " ", userId: null } };

    expect(alertBodyOf(stored)).toMatchObject({ name: " slow", filter: { model: " m ", rootName: " " } });
    expect(writeAlert({ ...readAlert(stored), model: " n " }, stored)["filter"]).toEqual({ model: "n", rootName: " " });
  });

  it("forgets numbers that were typed in another unit", () => {
    const draft = { ...NEW_ALERT, metric: "LATENCY", isShare: true, over: "10", limit: "20", reference: "5", tolerance: "1" } as const;

    expect(withMetric(draft, "COST")).toMatchObject({ over: "", limit: "20", reference: "5", tolerance: "1" });
    expect(withMetric(draft, "PASS_RATE")).toMatchObject({ limit: "20" });
    expect(withMetric(draft, "SCORE")).toMatchObject({ over: "", limit: "", reference: "", tolerance: "0" });
    expect(withShare(draft, false)).toMatchObject({ over: "10", limit: "", reference: "", tolerance: "0" });
    expect(withShare(draft, true)).toEqual(draft);
  });

  it("has a limit beyond which a mean can be", () => {
    expect(spanOf({ metric: "ERROR_RATE", isShare: false }, "limit")).toEqual({ min: 0, max: 100 });
    expect(spanOf({ metric: "LATENCY", isShare: false }, "limit")).toEqual({ min: 0 });
    expect(spanOf({ metric: "SCORE", isShare: false }, "limit")).toEqual({});
    expect(faultOf({ ...NEW_ALERT, limit: "100" }, "limit")).toBe("It must be below 100.");
    expect(faultOf({ ...NEW_ALERT, limit: "0" }, "limit")).toBe("");
    expect(faultOf({ ...NEW_ALERT, direction: "DROP", limit: "0" }, "limit")).toBe("It must be above 0.");
    expect(faultOf({ ...NEW_ALERT, reference: "0" }, "reference")).toBe("It must be above 0.");
    expect(faultOf({ ...NEW_ALERT, reference: "" }, "reference")).toBe("");
  });

  it("calls the webhooks of its tenant, or all of the project where it is shared", () => {
    const webhooks = [{ enabled: true, tenantId: null }, { enabled: true, tenantId: "t" }, { enabled: false, tenantId: "t" }];

    expect(calledBy(webhooks, null)).toHaveLength(2);
    expect(calledBy(webhooks, "t")).toEqual([{ enabled: true, tenantId: "t" }]);
    expect(calledBy(webhooks, "u")).toEqual([]);
  });

  it("says how often in words that read well", () => {
    expect([0, 0.0001, 0.02, 0.5, 1, 1.04, 1.4, 2, 41.2].map(sayTimes)).toEqual([
      "never", "less than 0.01 times", "0.02 times", "0.5 times", "once", "once", "1.4 times", "2 times", "41 times",
    ]);
  });

  it("does not read as 0 where it is small", () => {
    expect(valueOf({ metric: "COST", over: null }, 0.00002)).toBe("$0.00002");
    expect(valueOf({ metric: "COST", over: null }, 0.0123)).toBe("$0.0123");
    expect(valueOf({ metric: "ERROR_RATE", over: null }, 0.0001234)).toBe("0.012 %");
    expect(valueOf({ metric: "LATENCY", over: null }, 0.25)).toBe("0.25 ms");
    expect(valueOf({ metric: "SCORE", over: null }, -0.001)).toBe("−0.001");
    expect(valueOf({ metric: "COST", over: null }, 0)).toBe("$0.0000");
    expect(watchedBy({ metric: "COST", over: 0.00002 })).toBe("share of traces with a cost above $0.00002");
  });

  it("has a direction that its metric and its kind can have", () => {
    expect(withMetric(NEW_ALERT, "SCORE").direction).toBe("DROP");
    expect(withMetric({ ...NEW_ALERT, metric: "COST", isShare: true }, "ERROR_RATE").isShare).toBe(false);
    expect(withKind({ ...NEW_ALERT, direction: "BOTH" }, "THRESHOLD").direction).toBe("RISE");
    expect(withKind({ ...NEW_ALERT, direction: "DROP" }, "THRESHOLD").direction).toBe("DROP");
  });

  it("says what it watches in its unit", () => {
    expect(watchedBy(STORED)).toBe("share of traces with a latency above 1.01 s");
    expect(valueOf(STORED, 0.2)).toBe("20.0 %");
    expect(valueOf({ metric: "LATENCY", over: null }, 1500)).toBe("1.50 s");
    expect(valueOf({ metric: "COST", over: null }, null)).toBe("–");
  });
});
