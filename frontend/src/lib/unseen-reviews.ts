/** A verdict is not sent past what somebody else has said since the reviewer looked: that is shown first, and they decide. */
import type { ItemPlace, Review, ReviewBody } from "../api/reviews";
import { findUnseen } from "./review";

/** Somebody has said something about the item since it was shown. */
export class UnseenReviews extends Error {
  /** @param theirs The oldest first. */
  constructor(readonly theirs: readonly Review[]) {
    super("Somebody has reviewed the item in the meantime.");
  }
}

interface Calls {
  readonly read: (item: ItemPlace) => Promise<Review[]>;
  readonly give: (item: ItemPlace, body: ReviewBody) => Promise<Review>;
  /** What is known from now on, whether the review is given or not. */
  readonly onRead: (now: Review[]) => void;
}

/** Gives a review unless there are others than those that are known; throws `UnseenReviews` then. */
export async function giveUnlessUnseen(item: ItemPlace, body: ReviewBody, known: readonly Review[], { read, give, onRead }: Calls): Promise<Review> {
  const now = await read(item);
  const unseen = findUnseen(now, known);
  onRead(now);
  if (unseen.length > 0) throw new UnseenReviews(unseen);
  return give(item, body);
}
