import { describe, expect, it } from "vitest";
import { NEW_RULE, readDraft, writeDraft } from "./rules";

describe("a rule", () => {
  it("is sent as it was read, with what the form does not show", () => {
    const judge = {
      name: "helpful", enabled: false, matchType: "ATTRIBUTE", matchKey: "env", matchValue: "prod", scope: "trace", evaluatorName: "help",
      connectionId: "c", criteria: "It helps.", minScore: 1, maxScore: 5, conditions: { all: [] },
      sampling: { rate: 0.05, strata: [{ name: "errors", rate: 1 }] }, budget: { maxCalls: 7 }, review: { failedRate: 1, otherRate: 0.025, maxPerDay: 20 },
    };
    const own = { name: "short", enabled: true, matchType: "SPAN_NAME", matchValue: "x", scope: "span", evaluatorName: "short", evaluator: { type: "length", params: { max: 9 } } };

    expect(writeDraft(readDraft(judge), judge)).toEqual(judge);
    expect(writeDraft(readDraft(own), own)).toEqual(own);
  });

  it("queues nothing for review where both shares are 0", () => {
    const before = { review: { failedRate: 1, otherRate: 0, maxPerDay: 20 } };
    const draft = { ...NEW_RULE, name: "a", kind: "evaluator" } as const;

    expect(writeDraft(draft, before)["review"]).toBeUndefined();
    expect(writeDraft({ ...draft, reviewOther: "2.5" }, before)["review"]).toEqual({ failedRate: 0, otherRate: 0.025, maxPerDay: 50 });
  });

  it("has the name of the rule where its scores have none, and a share and a budget where they are set", () => {
    const body = writeDraft({ ...NEW_RULE, name: " a ", share: "12.5", maxCostUsd: "2", kind: "evaluator" });

    expect(body).toMatchObject({ name: "a", evaluatorName: "a", sampling: { rate: 0.125 }, budget: { maxCostUsd: 2 }, enabled: true });
    expect(() => writeDraft({ ...NEW_RULE, kind: "evaluator", params: "{" })).toThrow();
  });
});
