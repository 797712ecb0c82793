/** Who is signed in, signing in and out. */
import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { tellTabs } from "../lib/tabs";
import { apiPath, get, send } from "./client";
import type { components } from "./schema";
import { needsSignIn } from "./signals";

type Schemas = components["schemas"];
export type Session = Schemas["dokimos__server___api__accounts__session_routes__SessionAnswer"];
type ListedSession = Schemas["ListedSession"];

const SESSION = apiPath("/session");
const ROLES: readonly string[] = ["NONE", "VIEWER", "EDITOR", "ADMIN"];

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => get<Session>("/session", {}, signal),
  staleTime: 60_000,
});

/** The name of the key or the person who is signed in; null where the server knows none. */
export const accountNameQuery = (id: string) =>
  queryOptions({
    queryKey: ["session", "name", id],
    queryFn: async ({ signal }) => {
      const sessions = await get<ListedSession[]>("/sessions", { own: true, limit: 100 }, signal);
      return sessions.find((session) => session.isCurrent)?.name ?? null;
    },
    staleTime: Number.POSITIVE_INFINITY,
  });

/** Whether somebody may do what needs a role somewhere; the server decides for each request. */
export function mayWrite(session: Session | undefined, role: "EDITOR" | "ADMIN" = "EDITOR"): boolean {
  if (session === undefined || !session.needsKey) return true;
  const best = Math.max(...[session.role, ...session.projects.map((one) => one.role)].map((one) => ROLES.indexOf(one)));
  return best >= ROLES.indexOf(role);
}

/** Signs in with a key; everything that waited for it is asked for again. */
export async function signIn(queries: QueryClient, key: string): Promise<Session> {
  const session = await send<Session>("POST", SESSION, { key });
  queries.setQueryData(sessionQuery.queryKey, session);
  needsSignIn.set(false);
  tellTabs({ kind: "signed-in" });
  void queries.invalidateQueries();
  return session;
}

/** Signs out, with what the pages have read; returns the address at which the provider signs people out, if it has one. */
export async function signOut(queries: QueryClient, session: Session): Promise<string | null> {
  let target: string | null = null;
  if (session.signInWays.includes("oidc")) {
    target = (await send<{ redirectTo: string | null }>("POST", `${SESSION}/oidc/sign-out`)).redirectTo;
  } else await send("DELETE", SESSION);
  queries.clear();
  tellTabs({ kind: "signed-out" });
  return target;
}

/** A path of this server, never an address elsewhere. */
export function safePath(path: string | undefined): string {
  return path !== undefined && /^\/(?![/\\])/.test(path) && !path.startsWith("/login") ? path : "/";
}

export function providerAddress(returnTo: string): string {
  return `${SESSION}/oidc/start?returnTo=${encodeURIComponent(returnTo)}`;
}
