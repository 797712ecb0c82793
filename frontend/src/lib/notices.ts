/** Short words on what was done, which go away by themselves. Never for failures: those stand where they happened. */
import { makeStore } from "./store";

export interface Notice {
  readonly id: number;
  readonly text: string;
  readonly undo: (() => void) | null;
}

export const notice = makeStore<Notice | null>(null);
let count = 0;

/** Shows one, instead of the one before. */
export function notify(text: string, undo: (() => void) | null = null): void {
  count += 1;
  notice.set({ id: count, text, undo });
}

export function dismissNotice(id: number): void {
  if (notice.get()?.id === id) notice.set(null);
}
