/** The form with which somebody signs in: with a key, or through the provider of the server. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { ApiError } from "../api/client";
import { providerAddress, sessionQuery, signIn } from "../api/session";
import { shown } from "../lib/format";

interface Props {
  readonly title: string;
  readonly text: string;
  readonly returnTo: string;
  /** Whether the page stays, so that the provider has to open in another tab. */
  readonly isInPlace?: boolean;
  readonly onSignedIn?: () => void;
}

export function SignIn({ title, text, returnTo, isInPlace = false, onSignedIn }: Props) {
  const queries = useQueryClient();
  const session = useQuery(sessionQuery);
  const [key, setKey] = useState("");
  const [isSending, setIsSending] = useState(false);
  const [fault, setFault] = useState<string | null>(null);
  const name = useId();
  const ways = session.data?.signInWays ?? ["key"];
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setIsSending(true);
    setFault(null);
    try {
      await signIn(queries, key.trim(), returnTo);
      onSignedIn?.();
    } catch (error) {
      setFault(describe(error));
      setIsSending(false);
    }
  };
  return (
    <form className="sign-in" onSubmit={(event) => void submit(event)} aria-busy={isSending}>
      <h2>{title}</h2>
      <p className="muted">{text}</p>
      {ways.includes("oidc") && (
        <a className="btn main" href={providerAddress(isInPlace ? "/" : returnTo)} target={isInPlace ? "_blank" : undefined} rel="noopener">
          Sign in with your company’s account{isInPlace && " in a new tab"}
        </a>
      )}
      {ways.includes("proxy") && (
        <p className="muted">A proxy in front of this server signs people in. Reloading the page may be enough.</p>
      )}
      <input type="text" autoComplete="username" value="API key" readOnly hidden />
      <label htmlFor={name}>API key</label>
      <div className="bar">
        <input
          id={name}
          className="field search mono"
          type="password"
          autoComplete="current-password"
          spellCheck={false}
          required
          value={key}
          aria-invalid={fault !== null}
          aria-describedby={fault === null ? undefined : `${name}-fault`}
          onChange={(event) => setKey(event.target.value)}
        />
        <button type="submit" className={ways.includes("oidc") ? "btn" : "btn main"} disabled={isSending}>
          {isSending ? "Signing in…" : "Sign in"}
        </button>
      </div>
      {fault !== null && <p id={`${name}-fault`} className="error" role="alert">! {shown(fault)}</p>}
    </form>
  );
}

function describe(error: unknown): string {
  if (error instanceof ApiError && error.status === 401) return "The server does not know this key. It may be misspelled, disabled or expired.";
  return error instanceof Error ? error.message : String(error);
}
