/** An alert on traces as it is typed, as it is sent, and what it watches in words. */
import type { Mean, TraceAlert } from "../api/online";
import { cost, duration, plural, rate, score } from "./format";
import { toField, toMoment } from "./settings";

type Watched = Pick<TraceAlert, "metric" | "over">;
type Body = Record<string, unknown>;

export const METRICS: Record<TraceAlert["metric"], string> = { SCORE: "score", PASS_RATE: "pass rate", ERROR_RATE: "error rate", LATENCY: "latency", COST: "cost" };

/** A value of what an alert watches, in its unit. */
export function valueOf({ metric, over }: Watched, value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && Math.abs(value) < smallest({ metric, over })) return sayTiny({ metric, over }, value);
  if (over !== null || metric === "PASS_RATE" || metric === "ERROR_RATE") return rate(value);
  return metric === "LATENCY" ? duration(value) : metric === "COST" ? cost(value) : score(value);
}

/** Below this, a value would read as 0. */
function smallest({ metric, over }: Watched): number {
  if (over !== null || metric === "PASS_RATE" || metric === "ERROR_RATE") return 0.0005;
  return metric === "LATENCY" ? 1 : metric === "COST" ? 0.001 : 0.005;
}

const digits = (value: number): string => value.toLocaleString("en-US", { maximumSignificantDigits: 2 }).replace("-", "−");

function sayTiny({ metric, over }: Watched, value: number): string {
  if (over !== null || metric === "PASS_RATE" || metric === "ERROR_RATE") return `${digits(value * 100)} %`;
  return metric === "LATENCY" ? `${digits(value)} ms` : metric === "COST" ? `$${digits(value)}` : digits(value);
}

/** How often something happens on average, such as `once`, `1.4 times` or `about 0.02 times`. */
export function sayTimes(value: number): string {
  if (value === 0) return "never";
  if (value < 0.005) return "less than 0.01 times";
  const text = value >= 10 ? value.toFixed(0) : String(Number(value.toFixed(value < 1 ? 2 : 1)));
  return text === "1" ? "once" : `${text} times`;
}

export function meanOf(watched: Watched, mean: Mean | null): string {
  if (mean === null || mean.value === null) return "–";
  const interval = mean.low === null || mean.high === null ? "" : ` (95 % between ${valueOf(watched, mean.low)} and ${valueOf(watched, mean.high)})`;
  return valueOf(watched, mean.value) + interval;
}

/** What is watched, such as `share of traces with a latency above 10.0 s`. */
export function watchedBy({ metric, over }: Watched): string {
  if (over === null) return METRICS[metric];
  return `share of traces with a ${METRICS[metric]} above ${valueOf({ metric, over: null }, over)}`;
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
/** That some costs which an alert has seen are lower bounds; empty where none is. */
export function sayLowerBounds(traces: number | null): string {
  if (!traces) return "";
  return `The cost of ${plural(traces, "trace")} is a lower bound: some of the model calls are unpriced.`;
}

export const hasNoLargest = (metric: TraceAlert["metric"]): boolean => metric === "LATENCY" || metric === "COST";

/** The draft for another metric or kind, with a direction that it can have. */
export function withMetric(draft: AlertDraft, metric: TraceAlert["metric"]): AlertDraft {
  if (metric === draft.metric) return draft;
  const next = { ...draft, metric, direction: isOfRule(metric) ? "DROP" : "RISE", isShare: draft.isShare && hasNoLargest(metric) } as const;
  // A bound is in seconds or in dollars, so that of one metric means nothing for the other.
  return withUnit({ ...next, over: "" }, unitOf(draft));
}

/** The draft for the value itself, or for the share of traces above a bound. */
export const withShare = (draft: AlertDraft, isShare: boolean): AlertDraft => withUnit({ ...draft, isShare }, unitOf(draft));

/** Numbers that were typed in another unit mean nothing in this one. */
const withUnit = (draft: AlertDraft, before: Unit): AlertDraft =>
  unitOf(draft) === before ? draft : { ...draft, reference: "", limit: "", tolerance: NEW_ALERT.tolerance };

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

/** The least and the largest of what a field may hold; nothing where that depends on a rule, or there is none. */
export function spanOf(draft: Pick<AlertDraft, "metric" | "isShare">, name: "reference" | "limit" | "tolerance"): { readonly min?: number; readonly max?: number } {
  const unit = unitOf(draft);
  if (unit === SCORE) return name === "tolerance" ? { min: 0 } : {};
  return unit === PERCENT ? { min: 0, max: 100 } : { min: 0 };
}

/** What is wrong with a reference or a limit at the end of its span, where no mean could be beyond it; empty if nothing is. */
export function faultOf(draft: AlertDraft, name: "reference" | "limit"): string {
  const { min, max } = spanOf(draft, name);
  const text = draft[name].trim();
  if (text === "") return "";
  const isBeyond = (end: AlertDraft["direction"]): boolean => name === "reference" || draft.direction === end;
  if (min !== undefined && Number(text) === min && isBeyond("DROP")) return `It must be above ${min}.`;
  return max !== undefined && Number(text) === max && isBeyond("RISE") ? `It must be below ${max}.` : "";
}

/** In what the bound is typed above which traces are counted. */
export const boundUnitOf = (metric: TraceAlert["metric"]): Unit => (metric === "LATENCY" ? SECONDS : DOLLARS);

/** Without the dust of binary fractions. */
const tidy = (value: number): number => Number(value.toPrecision(12));
const toText = (value: number | null | undefined, unit: Unit): string => (value == null ? "" : String(tidy(value * unit.factor)));

function toNumber(text: string): number {
  if (text.trim() === "" || !Number.isFinite(Number(text))) throw new RangeError("A number is missing");
  return Number(text);
}

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

/**
 * What is sent. What was not typed anew is sent as it was, to the last digit: another value would begin the watch anew.
 *
 * Throws where a number is missing, which must not be taken for 0.
 */
export function writeAlert(draft: AlertDraft, alert?: TraceAlert): Body {
  const before = alert === undefined ? undefined : readAlert(alert);
  const hasSameUnit = before !== undefined && before.metric === draft.metric && before.isShare === draft.isShare;
  const unit = unitOf(draft);
  const number = (name: "over" | "reference" | "tolerance" | "limit", scale: Unit): number =>
    hasSameUnit && before[name] === draft[name] && alert?.[name] != null ? alert[name] : tidy(toNumber(draft[name]) / scale.factor);
  const moment = (name: "from" | "to"): string | null =>
    before?.[name] === draft[name] && alert?.baseline?.[name] != null ? alert.baseline[name] : toMoment(draft[name]);
  const chosen = (name: "model" | "rootName" | "userId"): string =>
    before?.[name] === draft[name] ? (alert?.filter?.[name] ?? "") : draft[name].trim();
  const filter = Object.fromEntries((["model", "rootName", "userId"] as const).flatMap((name) => (chosen(name) === "" ? [] : [[name, chosen(name)]])));
  const against: Body =
    draft.against === "value" ? { reference: number("reference", unit) }
    : { baseline: draft.against === "count" ? { count: toNumber(draft.count) } : { from: moment("from"), to: moment("to") } };
  return {
    name: before?.name === draft.name ? draft.name : draft.name.trim(),
    enabled: draft.enabled,
    kind: draft.kind,
    metric: draft.metric,
    ...(isOfRule(draft.metric) ? { ruleId: draft.ruleId } : Object.keys(filter).length > 0 ? { filter } : {}),
    direction: draft.direction,
    ...(draft.isShare ? { over: number("over", boundUnitOf(draft.metric)) } : {}),
    importance: toNumber(draft.importance),
    ...(draft.kind === "CHANGE"
      ? { ...against, tolerance: draft.tolerance.trim() === "" ? 0 : number("tolerance", unit) }
      : { limit: number("limit", unit), window: { [draft.windowOf]: toNumber(draft.window) } }),
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

/** The webhooks that an alert calls: one of a tenant only that tenant's, a shared one all of the project. */
export const calledBy = <T extends { readonly enabled: boolean; readonly tenantId: string | null }>(webhooks: readonly T[], tenant: string | null): T[] =>
  webhooks.filter((one) => one.enabled && (tenant === null || one.tenantId === tenant));
