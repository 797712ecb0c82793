/** A rule as it is typed, and as it is sent. */

export interface RuleDraft {
  readonly name: string;
  readonly matchType: string;
  readonly matchKey: string;
  readonly matchValue: string;
  readonly scope: string;
  readonly evaluatorName: string;
  readonly kind: "judge" | "evaluator";
  readonly connectionId: string;
  readonly criteria: string;
  readonly minScore: string;
  readonly maxScore: string;
  readonly threshold: string;
  readonly type: string;
  readonly params: string;
  readonly share: string;
  readonly maxCostUsd: string;
  /** Shares of scores that people look at, in percent, and how many at most in a day. */
  readonly reviewFailed: string;
  readonly reviewOther: string;
  readonly reviewMost: string;
}

export const NEW_RULE: RuleDraft = {
  name: "", matchType: "SPAN_NAME", matchKey: "", matchValue: "", scope: "span", evaluatorName: "", kind: "judge",
  connectionId: "", criteria: "", minScore: "0", maxScore: "1", threshold: "0.5", type: "length", params: "{}", share: "100",
  maxCostUsd: "", reviewFailed: "0", reviewOther: "0", reviewMost: "50",
};

type Body = Record<string, unknown>;

const percent = (rate: unknown): string => String(Number((Number(rate) * 100).toPrecision(6)));

export function readDraft(body: Body): RuleDraft {
  const text = (name: string) => (body[name] === undefined || body[name] === null ? "" : String(body[name]));
  const evaluator = body["evaluator"] as { readonly type: string; readonly params: unknown } | undefined;
  const share = (body["sampling"] as Body | undefined)?.["rate"];
  const most = (body["budget"] as Body | undefined)?.["maxCostUsd"];
  const review = body["review"] as Body | undefined;
  return {
    ...NEW_RULE,
    ...(review === undefined ? {} : {
      reviewFailed: percent(review["failedRate"] ?? 1),
      reviewOther: percent(review["otherRate"] ?? 0),
      reviewMost: String(review["maxPerDay"] ?? NEW_RULE.reviewMost),
    }),
    name: text("name"), matchType: text("matchType"), matchKey: text("matchKey"), matchValue: text("matchValue"), scope: text("scope"),
    evaluatorName: text("evaluatorName"), kind: evaluator === undefined ? "judge" : "evaluator", connectionId: text("connectionId"),
    criteria: text("criteria"), threshold: text("threshold"),
    ...(evaluator === undefined ? { minScore: text("minScore"), maxScore: text("maxScore") } : { type: evaluator.type, params: JSON.stringify(evaluator.params) }),
    share: percent(share ?? 1),
    maxCostUsd: typeof most === "number" ? String(most) : "",
  };
}

/** What is sent: what the form does not show, such as conditions, stays as it was. Throws where the parameters are not JSON. */
export function writeDraft(draft: RuleDraft, before: Body = {}): Body {
  const { criteria: _criteria, minScore: _min, maxScore: _max, threshold: _threshold, evaluator: _evaluator, connectionId: _connection, matchKey: _key, sampling, budget, review: _review, ...kept } = before;
  const share = Number(draft.share) / 100;
  const limits: Body = { ...(budget as Body | undefined), ...(draft.maxCostUsd === "" ? { maxCostUsd: null } : { maxCostUsd: Number(draft.maxCostUsd) }) };
  const keptLimits = Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== null));
  const hasStrata = (sampling as Body | undefined)?.["strata"] !== undefined;
  return {
    ...kept,
    name: draft.name.trim(),
    enabled: before["enabled"] ?? true,
    matchType: draft.matchType,
    ...(draft.matchType !== "SPAN_NAME" && draft.matchKey !== "" ? { matchKey: draft.matchKey } : {}),
    matchValue: draft.matchValue,
    scope: draft.scope,
    evaluatorName: draft.evaluatorName.trim() || draft.name.trim(),
    ...(draft.connectionId === "" ? {} : { connectionId: draft.connectionId }),
    ...(draft.kind === "judge"
      ? {
          criteria: draft.criteria,
          minScore: Number(draft.minScore),
          maxScore: Number(draft.maxScore),
          ...(draft.threshold === "" ? {} : { threshold: Number(draft.threshold) }),
        }
      : { evaluator: { type: draft.type, params: JSON.parse(draft.params || "{}") as unknown } }),
    ...(share < 1 || hasStrata ? { sampling: { ...(sampling as Body | undefined), rate: share } } : {}),
    ...(Number(draft.reviewFailed) > 0 || Number(draft.reviewOther) > 0
      ? { review: { failedRate: Number(draft.reviewFailed) / 100, otherRate: Number(draft.reviewOther) / 100, maxPerDay: Number(draft.reviewMost) } }
      : {}),
    ...(Object.keys(keptLimits).length === 0 ? {} : { budget: keptLimits }),
  };
}
