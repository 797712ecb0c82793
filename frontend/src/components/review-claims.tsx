/** Claiming items, so that nobody else gets them meanwhile. */
import { useEffect } from "react";
import { HEARTBEAT_MS, type QueueFilter, claimItems, extendClaims, releaseClaims } from "../api/reviews";
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
  const keys = () => [["review-queue"]];
  const claim = useWrite({
    what: "The claim",
    send: () => claimItems(filter, COUNT),
    keys,
    notice: ({ items }) => ({ text: items.length === 0 ? "Nothing waits that somebody else has not claimed" : `${plural(items.length, "item")} claimed for 15 minutes` }),
    onSaved: ({ items }) => {
      if (items.length > 0) onClaimed();
    },
  });
  const release = useWrite({
    what: "Giving the claims back",
    send: () => releaseClaims(),
    keys,
    notice: ({ released }) => ({ text: `${plural(released, "claim")} given back` }),
    onSaved: onReleased,
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
