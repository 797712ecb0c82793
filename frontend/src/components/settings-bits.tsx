/** Small parts of the pages of settings: fields, a confirmation in place, what a role may do. */
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { ApiError } from "../api/client";
import type { Session } from "../api/session";
import type { Write } from "../api/write";
import { BusyButton } from "./busy-button";
import type { KeptForm } from "../lib/drafts";

interface FieldProps {
  readonly label: string;
  readonly hint?: ReactNode;
  readonly isWide?: boolean;
  /** Gets the id of the field and that of what describes it. */
  readonly children: (id: string, hint: string | undefined) => ReactNode;
}

export function Field({ label, hint, isWide = false, children }: FieldProps) {
  const id = useId();
  const hasHint = hint !== undefined && hint !== null && hint !== false;
  return (
    <div className={isWide ? "set-field wide" : "set-field"}>
      <label htmlFor={id}>{label}</label>
      {children(id, hasHint ? `${id}-hint` : undefined)}
      {hasHint && <p className="label" id={`${id}-hint`}>{hint}</p>}
    </div>
  );
}

interface ConfirmProps {
  readonly label: string;
  /** What is lost, in a sentence. */
  readonly question: string;
  readonly action: string;
  readonly isBusy?: boolean;
  readonly onConfirm: () => void;
  /** What the button looks like that asks. */
  readonly className?: string;
  /** What the button says that changes nothing. */
  readonly keep?: string;
  /** Whether something would be lost at all; without it, always. */
  readonly isNeeded?: () => boolean;
}

/** A button that asks in its place before it does what cannot be undone. */
export function Confirm({ label, question, action, isBusy = false, onConfirm, className = "btn", keep: keepLabel = "Keep", isNeeded = () => true }: ConfirmProps) {
  const [isAsking, setIsAsking] = useState(false);
  const first = useRef<HTMLButtonElement>(null);
  const keep = useRef<HTMLButtonElement>(null);
  const wasAsking = useRef(false);
  useEffect(() => {
    if (isAsking) keep.current?.focus();
    else if (wasAsking.current) first.current?.focus();
    wasAsking.current = isAsking;
  }, [isAsking]);
  if (!isAsking) {
    return <BusyButton ref={first} isBusy={isBusy} className={className} onClick={() => (isNeeded() ? setIsAsking(true) : onConfirm())}>{label}</BusyButton>;
  }
  return (
    <span
      className="confirm"
      role="group"
      aria-label={question}
      onKeyDown={(event) => {
        if (event.key === "Escape") setIsAsking(false);
      }}
    >
      <span>{question}</span>
      <button
        type="button"
        className="btn danger"
        disabled={isBusy}
        onClick={() => {
          setIsAsking(false);
          onConfirm();
        }}
      >
        {action}
      </button>
      <button ref={keep} type="button" className="btn bare" onClick={() => setIsAsking(false)}>{keepLabel}</button>
    </span>
  );
}

/** Above the fields of a form that were typed before somebody left the page. */
export function KeptNote({ form: { isFromBefore, restart } }: { form: Pick<KeptForm<unknown>, "isFromBefore" | "restart"> }) {
  if (!isFromBefore) return null;
  return (
    <div className="callout info split" role="status">
      <span><b>This is what you typed before.</b> It is not saved yet.</span>
      <button type="button" className="btn" onClick={restart}>Discard it</button>
    </div>
  );
}

/** Why nothing can be changed on a page that somebody may read. */
export function RoleNeeded({ session, role, what }: { session: Session | undefined; role: string; what: string }) {
  if (session === undefined) return null;
  return (
    <p className="callout">
      {what} needs the role {role}. {session.isAuthenticated ? `Yours is ${session.role.toLowerCase()}` : "Nobody is signed in"}, so you may
      look, not change.
    </p>
  );
}

/** Whether a row was changed by somebody else since the form of it was opened. */
export const isOvertaken = (write: { readonly error: Error | null }): boolean => write.error instanceof ApiError && write.error.status === 412;

/** What a form says where its row was changed meanwhile; `overwrite` replaces it, whatever it is by then. */
export function sayOvertaken<V, A>(write: Write<V, A>, what: string, overwrite: () => void): Write<V, A> {
  if (!isOvertaken(write)) return sayRefusal(write, what);
  const failure = `${what} was not saved: somebody else has changed it since you opened it. What you typed is still here. “Save mine over it” replaces what they have saved.`;
  return { ...write, failure, resend: overwrite };
}

/** A change of which a conflict (409) says why it cannot be, rather than that somebody else was faster. */
export function sayRefusal<V, A>(write: Write<V, A>, what: string): Write<V, A> {
  return write.isConflict && write.error !== null ? { ...write, failure: `${what} was not saved. ${write.error.message}` } : write;
}

export function More({ query, what }: { query: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }; what: string }) {
  if (!query.hasNextPage) return null;
  return (
    <button type="button" className="btn" disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
      {query.isFetchingNextPage ? "Loading…" : `Show more ${what}`}
    </button>
  );
}
