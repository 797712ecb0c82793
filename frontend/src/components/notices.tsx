/** What the frame says beside the page: what was done, that a sign-in is needed, that the server is a newer one. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { lookWhoIsSignedIn } from "../api/session";
import { isOutdated, isSignedOutElsewhere, needsSignIn } from "../api/signals";
import type { Write } from "../api/write";
import { announcement } from "../lib/announce";
import { type Notice, dismissNotice, notice } from "../lib/notices";
import { shown } from "../lib/format";
import { loadAnew, pathHere } from "../lib/root";
import { useStore } from "../lib/store";
import { Dialog } from "./dialog";
import { SignIn } from "./sign-in";

const NOTICE_MS = 8_000;

export function NoticeArea() {
  const now = useStore(notice);
  const said = useStore(announcement);
  return (
    <>
      <div role="status" className="notices">
        {now !== null && <Toast key={now.id} notice={now} />}
      </div>
      <div role="status" className="unseen">{said !== null && <span key={said.id}>{shown(said.text)}</span>}</div>
    </>
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
  const isSignedOut = useStore(isSignedOutElsewhere);
  useSignInElsewhere(isNeeded);
  if (!isNeeded || isSignedOut) return null;
  return (
    <section className="panel pad sign-in-needed" aria-label="Sign in">
      <SignIn
        title="Sign in to go on"
        returnTo={pathHere()}
        isInPlace
        text="The page stays as it is, with what you have typed."
      />
    </section>
  );
}

/** In front of a page whose owner has signed out in another tab: nothing of it is in sight, and nothing of it is lost. */
export function SignedOut() {
  return (
    <Dialog label="Signed out in another tab" className="signed-out">
      <SignIn
        title="You have signed out in another tab"
        returnTo={pathHere()}
        isInPlace
        text="This page waits for you, with what you have typed. Somebody else who signs in does not get it."
      />
      <button type="button" className="btn bare" onClick={() => loadAnew(location.pathname)}>Discard it and load the page again</button>
    </Dialog>
  );
}

/** Goes on once somebody has signed in through the provider, which happens in another tab. */
function useSignInElsewhere(isNeeded: boolean): void {
  const queries = useQueryClient();
  useEffect(() => {
    if (!isNeeded) return undefined;
    const listener = () => void lookWhoIsSignedIn(queries);
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
        <button type="button" className="btn" onClick={({ currentTarget: { form } }) => {
          if (form !== null && submits) form.requestSubmit();
          else if (form === null || form.reportValidity()) write.resend();
        }}>{again}</button>
        <button type="button" className="btn bare" onClick={write.reset}>Dismiss</button>
      </span>
    </div>
  );
}
