/** Files that become versions of a dataset, and changes of items that become one. */
import type { DatasetItem, ItemChange } from "../api/datasets";
import { readable } from "./review";

export const FILE_KINDS = [
  { extension: "json", type: "application/json", label: "JSON" },
  { extension: "jsonl", type: "application/x-ndjson", label: "JSONL, a row in each line" },
  { extension: "csv", type: "text/csv", label: "CSV" },
  { extension: "tsv", type: "text/tab-separated-values", label: "TSV" },
  { extension: "parquet", type: "application/vnd.apache.parquet", label: "Parquet" },
] as const;

/** The content type of a file by its name, null where the name does not tell. */
export function typeOfFile(name: string): string | null {
  const extension = name.toLowerCase().split(".").at(-1) ?? "";
  return FILE_KINDS.find((kind) => kind.extension === (extension === "ndjson" ? "jsonl" : extension))?.type ?? null;
}

/** The body that a JSON file stands for: a list of items, or an object with them. */
export function readJsonFile(text: string): { readonly body: string } | { readonly fault: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { fault: `The file is not JSON: ${placeFault(text, error instanceof Error ? error.message : String(error))}` };
  }
  if (Array.isArray(value)) return { body: JSON.stringify({ items: value }) };
  if (typeof value === "object" && value !== null && ("items" in value || "examples" in value)) {
    const { items, examples, description } = value as Record<string, unknown>;
    return { body: JSON.stringify({ items: items ?? examples, ...(description === undefined ? {} : { description }) }) };
  }
  return { fault: "The file must be a list of items, or an object with a list named items." };
}

/** The message of a parser with the line where it stopped, which browsers name for some faults only. */
function placeFault(text: string, message: string): string {
  if (/\bline \d/.test(message)) return message;
  const lines = text.split("\n");
  let [good, bad] = [0, lines.length];
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    if (mayGoOn(lines.slice(0, middle).join("\n"))) good = middle;
    else bad = middle;
  }
  return `line ${bad}: ${message}`;
}

/** Whether a text is the beginning of JSON: a parser complains only that it ends. */
function mayGoOn(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    return error instanceof Error && /end of|unterminated/i.test(error.message);
  }
}

export type Values = Readonly<Record<string, unknown>>;

/** What somebody has changed of a dataset and not saved: by the lineage of an item, or by a name for a new one. */
export interface PendingChange {
  readonly op: "set" | "add" | "remove";
  readonly inputs: Values;
  readonly expectedOutputs: Values | null;
  readonly metadata: Values | null;
}

export type Pending = ReadonlyMap<string, PendingChange>;

export function toChanges(pending: Pending): ItemChange[] {
  return [...pending].map(([id, { op, inputs, expectedOutputs, metadata }]) =>
    op === "remove" ? { op, id } : { op, ...(op === "set" ? { id } : {}), inputs: { ...inputs }, expectedOutputs, metadata },
  );
}

/** `2 changed, 1 added, 1 removed` */
export function describePending(pending: Pending): string {
  const number = (op: PendingChange["op"]) => [...pending.values()].filter((one) => one.op === op).length;
  const parts = [[number("set"), "changed"], [number("add"), "added"], [number("remove"), "removed"]] as const;
  return parts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`).join(", ");
}

export function nameOfItem(item: Pick<DatasetItem, "externalId" | "ordinal">): string {
  return item.externalId ?? `#${item.ordinal}`;
}

/** A map as a person reads it, in full where it has several keys. */
export function sayValues(values: Values | null): string {
  return readable(values);
}

/** Changes that are not saved, and the latest version when they were begun; null before the first version. */
export interface Edits {
  readonly pending: Pending;
  readonly known: number | null;
}

const kept = new Map<string, Edits>();

export function readEdits(dataset: string): Edits {
  return kept.get(dataset) ?? { pending: new Map(), known: null };
}

/** Keeps what is not saved as long as the page is open, wherever somebody goes in it. */
export function keepEdits(dataset: string, edits: Edits): void {
  if (edits.pending.size === 0) kept.delete(dataset);
  else kept.set(dataset, edits);
}
