/** Who is signed in, at the foot of the menu. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useRouterState } from "@tanstack/react-router";
import { useState } from "react";
import { type Session, accountNameQuery, sessionQuery, signOut, signsOutElsewhere } from "../api/session";
import { needsSignIn } from "../api/signals";
import { shown } from "../lib/format";
import { hasKeyTexts } from "../lib/key-texts";
import { isSomethingLost, leaveFor } from "../lib/root";
import { useStore } from "../lib/store";
import { Confirm } from "./settings-bits";

export function Account() {
  const session = useQuery(sessionQuery);
  const hasEnded = useStore(needsSignIn);
  const path = useRouterState({ select: (state) => state.location.href });
  if (session.data === undefined || !session.data.needsKey) return null;
  if (session.data.isAuthenticated && !hasEnded) return <SignedIn session={session.data} />;
  return (
    <Link to="/login" search={path.startsWith("/login") ? {} : { returnTo: path }}>Sign in</Link>
  );
}

function SignedIn({ session }: { session: Session }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const name = useQuery(accountNameQuery(session.id));
  const [fault, setFault] = useState<string | null>(null);
  const leave = async () => {
    try {
      const target = await signOut(queries, session);
      if (target === null) await navigate({ to: "/login", search: {} });
      else leaveFor(target);
    } catch (error) {
      setFault(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <div className="account">
      <span className="cut" title={session.id}>{shown(name.data ?? session.id)}</span>
      <span className="cut">
        {session.role.toLowerCase()}
        {session.tenantId !== null && ` · tenant ${shown(session.tenantId)}`}
      </span>
      <Confirm
        label="Sign out"
        className="btn bare"
        question={`Signing out leaves this page: ${hasKeyTexts() ? "the text of a new key" : "what you typed and did not save"} is lost.`}
        action="Sign out and discard it"
        keep="Stay"
        // The provider signs people out on a page of its own; otherwise what is typed waits here.
        isNeeded={() => signsOutElsewhere(session) && isSomethingLost()}
        onConfirm={() => void leave()}
      />
      {fault !== null && <span className="error" role="alert">! You are still signed in. {shown(fault)}</span>}
    </div>
  );
}
