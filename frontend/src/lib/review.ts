/** What the review queue does with words and values, apart from the pages. */
import { textOf } from "./format";

export type Verdict = "CORRECT" | "INCORRECT" | "UNSURE";
type Values = Readonly<Record<string, unknown>>;

export const VERDICTS: readonly { readonly verdict: Verdict; readonly key: string; readonly sign: string; readonly word: string; readonly style: string }[] = [
  { verdict: "CORRECT", key: "1", sign: "✓", word: "Correct", style: "pass" },
  { verdict: "INCORRECT", key: "2", sign: "✗", word: "Incorrect", style: "fail" },
  { verdict: "UNSURE", key: "3", sign: "–", word: "Unsure", style: "none" },
];

/** `✗ incorrect` */
export function sayVerdict(verdict: Verdict): string {
  const found = VERDICTS.find((one) => one.verdict === verdict);
  return found === undefined ? verdict : `${found.sign} ${found.word.toLowerCase()}`;
}

/** The text in which somebody edits a map of outputs: its only text, or the whole map as JSON. */
export interface EditableText {
  readonly text: string;
  /** The key of the only text; null where the text is JSON. */
  readonly key: string | null;
}

export function toEditable(expected: Values | null, actual: Values): EditableText {
  if (expected === null) {
    const keys = Object.keys(actual);
    return { text: "", key: keys.length === 1 ? (keys[0] ?? "output") : "output" };
  }
  const [first, ...more] = Object.entries(expected);
  if (first !== undefined && more.length === 0 && typeof first[1] === "string") return { text: first[1], key: first[0] };
  return { text: JSON.stringify(expected, null, 2), key: null };
}

/** The key under which evaluators look for what was expected, whatever else a map of outputs holds. */
const MAIN = "output";

/** What somebody corrects of an expected output: its main text, with what stands beside it as it was, or else all of it as JSON. */
export interface Correctable extends EditableText {
  readonly rest: Values;
}

export function toCorrectable(expected: Values | null, actual: Values): Correctable {
  const main = expected?.[MAIN];
  if (expected === null || typeof main !== "string") return { ...toEditable(expected, actual), rest: {} };
  return { text: main, key: MAIN, rest: expected };
}

export function fromCorrectable(text: string, { key, rest }: Correctable): ReturnType<typeof fromEditable> {
  const read = fromEditable(text, key);
  return "fault" in read ? read : { value: { ...rest, ...read.value } };
}

/** Whether something stands beside the main text. */
export const hasMore = ({ key, rest }: Correctable): boolean => Object.keys(rest).some((name) => name !== key);

/** What the label of the field says beside its name. */
export function sayCorrectable({ key, rest }: Correctable): string {
  if (key === null) return " (as JSON)";
  const others = Object.keys(rest).filter((name) => name !== key);
  return others.length === 0 ? "" : `; ${others.map((name) => `“${name}”`).join(", ")} ${others.length === 1 ? "stays" : "stay"} as before`;
}

/** The map that an edited text stands for, or what is wrong with it. */
export function fromEditable(text: string, key: string | null): { readonly value: Values } | { readonly fault: string } {
  if (key !== null) return { value: { [key]: text } };
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { value: value as Values };
    return { fault: "The expected output must be a JSON object, such as {\"output\": \"Paris\"}." };
  } catch (error) {
    return { fault: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}

/** What a person reads of a map of outputs. */
export function readable(values: Values | null): string {
  return values === null ? "" : textOf(values["output"] ?? values);
}

interface Said {
  readonly id: string;
  readonly updatedAt: string;
}

/** Reviews that came, or changed, since somebody was shown `known` of them. */
export function findUnseen<T extends Said>(now: readonly T[], known: readonly Said[]): T[] {
  const seen = new Set(known.map((one) => `${one.id} ${one.updatedAt}`));
  return now.filter((one) => !seen.has(`${one.id} ${one.updatedAt}`));
}

/** Where `j` and `k` lead: the item `step` further, or null at an end. */
export function findNeighbour(ids: readonly string[], current: string | null, step: 1 | -1): string | null {
  const place = current === null ? -1 : ids.indexOf(current);
  return ids[place + step] ?? null;
}

/** The next item without a verdict, below the current one first, then from the top. */
export function findNextOpen(ids: readonly string[], current: string | null, isOpen: (id: string) => boolean): string | null {
  const place = current === null ? -1 : ids.indexOf(current);
  return [...ids.slice(place + 1), ...ids.slice(0, Math.max(place, 0))].find(isOpen) ?? null;
}

/** How long the rest takes at the pace so far, in minutes; null before there is a pace. */
export function estimateMinutes(decidedAt: readonly number[], waiting: number): number | null {
  const first = decidedAt[0];
  const last = decidedAt.at(-1);
  if (first === undefined || last === undefined || decidedAt.length < 4 || waiting === 0) return null;
  return Math.max(1, Math.round((((last - first) / (decidedAt.length - 1)) * waiting) / 60_000));
}
