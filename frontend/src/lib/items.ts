/** What lists say of an item. */
import type { EvalResult, Item } from "../api/queries";
import { score, textOf } from "./format";

/** The id that the dataset gives an item, or its place in the run. */
export function nameOf(item: Item): string {
  const id = ownOf(item)["id"];
  return typeof id === "string" || typeof id === "number" ? String(id) : `#${item.ordinal}`;
}

/** What our client says of an item in its metadata, for which the wire has no field. */
function ownOf(item: Item): Record<string, unknown> {
  return record(item.metadata?.["dokimos"]);
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

/** An ordinal and a repetition, as `3.0`; null for another text. */
export function readPlace(place: string): { ordinal: number; repetition: number } | null {
  const match = /^(\d{1,15})(?:\.(\d{1,15}))?$/.exec(place);
  return match === null ? null : { ordinal: Number(match[1]), repetition: Number(match[2] ?? 0) };
}

export interface TracePlace {
  readonly traceId: string;
  readonly spanId: string | null;
}

/** The trace that an item was made of: `to_examples` and the server's promotions name it in the metadata. */
export function traceOf(item: Pick<Item, "metadata">): TracePlace | null {
  for (const place of [item.metadata ?? {}, record(item.metadata?.["source"])]) {
    const { traceId, spanId } = place;
    if (typeof traceId !== "string" || !/^[\da-f]{32}$/i.test(traceId)) continue;
    // The server has ids in small letters, and so has the page that they lead to.
    return { traceId: traceId.toLowerCase(), spanId: typeof spanId === "string" && /^[\da-f]{16}$/i.test(spanId) ? spanId.toLowerCase() : null };
  }
  return null;
}

export interface ItemError {
  /** The evaluator that failed; null where the application did. */
  readonly evaluator: string | null;
  readonly text: string;
  /** Where it happened, where that is known. */
  readonly traceback: string | null;
}

/** Everything that went wrong with an item: the application's error, and those of evaluators. */
export function errorsOf(item: Item): ItemError[] {
  const own = ownOf(item);
  const details = record(own["errorDetails"]);
  const evaluators = Object.entries(record(own["errors"])).map(
    ([evaluator, text]): ItemError => ({ evaluator, text: textOf(text), traceback: tracebackOf(details[evaluator]) }),
  );
  const judges = item.judgeErrors.map((one): ItemError => ({ evaluator: one.evaluatorName, text: one.message, traceback: null }));
  // The error of an item whose evaluators alone failed says what they say.
  const isOfTask = item.error !== null && evaluators.length === 0;
  const task: ItemError[] = isOfTask ? [{ evaluator: null, text: item.error ?? "", traceback: tracebackOf(own["errorDetail"]) }] : [];
  return [...task, ...evaluators, ...judges];
}

function tracebackOf(detail: unknown): string | null {
  const text = record(detail)["traceback"];
  return typeof text === "string" && text !== "" ? text : null;
}

/** The command that runs this one item again; null where nobody knows how it was run. */
export function commandOf(item: Item, provenance: Readonly<Record<string, unknown>> | null): string | null {
  const id = ownOf(item)["id"];
  const command = provenance?.["command"];
  if (typeof id !== "string" || !Array.isArray(command)) return null;
  const [program, verb, ...rest] = command.map(String);
  if (program?.split(/[\\/]/).at(-1)?.replace(/\.exe$/i, "") !== "dokimos" || verb !== "run") return null;
  return ["dokimos", "run", ...rest, "--filter", `id:${id}`].map(quote).join(" ");
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Why an item did not pass, in one line: its error, or the reason of the first evaluator that is not content. */
export function reasonOf(item: Item): string {
  if (item.error !== null) return item.error;
  const failed = item.evalResults.find((result) => result.success === false);
  if (failed === undefined) return "";
  const expected = textOf(item.expectedOutput);
  const reason = failed.reason ?? (expected && `expected "${expected}", got "${textOf(item.actualOutput)}"`);
  return `${failed.evaluatorName} ${score(failed.score)}: ${reason}`;
}

export function outcomeOfResult(result: EvalResult): "pass" | "fail" | "error" | "none" {
  if (result.errorDetail !== null) return "error";
  if (result.success === null) return "none";
  return result.success ? "pass" : "fail";
}

/** What is read of an item, wherever it is shown. */
export type ItemContent = Pick<Item, "input" | "expectedOutput" | "actualOutput">;

export interface Message {
  readonly who: string;
  readonly text: string;
}

/** The turns of a conversation, where outputs or inputs hold one. */
export function conversationOf(item: ItemContent): Message[] {
  for (const map of [item.actualOutput, item.input]) {
    for (const name of ["messages", "conversation", "turns"]) {
      const list = map[name];
      if (!Array.isArray(list)) continue;
      const messages = list.filter(isMessage).map((one) => ({ who: String(one["role"]), text: textOf(one["content"]) }));
      if (messages.length > 0) return messages;
    }
  }
  return [];
}

function isMessage(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && "role" in value && "content" in value;
}

export interface ToolCall {
  readonly name: string;
  readonly arguments: string;
  readonly result: string | null;
}

export function toolCallsOf(item: ItemContent): ToolCall[] {
  const list = item.actualOutput["tool_calls"] ?? item.actualOutput["toolCalls"];
  if (!Array.isArray(list)) return [];
  return list
    .filter((one): one is Record<string, unknown> => typeof one === "object" && one !== null && "name" in one)
    .map((one) => ({
      name: String(one["name"]),
      arguments: JSON.stringify(one["arguments"] ?? one["args"] ?? {}),
      result: one["result"] === undefined || one["result"] === null ? null : textOf(one["result"]),
    }));
}

export interface Chunk {
  readonly id: string;
  readonly text: string | null;
  readonly mark: "found" | "extra" | "missed";
}

/** What was retrieved, each marked as wanted or not, and what was wanted and is missing. */
export function chunksOf(item: ItemContent): Chunk[] {
  const ids = list(item.actualOutput["retrieved"]);
  const texts = list(item.actualOutput["context"] ?? item.actualOutput["contexts"]);
  const wanted = new Set(list(item.expectedOutput?.["relevant"]));
  const found: Chunk[] = (ids.length > 0 ? ids : texts.map((_, index) => String(index + 1))).map((id, index) => ({
    id,
    text: texts[index] ?? null,
    mark: wanted.has(id) ? "found" : "extra",
  }));
  const missed = [...wanted].filter((id) => !ids.includes(id));
  return [...found, ...missed.map((id): Chunk => ({ id, text: null, mark: "missed" }))];
}

function list(value: unknown): string[] {
  return Array.isArray(value) ? value.map(textOf) : [];
}
