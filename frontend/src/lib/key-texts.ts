/**
 * The texts of new keys, which the server tells once: they wait here, in memory alone, until somebody says that they have
 * them, wherever they have gone in the page since they asked for one. Closing or reloading the page asks first.
 */
import type { components } from "../api/schema";
import { makeStore } from "./store";

export interface KeyText {
  readonly id: number;
  readonly created: components["schemas"]["CreatedKeyAnswer"];
  /** Who asked for it; null where nobody had signed in, on a server that was open. */
  readonly owner: string | null;
}

export const keyTexts = makeStore<readonly KeyText[]>([]);
const waiting = new Set<unknown>();
let count = 0;

const ask = (event: Event): void => event.preventDefault();

/** Whether a text is lost with the page: one that nobody has taken yet, or one that is on its way. */
export const hasKeyTexts = (): boolean => waiting.size > 0 || keyTexts.get().length > 0;

function guard(): void {
  if (typeof window !== "undefined") window[hasKeyTexts() ? "addEventListener" : "removeEventListener"]("beforeunload", ask);
}

/** Keeps the text that an answer brings: a page that asked for it may be gone by then. */
export async function keepKeyText(answer: Promise<KeyText["created"]>, owner: string | null): Promise<KeyText["created"]> {
  waiting.add(answer);
  guard();
  try {
    const created = await answer;
    count += 1;
    if (waiting.has(answer)) keyTexts.set([...keyTexts.get(), { id: count, created, owner }]);
    return created;
  } finally {
    waiting.delete(answer);
    guard();
  }
}

export function dropKeyText(id: number): void {
  keyTexts.set(keyTexts.get().filter((one) => one.id !== id));
  guard();
}

/** Before the page is loaded for somebody else, to whom none of them belongs. */
export function dropKeyTexts(): void {
  keyTexts.set([]);
  waiting.clear();
  guard();
}

/** The first text that somebody may see: their own, or one that nobody had to sign in for. */
export const findKeyText = (texts: readonly KeyText[], person: string | null): KeyText | undefined =>
  texts.find((one) => one.owner === null || one.owner === person);
