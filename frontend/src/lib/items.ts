/** What lists say of an item. */
import type { EvalResult, Item } from "../api/queries";
import { score, textOf } from "./format";

/** The id that the dataset gives an item, or its place in the run. */
export function nameOf(item: Item): string {
  const own = item.metadata?.["dokimos"];
  const id = typeof own === "object" && own !== null ? (own as Record<string, unknown>)["id"] : undefined;
  return typeof id === "string" || typeof id === "number" ? String(id) : `#${item.ordinal}`;
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

export interface Message {
  readonly who: string;
  readonly text: string;
}

/** The turns of a conversation, where outputs or inputs hold one. */
export function conversationOf(item: Item): Message[] {
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

export function toolCallsOf(item: Item): ToolCall[] {
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
export function chunksOf(item: Item): Chunk[] {
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
