/** The review queue: one item after another, with the keyboard alone. */
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { type QueueFilter, type QueueItem, labelsQuery, queueQuery, reviewsQuery } from "../api/reviews";
import { mayWrite, sessionQuery } from "../api/session";
import { Failure, Loading, State } from "../components/bits";
import { PromoteForm } from "../components/promote-form";
import { ReviewClaims } from "../components/review-claims";
import { ReviewFilters } from "../components/review-filters";
import { ReviewInstructions } from "../components/review-instructions";
import { ReviewForm } from "../components/review-form";
import { Agreement, ItemToReview, OtherReviews } from "../components/review-item";
import { ReviewProgress } from "../components/review-progress";
import { KeysLine, Progress, QueueList, REVIEW_KEYS } from "../components/review-queue";
import { ReviewProblems } from "../components/review-problems";
import { Crumbs } from "../components/shell";
import { count } from "../lib/format";
import { useKeyHelp, useKeys } from "../lib/keys";
import { notify } from "../lib/notices";
import { type Draft, correctWhole, correctableOf, keepDraft, readCorrection, readDraft, startCorrection, toReview } from "../lib/review-drafts";
import { type Verdict, findNeighbour, findNextOpen, sayVerdict } from "../lib/review";
import { useStore } from "../lib/store";
import { type Decisions, useDecisions } from "../lib/use-decisions";
import { givenVerdicts } from "../lib/verdicts";
import "../styles/review.css";
import { saysAnything } from "../lib/address-texts";

const route = getRouteApi("/review-queue");
const READ_AHEAD = 10;

export function ReviewPage() {
  const { item: wanted, reviewers, ...filter } = route.useSearch();
  const navigate = route.useNavigate();
  const queue = useInfiniteQuery(queueQuery(filter));
  const decisions = useDecisions();
  const items = uniqueItems(queue.data?.pages.flatMap((page) => page.content) ?? []);
  const ids = items.map((item) => item.itemId);
  const given = useStore(givenVerdicts);
  const verdictOf = ({ itemId }: QueueItem) => (decisions.verdicts.has(itemId) ? decisions.verdicts : given).get(itemId) ?? null;
  const me = useQuery(sessionQuery).data?.id;
  const waiting = items.filter((item) => verdictOf(item) === null);
  const [shownItem, setShownItem] = useState<{ readonly of: string; readonly item: QueueItem } | null>(null);
  const of = JSON.stringify(filter);
  // What is decided in another tab, or leaves the queue, stays before the reader until they go on.
  const stays = shownItem?.of === of && (wanted ?? shownItem.item.itemId) === shownItem.item.itemId ? shownItem.item : null;
  const found = items.find((item) => item.itemId === (wanted ?? stays?.itemId)) ?? stays;
  const current = found ?? waiting.find((item) => isFree(item, me)) ?? waiting[0] ?? items[0] ?? null;
  if (current !== null && (shownItem?.item !== current || shownItem.of !== of)) setShownItem({ of, item: current });
  const done = [...decisions.verdicts.values()].filter((verdict) => verdict !== null).length;
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage } = queue;
  const isNearEnd = hasNextPage && !isFetchingNextPage && !isFetchNextPageError && waiting.length < READ_AHEAD;
  useEffect(() => {
    if (isNearEnd) void fetchNextPage();
  }, [isNearEnd, fetchNextPage]);
  const change = (next: Record<string, unknown>) => {
    const kept = Object.entries({ ...filter, reviewers, ...next }).filter(([, value]) => value !== undefined);
    void navigate({ search: Object.fromEntries(kept), replace: true, resetScroll: false });
  };
  const lookAgain = async () => {
    if ((await queue.refetch()).isSuccess) setShownItem(null);
  };
  const total = Math.max(queue.data?.pages[0]?.totalElements ?? 0, items.length);
  const left = Math.max(total - items.filter((item) => verdictOf(item) !== null).length, 0);
  return (
    <>
      <Crumbs title="Review queue" />
      <div className="head">
        <div>
          <h1>Review queue</h1>
          <p className="facts">
            <span>
              {queue.data?.pages[0]?.totalIsExact === false && "at least "}{count(left)} {left === 1 ? "waits" : "wait"}, {count(done)} done here
            </span>
            {filter.order !== "oldest" && <span>most informative first, some drawn at random</span>}
          </p>
        </div>
        <div className="actions">
          <button type="button" className="btn" aria-expanded={reviewers !== undefined} onClick={() => change({ item: wanted, reviewers: reviewers === undefined ? 7 : undefined })}>Reviewers</button>
          <ReviewClaims filter={filter} onClaimed={() => change({ assigned: "me" })} onReleased={() => change({ assigned: undefined })} />
        </div>
      </div>
      {reviewers !== undefined && <ReviewProgress filter={filter} days={reviewers} onDays={(days) => change({ item: wanted, reviewers: days })} />}
      <ReviewFilters filter={filter} onChange={change} />
      <ReviewProblems decisions={decisions} onShow={(item) => change({ item: item.itemId })} />
      {queue.isPending ? (
        <Loading />
      ) : queue.data === undefined ? (
        <Failure error={queue.error} retry={() => void queue.refetch()} />
      ) : current === null ? (
        <Empty filter={filter} onClear={() => void navigate({ search: {} })} onLook={() => void lookAgain()} />
      ) : (
        <>
          <Progress decisions={decisions} left={left} />
          <section className="review">
            <QueueList items={items} current={current.itemId} verdictOf={verdictOf} total={total} onShow={(id) => change({ item: id })} />
            <div>
              <ReviewInstructions key={current.projectName} project={current.projectName} />
              <Reviewing
                key={current.itemId}
                item={current}
                items={items}
                ids={ids}
                total={total}
                decisions={decisions}
                verdictOf={verdictOf}
                onShow={(id) => change({ item: id })}
                onAgain={() => void lookAgain()}
              />
            </div>
          </section>
        </>
      )}
    </>
  );
}

interface ReviewingProps {
  readonly item: QueueItem;
  readonly items: readonly QueueItem[];
  readonly ids: readonly string[];
  readonly total: number;
  readonly decisions: Decisions;
  readonly verdictOf: (item: QueueItem) => Verdict | null;
  readonly onShow: (id: string) => void;
  readonly onAgain: () => void;
}

function Reviewing({ item, items, ids, total, decisions, verdictOf, onShow, onAgain }: ReviewingProps) {
  const queries = useQueryClient();
  const session = useQuery(sessionQuery);
  const reviews = useQuery(reviewsQuery(item));
  const labels = useQuery(labelsQuery(item.projectName));
  const mine = reviews.data?.find((one) => one.reviewer === session.data?.id);
  const [typed, setTyped] = useState<Draft | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const [isPromoting, setIsPromoting] = useState(false);
  const commentField = useRef<HTMLInputElement>(null);
  const expectedField = useRef<HTMLTextAreaElement>(null);
  const draft = typed ?? readDraft(item, mine);
  const open = new Set(items.filter((one) => verdictOf(one) === null && isFree(one, session.data?.id)).map((one) => one.itemId));
  const next = items.find((one) => one.itemId === findNextOpen(ids, item.itemId, (id) => open.has(id)));
  const isAllowed = mayWrite(session.data);
  useEffect(() => {
    if (next !== undefined) void queries.prefetchQuery(reviewsQuery(next));
  }, [next, queries]);
  const change = (now: Draft) => {
    keepDraft(item, now, mine);
    setTyped(now);
    setFault(null);
  };
  const send = (verdict: Verdict): boolean => {
    const body = toReview(item, draft, verdict, mine);
    if (typeof body === "string") {
      setFault(body);
      expectedField.current?.focus();
      return false;
    }
    decisions.decide(item, body);
    return true;
  };
  const undo = () => {
    const undone = decisions.undo();
    if (undone === null) notify("Nothing of this sitting is left to undo");
    else onShow(undone.itemId);
  };
  const decide = (verdict: Verdict) => {
    if (!isAllowed || !send(verdict)) return;
    notify(`Marked ${sayVerdict(verdict)}`, undo);
    if (next !== undefined) onShow(next.itemId);
  };
  const given = verdictOf(item) ?? mine?.verdict ?? null;
  const elsewhere = decisions.verdicts.has(item.itemId) ? null : verdictOf(item);
  const correct = () => {
    if (draft.expected === null) change(startCorrection(item, draft, mine));
    requestAnimationFrame(() => expectedField.current?.focus());
  };
  const move = (step: 1 | -1) => {
    const id = findNeighbour(ids, item.itemId, step);
    if (id !== null) onShow(id);
  };
  useKeyHelp("In the review queue", REVIEW_KEYS);
  useKeys({
    j: () => move(1),
    ArrowDown: () => move(1),
    k: () => move(-1),
    ArrowUp: () => move(-1),
    1: () => decide("CORRECT"),
    2: () => decide("INCORRECT"),
    3: () => decide("UNSURE"),
    e: correct,
    c: () => commentField.current?.focus(),
    p: () => setIsPromoting(isAllowed),
    u: undo,
    Escape: () => setIsPromoting(false),
  });
  const correction = readCorrection(item, draft, mine);
  return (
    <div>
      {next === undefined && <AllDone isDone={given !== null} onAgain={onAgain} />}
      {elsewhere !== null && (
        <p className="callout info" role="status"><b>You have decided it already: {sayVerdict(elsewhere)}.</b> What is typed here stays; a verdict here takes the place of that one.</p>
      )}
      {elsewhere === null && !ids.includes(item.itemId) && (
        <p className="callout info" role="status"><b>It waits no more.</b> Somebody has decided it, or taken it out of the queue. What is typed here stays.</p>
      )}
      {!isAllowed && (
        <p className="callout">Verdicts need the role editor. Yours is {session.data?.role.toLowerCase()}, so you may look, not change.</p>
      )}
      <div className="panel rcard" aria-label="Item to review" role="region">
        <ItemToReview item={item} place={ids.indexOf(item.itemId) + 1} total={total} />
        <OtherReviews reviews={reviews.data?.filter((one) => one !== mine) ?? []} />
        <ReviewForm
          item={item}
          draft={draft}
          correctable={correctableOf(item, mine, draft)}
          verdict={given}
          labels={labels.data ?? []}
          fault={fault}
          isPromoting={isPromoting}
          isAllowed={isAllowed}
          commentField={commentField}
          expectedField={expectedField}
          onDraft={change}
          onVerdict={decide}
          onCorrect={correct}
          onCorrectWhole={() => change(correctWhole(item, draft, mine))}
          onPromote={() => setIsPromoting(!isPromoting)}
          onDone={() => {
            if (given !== null && typed !== null) send(given);
          }}
        />
        {isPromoting && (
          <PromoteForm
            itemId={item.itemId}
            correction={correction}
            onClose={() => setIsPromoting(false)}
          />
        )}
        <Agreement run={item.runId} />
      </div>
      <KeysLine />
    </div>
  );
}

function AllDone({ isDone, onAgain }: { isDone: boolean; onAgain: () => void }) {
  return (
    <div className="callout info split" role="status">
      <span><b>{isDone ? "Nothing else waits here." : "This is the last one that waits here."}</b> Others may have come meanwhile.</span>
      <button type="button" className="btn" onClick={onAgain}>Look again</button>
    </div>
  );
}

function Empty({ filter, onClear, onLook }: { filter: QueueFilter; onClear: () => void; onLook: () => void }) {
  const { order: _order, ...narrowing } = filter;
  const isFiltered = saysAnything(narrowing);
  return (
    <div className="panel review-empty">
      <State
        title={isFiltered ? "No item that waits is like that" : "Nothing waits for a review"}
        actions={isFiltered ? <button type="button" className="btn main" onClick={onClear}>Show all that wait</button> : <button type="button" className="btn" onClick={onLook}>Look again</button>}
      >
        <p>{isFiltered ? "Other filters may show some." : "Items of runs wait here until somebody has judged them; so do traces that are put into the queue."}</p>
      </State>
    </div>
  );
}

/** Whether nobody else has claimed an item. */
function isFree(item: QueueItem, me: string | undefined): boolean {
  return item.claim === null || item.claim.reviewer === me;
}

/** Pages of a queue that moved meanwhile may have the same item twice. */
function uniqueItems(items: readonly QueueItem[]): QueueItem[] {
  return [...new Map(items.map((item) => [item.itemId, item])).values()];
}
