/** Says when what a page shows could not be read again, and from when it is. */
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useSyncExternalStore } from "react";
import { OfflineError } from "../api/client";
import { clock } from "../lib/format";

export function Stale() {
  const cache = useQueryClient().getQueryCache();
  const subscribe = useCallback((changed: () => void) => cache.subscribe(changed), [cache]);
  const outdated = () => cache.findAll({ type: "active", predicate: ({ state }) => state.status === "error" && state.data !== undefined });
  // The time and whether the server answers at all, as one value: what is compared to know whether to draw again.
  const state = useSyncExternalStore(subscribe, () => {
    const queries = outdated();
    if (queries.length === 0) return "";
    const isAway = queries.some((query) => query.state.error instanceof OfflineError);
    return `${isAway ? "away" : "error"} ${Math.min(...queries.map((query) => query.state.dataUpdatedAt))}`;
  });
  if (state === "") return null;
  const [reason, since] = state.split(" ");
  return (
    <div className="callout warn split" role="status">
      <span>
        <b>! Not up to date.</b> {reason === "away" ? "The server does not answer" : "The server could not answer"}; this is how it was at {clock(Number(since))}.
      </span>
      <button type="button" className="btn" onClick={() => outdated().forEach((query) => void query.fetch())}>Try again</button>
    </div>
  );
}
