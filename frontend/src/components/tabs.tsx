/** Hears what other tabs have changed, and that somebody has signed in or out in one of them. */
import { useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useEffect } from "react";
import { needsSignIn } from "../api/signals";
import { followTabs } from "../lib/tabs";

export function Tabs() {
  const queries = useQueryClient();
  const router = useRouter();
  useEffect(
    () =>
      followTabs((message) => {
        if (message.kind === "changed") {
          for (const queryKey of message.keys) void queries.invalidateQueries({ queryKey });
        } else if (message.kind === "signed-in") {
          needsSignIn.set(false);
          void queries.invalidateQueries();
        } else {
          const { href, pathname } = router.state.location;
          // Nothing that was read stays; what comes next is asked for again.
          queries.clear();
          if (pathname !== "/login") void router.navigate({ to: "/login", search: { returnTo: href } });
        }
      }),
    [queries, router],
  );
  return null;
}
