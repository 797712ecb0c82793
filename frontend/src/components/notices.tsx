/** What the frame says beside the page: what was done, that a sign-in is needed, that the server is a newer one. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { sessionQuery } from "../api/session";
import { isOutdated, needsSignIn } from "../api/signals";
import type { Write } from "../api/write";
import { type Notice, dismissNotice, notice } from "../lib/notices";
import { shown } from "../lib/format";
import { pathHere } from "../lib/root";
import { useStore } from "../lib/store";
import { SignIn } from "./sign-in";

const NOTICE_MS = 8_000;

export function NoticeArea() {
  const now = useStore(notice);
  return (
    <div role="status" className="notices">
      {now !== null && <Toast key={now.id} notice={now} />}
    </div>
  );
}

function Toast({ notice: { id, text, undo } }: { notice: Notice }) {
  const [isHeld, setIsHeld] = useState(false);
  useEffect(() => {
    if (isHeld) return undefined;
    const timer = setTimeout(() => dismissNotice(id), NOTICE_MS);
    return () => clearTimeout(timer);
  }, [id, isHeld]);
  const hold = { onMouseEnter: () => setIsHeld(true), onMouseLeave: () => setIsHeld(false), onFocus: () => setIsHeld(true), onBlur: () => setIsHeld(false) };
  return (
    <div className="toast" {...hold}>
      <span>{shown(text)}</span>
      {undo !== null && (
        <button
          type="button"
          onClick={() => {
            dismissNotice(id);
            undo();
          }}
        >
          Undo
        </button>
      )}
    </div>
  );
}

/** Above every page, where something was refused because nobody is signed in; the page below stays as it is. */
export function SignInNeeded() {
  const isNeeded = useStore(needsSignIn);
  useSignInElsewhere(isNeeded);
  if (!isNeeded) return null;
  return (
    <section className="panel pad sign-in-needed" aria-label="Sign in">
      <SignIn
        title="Sign in to go on"
        returnTo={pathHere()}
        text="The page stays as it is, with what you have typed."
      />
    </section>
  );
}

/** Goes on once somebody has signed in through the provider, which happens in another tab. */
function useSignInElsewhere(isNeeded: boolean): void {
  const queries = useQueryClient();
  useEffect(() => {
    if (!isNeeded) return undefined;
    const look = async () => {
      const session = await queries.fetchQuery({ ...sessionQuery, staleTime: 0 }).catch(() => null);
      if (session?.isAuthenticated !== true) return;
      needsSignIn.set(false);
      void queries.invalidateQueries();
    };
    const listener = () => void look();
    window.addEventListener("focus", listener);
    return () => window.removeEventListener("focus", listener);
  }, [isNeeded, queries]);
}

export function NewVersion() {
  if (!useStore(isOutdated)) return null;
  return (
    <div className="callout info split" role="status">
      <span><b>The server was updated.</b> This page is from before. Save what you are typing, then load it again.</span>
      <button type="button" className="btn" onClick={() => location.reload()}>Reload</button>
    </div>
  );
}

interface NotSavedProps {
  readonly write: Pick<Write<never, unknown>, "failure" | "resend" | "reset">;
  readonly again?: string;
  /** Whether a form around it sends what is typed by now, rather than what was sent before. */
  readonly submits?: boolean;
}

/** Why a change was not saved, beside where it was made. */
export function NotSaved({ write, again = "Send again", submits = true }: NotSavedProps) {
  if (write.failure === null) return null;
  return (
    <div className="callout warn split" role="alert">
      <span><b>! Not saved.</b> {shown(write.failure)}</span>
      <span className="actions">
        <button type="button" className="btn" onClick={({ currentTarget: { form } }) => (submits && form !== null ? form.requestSubmit() : write.resend())}>{again}</button>
        <button type="button" className="btn bare" onClick={write.reset}>Dismiss</button>
      </span>
    </div>
  );
}
