/** Sentences for those who do not see the page: results that come after a wait, below what somebody has pressed. */
import { useEffect } from "react";
import { makeStore } from "./store";

export interface Announcement {
  readonly id: number;
  readonly text: string;
}

export const announcement = makeStore<Announcement | null>(null);
let count = 0;

/** Says a sentence, also where it is the same as the one before. */
export function announce(text: string): void {
  count += 1;
  announcement.set({ id: count, text });
}

/** Says what a query came to, as often as it comes to something; null as long as it is under way. */
export function useAnnounced(text: string | null, at: number): void {
  useEffect(() => {
    if (text !== null) announce(text);
  }, [text, at]);
}
