/** Verdicts that were not saved, each with what to do about it; the reviewer has gone on meanwhile. */
import type { ReactNode } from "react";
import type { QueueItem, Review } from "../api/reviews";
import { cut, shown, textOf } from "../lib/format";
import { type Verdict, sayVerdict } from "../lib/review";
import type { Decisions } from "../lib/use-decisions";
import { Ago } from "./bits";

/** What others have said about an item since the reviewer looked, and that their own verdict is not saved. */
export function TheirReviews({ of, reviews, mine }: { of: ReactNode; reviews: readonly Review[]; mine: Verdict }) {
  return (
    <>
      {reviews.map((one) => (
        <span key={one.id}>
          <b>! {shown(one.reviewerName ?? one.reviewer)}</b> marked {of} as {sayVerdict(one.verdict)} <Ago value={one.updatedAt} />
          {one.note !== null && `, “${shown(cut(one.note, 80))}”`}.{" "}
        </span>
      ))}
      You chose {sayVerdict(mine)}; it is not saved.
    </>
  );
}

export function ReviewProblems({ decisions, onShow }: { decisions: Decisions; onShow: (item: QueueItem) => void }) {
  return decisions.problems.map((problem) => {
    const { decision, theirs, text } = problem;
    const name = <b>“{shown(cut(textOf(decision.item.input), 60))}”</b>;
    return (
      <div className="callout warn split" role="alert" key={decision.item.itemId}>
        <span>
          {theirs === null ? (
            <>{name}: {shown(text)}</>
          ) : (
            <TheirReviews of={name} reviews={theirs} mine={decision.body.verdict} />
          )}
        </span>
        <span className="actions">
          <button type="button" className="btn" onClick={() => decisions.resend(problem)}>{theirs === null ? "Send again" : "Keep mine"}</button>
          <button type="button" className="btn" onClick={() => decisions.drop(problem)}>{theirs === null ? "Drop it" : "Take theirs"}</button>
          <button type="button" className="btn bare" onClick={() => onShow(decision.item)}>Show the item</button>
        </span>
      </div>
    );
  });
}
