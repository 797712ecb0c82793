/**
 * What somebody has typed into a form but not saved: kept as long as the page is open, wherever they go in it. Closing or
 * reloading the page asks first. Secrets, such as keys of models, are not kept.
 */
import { useEffect, useRef, useState, useSyncExternalStore } from "react";

const kept = new Map<string, unknown>();
/** Keys of what is not there any more, as far as is known: nothing is lost with their drafts, so nothing asks for them. */
const gone = new Set<string>();
const listeners = new Set<() => void>();
let isHidden = false;

const ask = (event: Event): void => event.preventDefault();

/** Whether something is lost with the page. */
export const hasDrafts = (): boolean => [...kept.keys()].some((key) => !gone.has(key));

function tell(): void {
  // A browser keeps pages that ask for going back faster, so they ask only as long as something would be lost.
  if (typeof window !== "undefined") window[hasDrafts() ? "addEventListener" : "removeEventListener"]("beforeunload", ask);
  for (const listener of [...listeners]) listener();
}

export const readDraft = <T>(key: string): T | undefined => (isHidden ? undefined : (kept.get(key) as T | undefined));

export function keepDraft<T>(key: string, draft: T): void {
  kept.set(key, draft);
  gone.delete(key);
  tell();
}

export function dropDraft(key: string): void {
  gone.delete(key);
  if (kept.delete(key)) tell();
}

/** Before the page is loaded for somebody else, to whom none of it belongs. */
export function dropDrafts(): void {
  kept.clear();
  gone.clear();
  tell();
}

/** While nobody is signed in, whose drafts they are is not known: they wait, and nobody reads them. */
export function hideDrafts(next: boolean): void {
  if (next === isHidden) return;
  isHidden = next;
  tell();
}

export const areDraftsHidden = (): boolean => isHidden;

/**
 * Notes which drafts are of something that is not there any more, after a whole list was read. They are not dropped: somebody
 * who is signed out reads shorter lists, and what they typed is there again once the list has it again.
 *
 * Args:
 *   prefix: Of the keys of all that the list could have, such as `rule:<project>:`.
 *   present: What follows it in the keys of those that the list has.
 */
export function noteGone(prefix: string, present: readonly string[]): void {
  for (const key of kept.keys()) {
    if (!key.startsWith(prefix)) continue;
    const [name = ""] = key.slice(prefix.length).split(":");
    if (name === "new" || present.includes(name)) gone.delete(key);
    else gone.add(key);
  }
  tell();
}

/** Notes whether what drafts are of is still there, such as a run: all whose keys have the prefix. */
export function noteWhether(isThere: boolean, prefix: string): void {
  for (const key of kept.keys()) {
    if (!key.startsWith(prefix)) continue;
    if (isThere) gone.delete(key);
    else gone.add(key);
  }
  tell();
}

/** The first part of the keys behind a prefix, such as the runs of `review:<run>:<item>`; as long as somebody may see them. */
export function useDraftParts(prefix: string): readonly string[] {
  const parts = (): string => {
    const found = isHidden ? [] : [...kept.keys()].filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length).split(":")[0] ?? "");
    return [...new Set(found)].sort().join(" ");
  };
  const text = useSyncExternalStore(follow, parts);
  return text === "" ? [] : text.split(" ");
}

const OF_PROJECT_ID = ["alert:", "rule:", "webhook:", "acknowledge:"];
const OF_PROJECT_NAME = ["instructions:", "settings:"];

/** Notes which drafts belong to a project that is not there any more, after all projects were read. */
export function noteProjects(projects: readonly { readonly id: string; readonly name: string }[]): void {
  const [ids, names] = [new Set(projects.map((one) => one.id)), new Set(projects.map((one) => one.name))];
  for (const key of kept.keys()) {
    const ofId = OF_PROJECT_ID.find((prefix) => key.startsWith(prefix));
    const ofName = OF_PROJECT_NAME.find((prefix) => key.startsWith(prefix));
    if (ofId !== undefined && !ids.has(key.split(":")[1] ?? "")) gone.add(key);
    if (ofName === undefined) continue;
    if (names.has(key.slice(ofName.length))) gone.delete(key);
    else gone.add(key);
  }
  tell();
}

function follow(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A draft as it is kept at the moment; undefined where nothing is typed. */
export const useDraft = <T>(key: string): T | undefined => useSyncExternalStore(follow, () => readDraft<T>(key));

/** The fields of a form, and the version of what they were read from. */
export interface Begun<T> {
  readonly fields: T;
  readonly opened: string | null;
}

/** What a form has sent, and what the server has answered. */
export interface Saved<T> {
  readonly sent: T;
  /** What is stored by now, and the key of its draft: another one than that of the form where it is new. */
  readonly stored: Begun<T>;
  readonly key: string;
}

/**
 * Drops a draft that is saved. What was typed while it was being saved stays, over what is saved now.
 *
 * Returns:
 *   Whether something stays.
 */
export function settleDraft<T>(key: string, { sent, stored, key: next }: Saved<T>): boolean {
  const now = kept.get(key) as Begun<T> | undefined;
  const isLeft = now !== undefined && !isSame(now.fields, sent);
  if (key !== next || !isLeft) dropDraft(key);
  if (isLeft) keepDraft<Begun<T>>(next, { fields: now.fields, opened: stored.opened });
  return isLeft;
}

export interface KeptForm<T> extends Begun<T> {
  /** Whether the fields are from before somebody left the page. */
  readonly isFromBefore: boolean;
  readonly set: (fields: T) => void;
  /** Forgets what was typed; then goes on, unless somebody has gone elsewhere meanwhile. */
  readonly giveUp: (then: () => void) => void;
  /** Forgets what was saved; then goes on likewise, and says whether something was typed meanwhile, which stays. */
  readonly finish: (saved: Saved<T>, then: (isLeft: boolean) => void) => void;
  /** Begins anew with what is stored by now. */
  readonly restart: () => void;
}

/**
 * The fields of a form that survive going elsewhere.
 *
 * Args:
 *   key: What is edited, such as `rule:<project>:<id>`.
 *   read: The fields as they are stored.
 *   version: Of what is stored; the page may read a later one while the form is open.
 */
export function useKeptForm<T>(key: string, read: () => T, version: string | null = null): KeptForm<T> {
  const draft = useDraft<Begun<T>>(key);
  const [begun, setBegun] = useState<Begun<T>>(() => ({ fields: read(), opened: version }));
  const [wasKept, setWasKept] = useState(draft !== undefined);
  const path = useRef<string | null>(null);
  useEffect(() => {
    path.current = location.pathname;
    return () => {
      path.current = null;
    };
  }, []);
  // The address is another one before the next page is there: its file may still be read.
  const isHere = (): boolean => path.current === location.pathname;
  const { fields, opened } = draft ?? begun;
  return {
    fields,
    opened,
    isFromBefore: wasKept && draft !== undefined,
    set: (next) => {
      if (opened === begun.opened && isSame(next, begun.fields)) dropDraft(key);
      else keepDraft<Begun<T>>(key, { fields: next, opened });
    },
    giveUp: (then) => {
      dropDraft(key);
      if (isHere()) then();
    },
    finish: (saved, then) => {
      const isLeft = settleDraft(key, saved);
      if (saved.key === key) setBegun(saved.stored);
      if (isHere()) then(isLeft);
    },
    restart: () => {
      dropDraft(key);
      setBegun({ fields: read(), opened: version });
      setWasKept(false);
    },
  };
}

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);
