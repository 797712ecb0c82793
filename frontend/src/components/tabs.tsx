/** Hears what other tabs have changed, and that somebody has signed in or out in one of them. */
import { useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useEffect } from "react";
import { countsOfReviews } from "../api/reviews";
import { lookWhoIsSignedIn, noteSignOut } from "../api/session";
import { followTabs } from "../lib/tabs";
import { noteVerdict } from "../lib/verdicts";

export function Tabs() {
  const queries = useQueryClient();
  const router = useRouter();
  useEffect(
    () =>
      followTabs((message) => {
        if (message.kind === "changed") {
          for (const queryKey of message.keys) void queries.invalidateQueries({ queryKey });
        } else if (message.kind === "reviewed") {
          noteVerdict(message);
          for (const queryKey of [["reviews", message.item], ...countsOfReviews(message.run)]) void queries.invalidateQueries({ queryKey });
        } else if (message.kind === "signed-in") {
          void lookWhoIsSignedIn(queries);
        } else if (router.state.location.pathname === "/login") {
          queries.clear();
        } else noteSignOut();
      }),
    [queries, router],
  );
  return null;
}
