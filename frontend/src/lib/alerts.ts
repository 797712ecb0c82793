/** An alert on traces as it is typed, as it is sent, and what it watches in words. */
import type { Mean, TraceAlert } from "../api/online";
import { cost, duration, rate, score } from "./format";
import { toField, toMoment } from "./settings";

type Watched = Pick<TraceAlert, "metric" | "over">;
type Body = Record<string, unknown>;

export const METRICS: Record<TraceAlert["metric"], string> = { SCORE: "score", PASS_RATE: "pass rate", ERROR_RATE: "error rate", LATENCY: "latency", COST: "cost" };

/** A value of what an alert watches, in its unit. */
export function valueOf({ metric, over }: Watched, value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (over !== null || metric === "PASS_RATE" || metric === "ERROR_RATE") return rate(value);
  return metric === "LATENCY" ? duration(value) : metric === "COST" ? cost(value) : score(value);
}

export function meanOf(watched: Watched, mean: Mean | null): string {
  if (mean === null || mean.value === null) return "–";
  const interval = mean.low === null || mean.high === null ? "" : ` (95 % between ${valueOf(watched, mean.low)} and ${valueOf(watched, mean.high)})`;
  return valueOf(watched, mean.value) + interval;
}

/** What is watched, such as `share of traces with a latency above 10.0 s`. */
export function watchedBy({ metric, over }: Watched): string {
  if (over === null) return METRICS[metric];
  return `share of traces with a ${METRICS[metric]} above ${metric === "LATENCY" ? duration(over) : cost(over)}`;
}

/** The fields of the form; numbers are in the units that people read: percent, seconds, dollars, points of a score. */
export interface AlertDraft {
  readonly name: string;
  readonly enabled: boolean;
  readonly metric: TraceAlert["metric"];
  readonly ruleId: string;
  /** Of latency and cost: whether the share of traces above `over` is watched. */
  readonly isShare: boolean;
  readonly over: string;
  readonly model: string;
  readonly rootName: string;
  readonly userId: string;
  readonly kind: TraceAlert["kind"];
  readonly direction: TraceAlert["direction"];
  /** What a change is held against: so many of the next traces, those of a period, or a value. */
  readonly against: "count" | "period" | "value";
  readonly count: string;
  readonly from: string;
  readonly to: string;
  readonly reference: string;
  readonly tolerance: string;
  readonly importance: string;
  readonly limit: string;
  readonly windowOf: "traces" | "minutes";
  readonly window: string;
}

export const NEW_ALERT: AlertDraft = {
  name: "", enabled: true, metric: "ERROR_RATE", ruleId: "", isShare: false, over: "", model: "", rootName: "", userId: "", kind: "CHANGE",
  direction: "RISE", against: "count", count: "1000", from: "", to: "", reference: "", tolerance: "0", importance: "1", limit: "", windowOf: "traces",
  window: "100",
};

export const isOfRule = (metric: TraceAlert["metric"]): boolean => metric === "SCORE" || metric === "PASS_RATE";
export const hasNoLargest = (metric: TraceAlert["metric"]): boolean => metric === "LATENCY" || metric === "COST";

/** The draft for another metric or kind, with a direction that it can have. */
export function withMetric(draft: AlertDraft, metric: TraceAlert["metric"]): AlertDraft {
  if (metric === draft.metric) return draft;
  return { ...draft, metric, direction: isOfRule(metric) ? "DROP" : "RISE", isShare: draft.isShare && hasNoLargest(metric) };
}

export function withKind(draft: AlertDraft, kind: TraceAlert["kind"]): AlertDraft {
  const isPossible = kind === "CHANGE" || draft.direction !== "BOTH";
  return { ...draft, kind, direction: isPossible ? draft.direction : isOfRule(draft.metric) ? "DROP" : "RISE" };
}

interface Unit {
  /** Behind the name of a field. */
  readonly label: string;
  /** How many of it are one of the unit of the API. */
  readonly factor: number;
}

const PERCENT: Unit = { label: ", in percent", factor: 100 };
const SECONDS: Unit = { label: ", in seconds", factor: 0.001 };
const DOLLARS: Unit = { label: ", in US dollars", factor: 1 };
const SCORE: Unit = { label: ", on the scale of the rule", factor: 1 };

/** In what means, limits and tolerances are typed. */
export function unitOf({ metric, isShare }: Pick<AlertDraft, "metric" | "isShare">): Unit {
  if (metric === "SCORE") return SCORE;
  if (metric === "LATENCY" && !isShare) return SECONDS;
  return metric === "COST" && !isShare ? DOLLARS : PERCENT;
}

/** In what the bound is typed above which traces are counted. */
export const boundUnitOf = (metric: TraceAlert["metric"]): Unit => (metric === "LATENCY" ? SECONDS : DOLLARS);

/** Without the dust of binary fractions. */
const tidy = (value: number): number => Number(value.toPrecision(12));
const toText = (value: number | null | undefined, unit: Unit): string => (value == null ? "" : String(tidy(value * unit.factor)));

export function readAlert(alert: TraceAlert): AlertDraft {
  const isShare = alert.over !== null;
  const unit = unitOf({ metric: alert.metric, isShare });
  const { baseline, window } = alert;
  return {
    ...NEW_ALERT,
    name: alert.name,
    enabled: alert.enabled,
    metric: alert.metric,
    ruleId: alert.ruleId ?? "",
    isShare,
    over: toText(alert.over, boundUnitOf(alert.metric)),
    model: alert.filter?.model ?? "",
    rootName: alert.filter?.rootName ?? "",
    userId: alert.filter?.userId ?? "",
    kind: alert.kind,
    direction: alert.direction,
    against: alert.kind === "THRESHOLD" ? NEW_ALERT.against : baseline === null ? "value" : baseline.count === null ? "period" : "count",
    count: baseline?.count == null ? NEW_ALERT.count : String(baseline.count),
    from: toField(baseline?.from ?? undefined),
    to: toField(baseline?.to ?? undefined),
    reference: baseline === null ? toText(alert.reference, unit) : "", // what was learned is not what was set
    tolerance: toText(alert.tolerance, unit),
    importance: String(alert.importance),
    limit: toText(alert.limit, unit),
    windowOf: window?.minutes == null ? "traces" : "minutes",
    window: window === null ? NEW_ALERT.window : String(window.minutes ?? window.traces),
  };
}

/** What is sent. What was not typed anew is sent as it was, to the last digit: another value would begin the watch anew. */
export function writeAlert(draft: AlertDraft, alert?: TraceAlert): Body {
  const before = alert === undefined ? undefined : readAlert(alert);
  const hasSameUnit = before !== undefined && before.metric === draft.metric && before.isShare === draft.isShare;
  const unit = unitOf(draft);
  const number = (name: "over" | "reference" | "tolerance" | "limit", scale: Unit): number =>
    hasSameUnit && before[name] === draft[name] && alert?.[name] != null ? alert[name] : tidy(Number(draft[name]) / scale.factor);
  const moment = (name: "from" | "to"): string | null =>
    before?.[name] === draft[name] && alert?.baseline?.[name] != null ? alert.baseline[name] : toMoment(draft[name]);
  const filter = Object.fromEntries((["model", "rootName", "userId"] as const).flatMap((name) => (draft[name].trim() === "" ? [] : [[name, draft[name].trim()]])));
  const against: Body =
    draft.against === "value" ? { reference: number("reference", unit) }
    : { baseline: draft.against === "count" ? { count: Number(draft.count) } : { from: moment("from"), to: moment("to") } };
  return {
    name: draft.name.trim(),
    enabled: draft.enabled,
    kind: draft.kind,
    metric: draft.metric,
    ...(isOfRule(draft.metric) ? { ruleId: draft.ruleId } : Object.keys(filter).length > 0 ? { filter } : {}),
    direction: draft.direction,
    ...(draft.isShare ? { over: number("over", boundUnitOf(draft.metric)) } : {}),
    importance: Number(draft.importance),
    ...(draft.kind === "CHANGE"
      ? { ...against, tolerance: draft.tolerance.trim() === "" ? 0 : number("tolerance", unit) }
      : { limit: number("limit", unit), window: { [draft.windowOf]: Number(draft.window) } }),
  };
}

/** The fields of an alert as they are sent, as they were set: a reference that a baseline gave is not one. */
export const alertBodyOf = (alert: TraceAlert): Body => writeAlert(readAlert(alert), alert);

const WATCHED = ["kind", "metric", "ruleId", "filter", "direction", "over", "reference", "baseline", "tolerance", "limit", "window"] as const;

/** Whether a change makes an alert forget what it has seen: all but a name, a weight and a pause does. */
export function beginsAnew(body: Body, alert: TraceAlert): boolean {
  const before = alertBodyOf(alert);
  return WATCHED.some((name) => JSON.stringify(body[name]) !== JSON.stringify(before[name]));
}
