/** What somebody says about an item of a run beside it: a verdict, the expected output corrected, a comment. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type RefObject, useEffect, useRef, useState } from "react";
import { type Item, type Run, itemsQuery } from "../api/queries";
import { type Review, type ReviewBody, countsOfReviews, giveReview, readReviews, reviewsQuery, undoReview } from "../api/reviews";
import { mayWrite, sessionQuery } from "../api/session";
import { type Write, useWrite } from "../api/write";
import { shown } from "../lib/format";
import { type Draft, correctWhole, correctableOf, keepDraft, lastSaid, readCorrection, readDraft, restoreDraft, settleDraft, startCorrection, toReview, typedAbout } from "../lib/review-drafts";
import { type Correctable, VERDICTS, type Verdict, hasMore, sayVerdict } from "../lib/review";
import { UnseenReviews, giveUnlessUnseen } from "../lib/unseen-reviews";
import { NotSaved } from "./notices";
import { CommentField, CorrectionField } from "./review-fields";
import { TheirReviews } from "./review-problems";
import "../styles/item-review.css";

interface Decision {
  readonly body: ReviewBody;
  readonly typed: Draft | undefined;
  /** What had been said of the item by when the reviewer saw it; null to save the verdict whatever was said since. */
  readonly known: readonly Review[] | null;
}

/** A verdict that was not saved, as others have said something since the drawer was opened. */
interface Unsaved {
  readonly verdict: Verdict;
  readonly theirs: readonly Review[];
}

export interface ItemReviewing {
  readonly draft: Draft;
  /** Whether something is typed and not saved. */
  readonly isTyped: boolean;
  readonly correction: ReturnType<typeof readCorrection>;
  readonly correctable: Correctable;
  readonly correctWhole: () => void;
  readonly verdict: Verdict | null;
  /** What is wrong with what is typed, or why it could not be sent. */
  readonly fault: string | null;
  readonly field: RefObject<HTMLTextAreaElement | null>;
  readonly write: Write<Decision, Review>;
  /** What the reviewer is to decide about; null where nobody else has said anything. */
  readonly unsaved: Unsaved | null;
  readonly keepMine: () => void;
  readonly undo: Write<Decision, { readonly review: Review | null }>;
  readonly change: (draft: Draft) => void;
  readonly correct: () => void;
  readonly decide: (verdict: Verdict) => void;
  /** The correction is in a dataset: it is not lost with the page any more, though a verdict still sends it. */
  readonly notePromotion: () => void;
}

/** What the reviewer has said and is typing about an item; the review queue shows the same for the same item. */
export function useItemReview(run: Run, item: Item, version: string): ItemReviewing {
  const place = { runId: run.id, itemId: item.id, expectedOutput: item.expectedOutput, actualOutput: item.actualOutput };
  const queries = useQueryClient();
  const session = useQuery(sessionQuery);
  const reviews = useQuery({ ...reviewsQuery(place), enabled: mayWrite(session.data) });
  // Not what is read again while the drawer is open: it shows nobody else's reviews.
  const known = useRef<readonly Review[] | undefined>(undefined);
  useEffect(() => {
    if (known.current === undefined && !reviews.isFetching) known.current = reviews.data;
  }, [reviews.data, reviews.isFetching]);
  const note = (mine: Review | null) => {
    const others = (known.current ?? []).filter((one) => one.reviewer !== session.data?.id);
    known.current = mine === null ? others : [...others, mine];
  };
  const own = (all: readonly Review[] | undefined) => all?.find((one) => one.reviewer === session.data?.id);
  const mine = own(reviews.data);
  const [typed, setTyped] = useState<Draft | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const draft = typed ?? readDraft(place, mine);
  const keys = () => [itemsQuery(run.id, [item.ordinal], version).queryKey, ["reviews", item.id], ...countsOfReviews(run.id)];
  const undo = useWrite<Decision, { readonly review: Review | null }>({
    what: "Undoing the verdict",
    scope: "review",
    send: () => undoReview(place),
    keys,
    onSaved: ({ review }, sent) => {
      note(review);
      restoreDraft(place, sent.typed);
    },
  });
  const noteAll = (now: Review[]) => {
    known.current = now;
    queries.setQueryData(reviewsQuery(place).queryKey, now);
  };
  const [chosen, setChosen] = useState<Verdict | null>(null);
  const write = useWrite<Decision, Review>({
    what: "The verdict",
    scope: "review",
    send: ({ body, known: seen }) =>
      seen === null ? giveReview(place, body) : giveUnlessUnseen(place, body, seen, { read: readReviews, give: giveReview, onRead: noteAll }),
    keys,
    notice: (_, sent) => ({ text: `Marked as ${sent.body.verdict.toLowerCase()}`, undo: () => undo.save(sent) }),
    onSaved: (review, sent) => {
      note(review);
      settleDraft(place, sent.typed);
    },
  });
  const change = (now: Draft) => {
    keepDraft(place, now, mine);
    setTyped(now);
    setFault(null);
  };
  const decide = async (verdict: Verdict, isForced = false) => {
    if (write.isSaving) return;
    setChosen(verdict);
    // A review takes the place of the one before: without that, a comment of then would be gone.
    const all = reviews.data ?? (await reviews.refetch()).data;
    if (all === undefined) {
      setFault("Nothing was saved, because what you said of this item before could not be read. Try again.");
      return;
    }
    const body = toReview(place, typed ?? readDraft(place, own(all)), verdict, own(all));
    setFault(typeof body === "string" ? body : null);
    if (typeof body === "string") field.current?.focus();
    else write.save({ body, typed: typedAbout(place), known: isForced ? null : (known.current ?? all) });
  };
  const unsaved = write.error instanceof UnseenReviews && chosen !== null ? { verdict: chosen, theirs: write.error.theirs } : null;
  return {
    draft,
    isTyped: typedAbout(place) !== undefined,
    correction: readCorrection(place, draft, mine),
    correctable: correctableOf(place, mine, draft),
    correctWhole: () => change(correctWhole(place, draft, mine)),
    verdict: mine?.verdict ?? item.annotation?.verdict ?? null,
    fault,
    field,
    write,
    unsaved,
    keepMine: () => {
      if (unsaved !== null) void decide(unsaved.verdict, true);
    },
    undo,
    change,
    correct: () => {
      if (draft.expected === null) change(startCorrection(place, draft, mine));
      requestAnimationFrame(() => field.current?.focus());
    },
    decide: (verdict) => void decide(verdict),
    notePromotion: () => keepDraft(place, { ...draft, expected: lastSaid(place, mine).expected }, mine),
  };
}

export function VerdictChips({ review }: { review: ItemReviewing }) {
  return (
    <span className="actions" role="group" aria-label="A person's verdict">
      {VERDICTS.map(({ verdict, sign, word, key }) => (
        <button
          key={verdict}
          type="button"
          className="chip"
          aria-pressed={review.verdict === verdict}
          aria-disabled={review.write.isSaving || undefined}
          onClick={() => review.decide(verdict)}
        >
          {sign} {word}<kbd>{key}</kbd>
        </button>
      ))}
    </span>
  );
}

/** The fields that a verdict sends; `onLeave` gets the focus back to where the keys of the drawer are heard. */
export function ReviewFields({ review, onLeave }: { review: ItemReviewing; onLeave: () => void }) {
  const { draft, change, verdict } = review;
  // A comment that was typed in the review queue is sent with a verdict from here, too: it is in sight.
  if (draft.expected === null && !review.isTyped) return null;
  return (
    <form
      className="item-review"
      aria-label="Correct the expected output"
      onSubmit={(event) => {
        event.preventDefault();
        if (verdict !== null) review.decide(verdict);
        onLeave();
      }}
      onKeyDown={(event) => {
        if (event.nativeEvent.isComposing) return;
        if (event.key === "Escape") onLeave();
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
      }}
    >
      <CorrectionField id="drawer-correction" ref={review.field} draft={draft} correctable={review.correctable} fault={review.fault} onDraft={change} />
      <CommentField draft={draft} onDraft={change} />
      <p className="bar">
        {verdict === null
          ? <span className="label">A verdict saves it; “Promote” puts it into a dataset.</span>
          : <button type="submit" className="btn">Save with {sayVerdict(verdict)}<kbd>ctrl enter</kbd></button>}
        {draft.expected !== null && (
          <button type="button" className="btn bare" onClick={() => {
            change({ ...draft, expected: null, isWhole: false });
            onLeave();
          }}>Leave it as it was</button>
        )}
        {draft.expected !== null && hasMore(review.correctable) && <button type="button" className="btn bare" onClick={review.correctWhole}>Edit all of it as JSON</button>}
      </p>
    </form>
  );
}

/** Why something was not saved, beside where it was said. */
export function ReviewFaults({ review }: { review: ItemReviewing }) {
  return (
    <>
      {review.fault !== null && <p className="error" role="alert">! {shown(review.fault)}</p>}
      {review.unsaved === null ? <NotSaved write={review.write} /> : (
        <div className="callout warn split" role="alert">
          <span><TheirReviews of="this item" reviews={review.unsaved.theirs} mine={review.unsaved.verdict} /></span>
          <span className="actions">
            <button type="button" className="btn" onClick={review.keepMine}>Keep mine</button>
            <button type="button" className="btn" onClick={review.write.reset}>Take theirs</button>
          </span>
        </div>
      )}
      <NotSaved write={review.undo} />
    </>
  );
}
