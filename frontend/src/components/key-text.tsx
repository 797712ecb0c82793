/** The text of a new key, above whatever page is open: it stays until somebody says that they have it. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { personOf, sessionQuery, signIn } from "../api/session";
import { shown } from "../lib/format";
import { type KeyText, dropKeyText, findKeyText, keyTexts } from "../lib/key-texts";
import { pathHere } from "../lib/root";
import { useStore } from "../lib/store";
import { Dialog } from "./dialog";

export function KeyTextHost() {
  const session = useQuery(sessionQuery).data;
  const text = findKeyText(useStore(keyTexts), session === undefined ? null : personOf(session));
  if (text === undefined) return null;
  return <KeyTextDialog key={text.id} text={text} maySignIn={session?.isAuthenticated === false} />;
}

function KeyTextDialog({ text: { id, created }, maySignIn }: { text: KeyText; maySignIn: boolean }) {
  const queries = useQueryClient();
  const [said, setSaid] = useState("");
  const first = useRef<HTMLButtonElement>(null);
  const last = useRef<HTMLButtonElement>(null);
  useEffect(() => first.current?.focus(), []);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(created.key);
      setSaid("Copied.");
    } catch {
      setSaid("The browser does not allow copying here: select the text and copy it.");
    }
  };
  const enter = async () => {
    try {
      await signIn(queries, created.key, pathHere());
      setSaid(`You are signed in with ${created.apiKey.name}.`);
      last.current?.focus(); // the button that had it is not needed any more
    } catch (error) {
      setSaid(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <Dialog label="New API key" className="new-key">
      <h2>{shown(created.apiKey.name)}: copy this key now</h2>
      <p className="label">It is shown only once. The server keeps only a hash of it, so nobody can read it again.</p>
      <output tabIndex={0}>{created.key}</output>
      {created.warning !== null && <p className="callout warn"><b>!</b> {shown(created.warning)}</p>}
      <div className="actions">
        <button ref={first} type="button" className="btn main" onClick={() => void copy()}>Copy</button>
        {maySignIn && <button type="button" className="btn" onClick={() => void enter()}>Sign in with it</button>}
        <button ref={last} type="button" className="btn" onClick={() => dropKeyText(id)}>I have saved it</button>
      </div>
      <p className="label" role="status">{shown(said)}</p>
    </Dialog>
  );
}
