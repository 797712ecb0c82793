/**
 * What somebody has typed into a form but not saved: kept as long as the page is open, wherever they go in it. Closing or
 * reloading the page asks first. Secrets, such as keys of models, are not kept.
 */
import { useEffect, useRef, useState, useSyncExternalStore } from "react";

const kept = new Map<string, unknown>();
const listeners = new Set<() => void>();

const ask = (event: Event): void => event.preventDefault();

function tell(): void {
  // A browser keeps pages that ask for going back faster, so they ask only as long as something would be lost.
  if (typeof window !== "undefined") window[kept.size > 0 ? "addEventListener" : "removeEventListener"]("beforeunload", ask);
  for (const listener of [...listeners]) listener();
}

export const readDraft = <T>(key: string): T | undefined => kept.get(key) as T | undefined;

export function keepDraft<T>(key: string, draft: T): void {
  kept.set(key, draft);
  tell();
}

export function dropDraft(key: string): void {
  if (kept.delete(key)) tell();
}

/** Before the page is loaded for somebody else, to whom none of it belongs. */
export function dropDrafts(): void {
  kept.clear();
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

export interface KeptForm<T> extends Begun<T> {
  /** Whether the fields are from before somebody left the page. */
  readonly isFromBefore: boolean;
  readonly set: (fields: T) => void;
  /** Forgets what was typed, after it was saved or given up; then goes on, unless somebody has gone elsewhere meanwhile. */
  readonly finish: (then: () => void) => void;
  /** Begins anew with what is stored by now. */
  readonly restart: () => void;
}

/**
 * The fields of a form that survive going elsewhere.
 *
 * Args:
 *   key: What is edited, such as `rule:<id>`.
 *   read: The fields as they are stored.
 *   version: Of what is stored; the page may read a later one while the form is open.
 */
export function useKeptForm<T>(key: string, read: () => T, version: string | null = null): KeptForm<T> {
  const draft = useDraft<Begun<T>>(key);
  const [begun, setBegun] = useState<Begun<T>>(() => ({ fields: read(), opened: version }));
  const [wasKept, setWasKept] = useState(draft !== undefined);
  const isOpen = useRef(false);
  useEffect(() => {
    isOpen.current = true;
    return () => {
      isOpen.current = false;
    };
  }, []);
  const { fields, opened } = draft ?? begun;
  return {
    fields,
    opened,
    isFromBefore: wasKept && draft !== undefined,
    set: (next) => {
      if (opened === begun.opened && isSame(next, begun.fields)) dropDraft(key);
      else keepDraft<Begun<T>>(key, { fields: next, opened });
    },
    finish: (then) => {
      dropDraft(key);
      if (isOpen.current) then();
    },
    restart: () => {
      dropDraft(key);
      setBegun({ fields: read(), opened: version });
      setWasKept(false);
    },
  };
}

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);
