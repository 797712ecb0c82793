/** Keys of a page: single letters, which never act while somebody types; and what all of them are, for `?`. */
import { type KeyboardEvent as ReactKeyboardEvent, useEffect, useEffectEvent, useLayoutEffect } from "react";
import { makeStore } from "./store";

export type Keys = Readonly<Record<string, () => void>>;

export function useKeys(keys: Keys): void {
  const press = useEffectEvent((event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target) || isBelowDialog()) return;
    const act = Object.hasOwn(keys, event.key) ? keys[event.key] : undefined;
    if (act === undefined) return;
    event.preventDefault();
    act();
  });
  useLayoutEffect(() => { // as soon as the page is in sight
    const listener = (event: KeyboardEvent) => press(event);
    window.addEventListener("keydown", listener);
    return () => window.removeEventListener("keydown", listener);
  }, []);
}

/** What stands below a dialog hears no keys. */
function isBelowDialog(): boolean {
  return document.querySelector("dialog[open]") !== null;
}

export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Where a key leads in a list: to the next row, the one before, or nowhere. */
export function stepOf(event: Pick<ReactKeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">): 1 | -1 | 0 {
  if (event.ctrlKey || event.metaKey || event.altKey) return 0;
  if (event.key === "j" || event.key === "ArrowDown") return 1;
  return event.key === "k" || event.key === "ArrowUp" ? -1 : 0;
}

/** Keys, separated by spaces, and what they do. */
export type KeyLine = readonly [keys: string, text: string];

export interface KeyGroup {
  readonly title: string;
  readonly lines: readonly KeyLine[];
}

export const LIST_KEYS: readonly KeyLine[] = [["j k", "next, previous row"], ["enter", "open it"]];

/** What is declared by what is on the page, in the order in which it appeared. */
export const keyGroups = makeStore<readonly KeyGroup[]>([]);
export const isKeyHelpOpen = makeStore(false);

/** Says which keys the component handles; the lines are a constant. */
export function useKeyHelp(title: string, lines: readonly KeyLine[]): void {
  useEffect(() => {
    const group = { title, lines };
    keyGroups.set([...keyGroups.get(), group]);
    return () => keyGroups.set(keyGroups.get().filter((one) => one !== group));
  }, [title, lines]);
}
