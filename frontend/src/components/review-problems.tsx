/** Verdicts that were not saved, each with what to do about it; the reviewer has gone on meanwhile. */
import type { QueueItem } from "../api/reviews";
import { cut, shown, textOf } from "../lib/format";
import { sayVerdict } from "../lib/review";
import type { Decisions } from "../lib/use-decisions";
import { Time } from "./bits";

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
            <>
              <b>! {shown(theirs.reviewerName ?? theirs.reviewer)} has reviewed </b>{name} <Time value={theirs.updatedAt} />:{" "}
              {sayVerdict(theirs.verdict)}{theirs.note !== null && `, “${shown(cut(theirs.note, 80))}”`}. You chose {sayVerdict(decision.body.verdict)}; it is not saved.
            </>
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
