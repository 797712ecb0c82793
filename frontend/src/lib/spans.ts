/** The spans of a trace as a tree with one time axis. */
import type { EvalJob, SpanSummary } from "../api/traces";
import { NOTHING_PRICED, type Priced, addPriced } from "./pricing";

/** Tokens, and what they cost in US dollars; null where nothing says so. */
export type Usage = Pick<SpanSummary, "tokensIn" | "tokensOut" | "costUsd">;

const NOT_USED: Usage & Priced = { tokensIn: null, tokensOut: null, ...NOTHING_PRICED };

export interface SpanRow {
  readonly span: SpanSummary;
  readonly depth: number;
  /** How many spans are below it, at any depth. */
  readonly below: number;
  /** Of the model calls below it, at any depth, as the trace counts them: an agent's own figures repeat those of its calls. */
  readonly usageBelow: Usage & Priced;
  /** Milliseconds from the start of the trace; null where the span has no start. */
  readonly offset: number | null;
  readonly duration: number | null;
  readonly parent: number | null;
  readonly isOrphan: boolean;
  readonly failed: boolean;
}

export interface SpanTree {
  /** Depth first, children by their starts. */
  readonly rows: readonly SpanRow[];
  /** Milliseconds from the first start to the last end. */
  readonly length: number;
  readonly places: ReadonlyMap<string, number>;
  readonly failedCount: number;
}

const NANO = 1e6;

export function isFailed(span: SpanSummary): boolean {
  return span.error !== null || span.statusCode === "STATUS_CODE_ERROR";
}

/** Nanoseconds since 1970 differ in digits that a number does not hold: they are subtracted as whole numbers. */
export function offsetOf(text: string | null, start: bigint): number | null {
  return text === null ? null : Number(BigInt(text) - start) / NANO;
}

export function buildTree(spans: readonly SpanSummary[], failedSpans: ReadonlySet<string> = new Set()): SpanTree {
  const known = new Set(spans.map((span) => span.spanId));
  const children = new Map<string | null, SpanSummary[]>();
  let start: bigint | null = null;
  for (const span of spans) {
    const parent = span.parentSpanId !== null && known.has(span.parentSpanId) ? span.parentSpanId : null;
    const list = children.get(parent);
    if (list === undefined) children.set(parent, [span]);
    else list.push(span);
    if (span.startTimeUnixNanoText !== null) {
      const began = BigInt(span.startTimeUnixNanoText);
      if (start === null || began < start) start = began;
    }
  }
  const rows: Mutable<SpanRow>[] = [];
  const places = new Map<string, number>();
  let failedCount = 0;
  let length = 0;
  const visit = (top: SpanSummary) => {
    // Without recursion: a trace may be thousands of spans deep.
    const waiting: [SpanSummary, number, number | null][] = [[top, 0, null]];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [span, depth, parent] = next;
      if (places.has(span.spanId)) continue;
      const place = rows.length;
      const offset = start === null ? null : offsetOf(span.startTimeUnixNanoText, start);
      const failed = isFailed(span) || failedSpans.has(span.spanId);
      if (failed) failedCount += 1;
      if (offset !== null) length = Math.max(length, offset + (span.durationMs ?? 0));
      places.set(span.spanId, place);
      rows.push({
        span, depth, below: 0, usageBelow: NOT_USED, offset, duration: span.durationMs, parent, failed,
        isOrphan: depth === 0 && span.parentSpanId !== null,
      });
      const under = children.get(span.spanId) ?? [];
      for (let index = under.length - 1; index >= 0; index -= 1) waiting.push([under[index] as SpanSummary, depth + 1, place]);
    }
  };
  for (const top of children.get(null) ?? []) visit(top);
  // Spans that are each other's parents hang below no root: they are shown all the same.
  for (const span of spans) if (!places.has(span.spanId)) visit(span);
  for (let place = rows.length - 1; place >= 0; place -= 1) {
    const row = rows[place] as Mutable<SpanRow>;
    if (row.parent === null) continue;
    const parent = rows[row.parent] as Mutable<SpanRow>;
    parent.below += row.below + 1;
    parent.usageBelow = addUsage(addUsage(parent.usageBelow, row.usageBelow), usageOfCall(row.span));
  }
  return { rows, length, places, failedCount };
}

export const isUsed = (usage: Usage): boolean => usage.tokensIn !== null || usage.tokensOut !== null || usage.costUsd !== null;

/** What a model call has used; a call without tokens, such as one that failed, has a price as little as it lacks one. */
function usageOfCall(span: SpanSummary): Usage & Priced {
  if (span.role !== "model" || !isUsed(span)) return NOT_USED;
  const isPriced = span.costUsd !== null;
  return { tokensIn: span.tokensIn, tokensOut: span.tokensOut, costUsd: span.costUsd, pricedCallCount: isPriced ? 1 : 0, unpricedCallCount: isPriced ? 0 : 1 };
}

function addUsage(one: Usage & Priced, other: Usage & Priced): Usage & Priced {
  if (!isUsed(one) || !isUsed(other)) return isUsed(one) ? one : other;
  const add = (a: number | null, b: number | null) => (a === null || b === null ? (a ?? b) : a + b);
  return { tokensIn: add(one.tokensIn, other.tokensIn), tokensOut: add(one.tokensOut, other.tokensOut), ...addPriced(one, other) };
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export const SEARCH_PLACES = ["anywhere", "name", "key", "value"] as const;
/** Where in spans is searched: anywhere, in their names, or in the keys or the values of their attributes. */
export type SearchPlace = (typeof SEARCH_PLACES)[number];

interface Choice {
  readonly collapsed: ReadonlySet<string>;
  readonly search: string;
  readonly place?: SearchPlace;
  /** The spans that the server has found by now; what the page has of a span does not include its attributes. */
  readonly matches?: ReadonlySet<string>;
  /** Whether the spans that are not chosen are shown all the same. */
  readonly isWhole?: boolean;
  readonly onlyFailing: boolean;
  /** The kind of the spans that are wanted, such as `llm`; all where there is none. */
  readonly kind?: string | undefined;
}

interface ChosenRows {
  /** The places of the rows that are shown: what is chosen with all that is above it, without what is collapsed. */
  readonly shown: readonly number[];
  /** The places of what is chosen, collapsed or not; all where nothing narrows them. */
  readonly hits: readonly number[];
}

export function chooseRows(tree: SpanTree, { collapsed, search, place: where = "anywhere", matches, isWhole = false, onlyFailing, kind }: Choice): ChosenRows {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const { rows } = tree;
  const kept = new Uint8Array(rows.length);
  const hits: number[] = [];
  for (let place = 0; place < rows.length; place += 1) {
    const row = rows[place] as SpanRow;
    if ((onlyFailing && !row.failed) || (kind !== undefined && row.span.role !== kind)) continue;
    if (!hasWords(row.span, words, where) && matches?.has(row.span.spanId) !== true) continue;
    hits.push(place);
    for (let at: number | null = place; at !== null && kept[at] === 0; at = (rows[at] as SpanRow).parent) kept[at] = 1;
  }
  if (isWhole) kept.fill(1);
  const shown: number[] = [];
  for (let place = 0; place < rows.length; place += 1) {
    const row = rows[place] as SpanRow;
    if (kept[place] === 1) shown.push(place);
    if (collapsed.has(row.span.spanId)) place += row.below;
  }
  return { shown, hits };
}

/** The next of the hits behind a place, or the one before it; from the last one on to the first. Null where there is none. */
export function stepToHit(hits: readonly number[], place: number | undefined, step: 1 | -1): number | null {
  const behind = place === undefined ? 0 : hits.findIndex((one) => one >= place);
  const at = behind < 0 ? hits.length : behind;
  const next = step < 0 ? at - 1 : place !== undefined && hits[at] === place ? at + 1 : at;
  return hits[(next + hits.length) % hits.length] ?? null;
}

/** The ids of the spans above one, which are not to be collapsed where it is to be seen. */
export function idsAbove(tree: SpanTree, place: number): string[] {
  const ids: string[] = [];
  for (let at = tree.rows[place]?.parent ?? null; at !== null; at = tree.rows[at]?.parent ?? null) ids.push(tree.rows[at]?.span.spanId ?? "");
  return ids;
}

/** How many spans there are of each kind, the most frequent first. */
export function countKindsOfSpans(tree: SpanTree): (readonly [kind: string, spans: number])[] {
  const counts = new Map<string, number>();
  for (const { span } of tree.rows) counts.set(span.role, (counts.get(span.role) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

// Kept, since each key that is typed asks all spans again.
const TEXTS = new WeakMap<SpanSummary, string>();

/** Whether a span has all words in what the page has of it. */
function hasWords(span: SpanSummary, words: readonly string[], place: SearchPlace): boolean {
  if (words.length === 0) return true;
  if (place !== "anywhere") {
    const name = place === "name" ? span.name.toLowerCase() : "";
    return words.every((word) => name.includes(word));
  }
  let text = TEXTS.get(span);
  if (text === undefined) {
    text = [span.name, span.role, span.model, span.spanId, span.inputText, span.outputText, span.error].join("\n").toLowerCase();
    TEXTS.set(span, text);
  }
  const all = text;
  return words.every((word) => all.includes(word));
}

/** The attributes whose names or values have all words of a text. */
export function filterAttributes(attributes: Readonly<Record<string, unknown>>, text: string): [string, unknown][] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return Object.entries(attributes).filter(([name, value]) => {
    const all = `${name}\n${typeof value === "string" ? value : (JSON.stringify(value) ?? "")}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

/** What a rule said; a job that waits, or is tried again after an error, has said nothing yet. */
export function outcomeOfJob(job: EvalJob): "pass" | "fail" | "error" | "none" {
  if (job.success === true) return "pass";
  if (job.success === false) return "fail";
  return job.status === "FAILED" ? "error" : "none";
}

export function isWaiting(job: EvalJob): boolean {
  return job.score === null && job.status !== "FAILED";
}

/** Results by the span that they are about. */
export function bySpan(jobs: readonly EvalJob[]): ReadonlyMap<string, readonly EvalJob[]> {
  const found = new Map<string, EvalJob[]>();
  for (const job of jobs) {
    const list = found.get(job.spanId);
    if (list === undefined) found.set(job.spanId, [job]);
    else list.push(job);
  }
  return found;
}

export interface RetrievedChunk {
  readonly id: string;
  readonly text: string;
  readonly score: number | null;
}

/** The chunks that a span retrieved, in either of the two ways in which attributes hold them. */
export function retrievedChunks(attributes: Record<string, unknown>): RetrievedChunk[] {
  for (const name of ["gen_ai.retrieval.documents", "retrieval.documents"]) {
    const list = parse(attributes[name]);
    if (Array.isArray(list)) return list.map((one, index) => chunk(one, index));
  }
  const found = new Map<number, Record<string, unknown>>();
  for (const [name, value] of Object.entries(attributes)) {
    const match = /^retrieval\.documents\.(\d+)\.(?:document\.)?(\w+)$/.exec(name);
    if (match === null) continue;
    const index = Number(match[1]);
    found.set(index, { ...found.get(index), [match[2] as string]: value });
  }
  return [...found].sort(([a], [b]) => a - b).map(([index, one]) => chunk(one, index));
}

function chunk(value: unknown, index: number): RetrievedChunk {
  const one = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : { content: value };
  const inner = typeof one["document"] === "object" && one["document"] !== null ? (one["document"] as Record<string, unknown>) : one;
  const text = inner["content"] ?? inner["text"] ?? inner["page_content"];
  const score = inner["score"] ?? one["score"];
  return {
    id: String(inner["id"] ?? index + 1),
    text: text === undefined || text === null ? "" : typeof text === "string" ? text : JSON.stringify(text),
    score: typeof score === "number" ? score : null,
  };
}

function parse(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch {
    return null;
  }
}
