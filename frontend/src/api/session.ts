/** Who is signed in, signing in and out. */
import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { hideDrafts } from "../lib/drafts";
import { addressOf, loadAnew } from "../lib/root";
import { tellTabs } from "../lib/tabs";
import { apiPath, get, send } from "./client";
import type { components } from "./schema";
import { isSignedOutElsewhere, needsSignIn } from "./signals";

type Schemas = components["schemas"];
export type Session = Schemas["dokimos__server___api__accounts__session_routes__SessionAnswer"];
type ListedSession = Schemas["ListedSession"];

const SESSION = apiPath("/session");
const ROLES: readonly string[] = ["NONE", "VIEWER", "EDITOR", "ADMIN"];

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async ({ signal }) => admit(await get<Session>("/session", {}, signal)),
  staleTime: 60_000,
  refetchOnWindowFocus: "always", // somebody else may have signed in meanwhile
});

/** Who was signed in last since this page was loaded. */
let person: string | null = null;

/** Who was signed in last in this page; null on a server that is open for all. */
export const lastPerson = (): string | null => person;

/** Who is signed in; nobody on a server that is open for all. */
export const personOf = ({ isAuthenticated, needsKey, id }: Pick<Session, "isAuthenticated" | "needsKey" | "id">): string | null =>
  isAuthenticated && needsKey ? id : null;

/** Whether somebody else than before has signed in. */
export const isSomebodyElse = (before: string | null, now: string | null): boolean => before !== null && now !== null && now !== before;

/**
 * Lets a page go on for the one whose page it is. Somebody else gets it anew: what was read, typed or searched for before
 * belongs to another person, and the address is loaded without its filters.
 */
async function admit(session: Session, path = location.pathname): Promise<Session> {
  const now = personOf(session);
  if (isSomebodyElse(person, now)) {
    loadAnew(path);
    return new Promise(() => undefined);
  }
  person = now ?? person;
  hideDrafts(session.needsKey && !session.isAuthenticated);
  return session;
}

/** Goes on after a sign-in: everything that waited for it is asked for again. */
function goOn(queries: QueryClient): void {
  needsSignIn.set(false);
  isSignedOutElsewhere.set(false);
  void queries.invalidateQueries();
}

/** Goes on if somebody is signed in by now, in another tab. */
export async function lookWhoIsSignedIn(queries: QueryClient): Promise<void> {
  const session = await queries.fetchQuery({ ...sessionQuery, staleTime: 0 }).catch(() => null);
  if (session?.isAuthenticated === true) goOn(queries);
}

/** Somebody has signed out in another tab. Their page waits for them, if they had signed in here. */
export function noteSignOut(): void {
  if (person === null) return;
  needsSignIn.set(true);
  isSignedOutElsewhere.set(true);
}

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

/** Signs in with a key; somebody else than before goes to the page of `returnTo` anew. */
export async function signIn(queries: QueryClient, key: string, returnTo: string): Promise<Session> {
  const answer = await send<Session>("POST", SESSION, { key });
  tellTabs({ kind: "signed-in" });
  const session = await admit(answer, addressOf(new URL(returnTo, location.origin).pathname));
  queries.setQueryData(sessionQuery.queryKey, session);
  goOn(queries);
  return session;
}

/** Whether signing out goes through the provider, on a page of its own: only for who has signed in there, not with a key. */
export const signsOutElsewhere = ({ signedInWith }: Pick<Session, "signedInWith">): boolean => signedInWith === "oidc";

/** Signs out, with what the pages have read; returns the address at which the provider signs people out, if it has one. */
export async function signOut(queries: QueryClient, session: Session): Promise<string | null> {
  let target: string | null = null;
  if (signsOutElsewhere(session)) {
    target = (await send<{ redirectTo: string | null }>("POST", `${SESSION}/oidc/sign-out`)).redirectTo;
  } else await send("DELETE", SESSION);
  queries.clear();
  tellTabs({ kind: "signed-out" });
  return target;
}

const SITE = "http://site.invalid";

/** A path of this server, never an address elsewhere, whatever a browser makes of its dots and slashes. */
export function safePath(path: string | undefined): string {
  if (path === undefined || !/^\/(?![/\\])/.test(path) || !URL.canParse(path, SITE)) return "/";
  const { origin, pathname } = new URL(path, SITE);
  return origin === SITE && !pathname.startsWith("//") && !pathname.startsWith("/login") ? path : "/";
}

export function providerAddress(returnTo: string): string {
  return `${SESSION}/oidc/start?returnTo=${encodeURIComponent(returnTo)}`;
}
