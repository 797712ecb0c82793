/** The entries of the command palette: which of them match a text, in which order, and where the text is in them. */
import { shown } from "./format";

/** The kinds of entries, in the order in which their groups stand. */
export const KINDS = ["action", "view", "page", "project", "experiment", "run", "dataset", "trace"] as const;
export type EntryKind = (typeof KINDS)[number];

export const KIND_WORDS: Record<EntryKind, string> = {
  action: "Actions", view: "Saved views", page: "Pages", project: "Projects", experiment: "Experiments", run: "Runs", dataset: "Datasets", trace: "Traces",
};

export interface Entry {
  readonly kind: EntryKind;
  /** Tells entries apart; those of several sources with the same key are one. */
  readonly key: string;
  readonly label: string;
  /** What else is said of it, and found by. */
  readonly note?: string;
  /** Further texts by which it is found, such as an id. */
  readonly also?: string;
  readonly href?: string;
  readonly run?: () => void;
  /** Whether it is shown for any text, since the server found it. */
  readonly isFound?: boolean;
}

export interface Group {
  readonly kind: EntryKind;
  readonly entries: readonly Entry[];
  /** How many more match, for which there is no room. */
  readonly more: number;
}

const MOST_IN_GROUP = 6;

export function readWords(text: string): string[] {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

/** Those that match each word of a text, in groups by kind, the best first. */
export function groupEntries(entries: readonly Entry[], text: string): Group[] {
  const words = readWords(text);
  const unique = new Map<string, { entry: Entry; rank: number }>();
  for (const entry of entries) {
    const rank = rankOf(entry, words);
    if (rank !== null && !unique.has(entry.key)) unique.set(entry.key, { entry, rank });
  }
  const ranked = [...unique.values()].sort((a, b) => a.rank - b.rank); // stable: equals stay in their order
  return KINDS.map((kind) => {
    const all = ranked.filter((one) => one.entry.kind === kind).map((one) => one.entry);
    const entries = all.slice(0, most(kind, words));
    return { kind, entries, more: all.length - entries.length };
  }).filter((group) => group.entries.length > 0);
}

/** The same entries, one after another. */
export const listEntries = (entries: readonly Entry[], text: string): Entry[] => groupEntries(entries, text).flatMap((group) => group.entries);

/** What the server found; where that was for another text, each has to match the text of now by what is shown of it. */
export const matchOnly = (found: readonly Entry[], isForText: boolean): readonly Entry[] =>
  isForText ? found : found.map((entry) => ({ ...entry, isFound: false }));

/** All pages are worth a look before anything is typed. */
function most(kind: EntryKind, words: readonly string[]): number {
  return words.length === 0 && (kind === "page" || kind === "action") ? Number.POSITIVE_INFINITY : MOST_IN_GROUP;
}

/** How well an entry matches, the lowest best; null where it does not. */
function rankOf(entry: Entry, words: readonly string[]): number | null {
  const label = entry.label.toLowerCase();
  const rest = `${entry.note ?? ""} ${entry.also ?? ""}`.toLowerCase();
  let rank = 0;
  for (const word of words) {
    const at = label.indexOf(word);
    if (at === 0) continue;
    if (at > 0) rank += /[\p{L}\p{N}]/u.test(label[at - 1] ?? "") ? 2 : 1;
    else if (rest.includes(word)) rank += 3;
    else if (entry.isFound) rank += 4;
    else return null;
  }
  return rank;
}

export interface MarkedPiece {
  readonly text: string;
  readonly isMarked: boolean;
}

/** A label as it is shown, in pieces of which some are what was typed. */
export function markWords(label: string, text: string): MarkedPiece[] {
  const whole = shown(label);
  const lower = whole.toLowerCase();
  if (lower.length !== whole.length) return [{ text: whole, isMarked: false }]; // some letters change their length
  const marks = new Array<boolean>(whole.length).fill(false);
  for (const word of readWords(text)) {
    const at = lower.indexOf(word);
    if (at >= 0) marks.fill(true, at, at + word.length);
  }
  const pieces: { text: string; isMarked: boolean }[] = [];
  for (let at = 0; at < whole.length; at += 1) {
    const last = pieces.at(-1);
    const isMarked = marks[at] ?? false;
    if (last !== undefined && last.isMarked === isMarked) last.text += whole[at];
    else pieces.push({ text: whole[at] ?? "", isMarked });
  }
  return pieces;
}

/** The entry that is one step further, around the ends; the first where none was chosen. */
export function stepThrough(keys: readonly string[], current: string | null, by: 1 | -1): string | null {
  if (keys.length === 0) return null;
  const at = current === null ? -1 : keys.indexOf(current);
  if (at < 0) return keys[by === 1 ? 0 : keys.length - 1] ?? null;
  return keys[(at + by + keys.length) % keys.length] ?? null;
}

/** What a text is the whole id of. */
export function readId(text: string): { readonly kind: "run" | "trace"; readonly id: string } | null {
  const id = text.trim().toLowerCase();
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) return { kind: "run", id };
  return /^[0-9a-f]{32}$/.test(id) ? { kind: "trace", id } : null;
}
