/** Signing in, with the way back to where somebody came from. */
import { useQuery } from "@tanstack/react-query";
import { Link, getRouteApi, useRouter } from "@tanstack/react-router";
import { safePath, sessionQuery } from "../api/session";
import { Failure, Loading, State } from "../components/bits";
import { Crumbs } from "../components/shell";
import { SignIn } from "../components/sign-in";
import { addressOf } from "../lib/root";

const route = getRouteApi("/login");

export function LoginPage() {
  const { returnTo } = route.useSearch();
  const router = useRouter();
  const session = useQuery(sessionQuery);
  const target = safePath(returnTo);
  return (
    <>
      <Crumbs title="Sign in" />
      <div className="login">
        <h1>Sign in</h1>
        {session.isPending ? (
          <Loading />
        ) : session.isError ? (
          <Failure error={session.error} retry={() => void session.refetch()} />
        ) : !session.data.needsKey ? (
          <State title="This server needs no key" actions={<Link className="btn main" to="/">Go to the projects</Link>}>
            <p>Whoever reaches it may read and write. Keys begin with one that an administrator makes.</p>
          </State>
        ) : (
          <div className="panel pad">
            <SignIn
              title={session.data.isAuthenticated ? "Sign in as somebody else" : "Sign in to this server"}
              text="A key is sent once, and this browser keeps a session instead of it. Ask whoever runs the server for a key."
              returnTo={target}
              onSignedIn={() => void router.history.push(addressOf(target))}
            />
          </div>
        )}
      </div>
    </>
  );
}
