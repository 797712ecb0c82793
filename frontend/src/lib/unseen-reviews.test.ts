import { describe, expect, it } from "vitest";
import type { Review, ReviewBody } from "../api/reviews";
import { UnseenReviews, giveUnlessUnseen } from "./unseen-reviews";

const place = { runId: "r", itemId: "i" };
const body = { verdict: "CORRECT", overriddenExpectedOutput: null, note: null, labels: {} } as ReviewBody;
const review = (id: string, updatedAt = "1") => ({ id, updatedAt, verdict: "INCORRECT" }) as Review;

async function decide(now: Review[], known: readonly Review[]) {
  const given: ReviewBody[] = [];
  let seen: readonly Review[] = [];
  const calls = {
    read: () => Promise.resolve(now),
    give: (_: unknown, sent: ReviewBody) => (given.push(sent), Promise.resolve(review("mine"))),
    onRead: (read: Review[]) => (seen = read),
  };
  const failure = await giveUnlessUnseen(place, body, known, calls).then(() => null, (error: unknown) => error);
  return { given, seen, failure };
}

describe("a verdict", () => {
  it("is given where nothing was said since the item was shown", async () => {
    expect(await decide([review("a")], [review("a")])).toMatchObject({ given: [body], failure: null });
  });

  it("waits for the reviewer where others have said something, which is all shown, and known from then on", async () => {
    const now = [review("a", "2"), review("b"), review("c")];
    const { given, seen, failure } = await decide(now, [review("a"), review("b")]);

    expect(given).toEqual([]);
    expect(failure).toBeInstanceOf(UnseenReviews);
    expect((failure as UnseenReviews).theirs).toEqual([now[0], now[2]]);
    expect((await decide(now, seen)).given).toEqual([body]);
  });

  it("is given where somebody has only taken back what they said", async () => {
    expect((await decide([], [review("a")])).given).toEqual([body]);
  });
});
