/** Claiming items, so that nobody else gets them meanwhile. */
import { type InfiniteData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { ASSIGNED_QUEUES, HEARTBEAT_MS, type QueueFilter, type QueueItem, type QueuePage, claimItems, extendClaims, releaseClaims } from "../api/reviews";
import { sessionQuery } from "../api/session";
import { useWrite } from "../api/write";
import { plural } from "../lib/format";
import { NotSaved } from "./notices";

const COUNT = 10;

interface Props {
  readonly filter: QueueFilter;
  readonly onClaimed: () => void;
  readonly onReleased: () => void;
}

export function ReviewClaims({ filter, onClaimed, onReleased }: Props) {
  const queries = useQueryClient();
  const me = useQuery(sessionQuery).data?.id;
  const keys = () => ASSIGNED_QUEUES;
  // The lists of what waits keep their items and their order: only who is at an item changes.
  const mark = (change: (item: QueueItem) => QueueItem) =>
    queries.setQueriesData<InfiniteData<QueuePage>>({ queryKey: ["review-queue", {}] }, (old) =>
      old === undefined ? old : { ...old, pages: old.pages.map((page) => ({ ...page, content: page.content.map(change) })) });
  const claim = useWrite({
    what: "The claim",
    send: () => claimItems(filter, COUNT),
    keys,
    notice: ({ items }) => ({ text: items.length === 0 ? "Nothing waits that somebody else has not claimed" : `${plural(items.length, "item")} claimed for 15 minutes` }),
    onSaved: ({ items }) => {
      const claims = new Map(items.map((item) => [item.itemId, item.claim]));
      mark((item) => ({ ...item, claim: claims.get(item.itemId) ?? item.claim }));
      if (items.length > 0) onClaimed();
    },
  });
  const release = useWrite({
    what: "Giving the claims back",
    send: () => releaseClaims(),
    keys,
    notice: ({ released }) => ({ text: `${plural(released, "claim")} given back` }),
    onSaved: () => {
      // What somebody was assigned stays theirs.
      mark((item) => (item.claim?.reviewer === me && item.claim?.expiresAt !== null ? { ...item, claim: null } : item));
      onReleased();
    },
  });
  const isMine = filter.assigned === "me";
  useEffect(() => {
    if (!isMine) return undefined;
    // A claim that could not be extended only expires: the next change says what is wrong.
    const timer = setInterval(() => void extendClaims().catch(() => undefined), HEARTBEAT_MS);
    return () => clearInterval(timer);
  }, [isMine]);
  return (
    <>
      <button type="button" className="btn" disabled={claim.isSaving} onClick={() => claim.save(undefined)}>
        Claim the next {COUNT}
      </button>
      {isMine && (
        <button type="button" className="btn" disabled={release.isSaving} onClick={() => release.save(undefined)}>
          Give claims back
        </button>
      )}
      <NotSaved write={claim} />
      <NotSaved write={release} />
    </>
  );
}
