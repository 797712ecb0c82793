/** The verdicts of one sitting: shown at once, sent in their order, and back where the server did not take them. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { type QueueItem, type Review, type ReviewBody, countsOfReviews, giveReview, readReviews, reviewsQuery, undoReview } from "../api/reviews";
import { sessionQuery } from "../api/session";
import { useWrite } from "../api/write";
import { describeFailure } from "./failures";
import { notice } from "./notices";
import type { Verdict } from "./review";
import { type Draft, restoreDraft, settleDraft, typedAbout } from "./review-drafts";
import { followTabs } from "./tabs";
import { UnseenReviews, giveUnlessUnseen } from "./unseen-reviews";

interface Decision {
  readonly item: QueueItem;
  readonly body: ReviewBody;
  /** What was typed for it; undefined where nothing was. */
  readonly typed: Draft | undefined;
  /** What was decided about it in this sitting before. */
  readonly before: Verdict | null;
  /** Whether to save it whatever others have said meanwhile. */
  readonly isForced: boolean;
}

export interface Problem {
  readonly decision: Decision;
  readonly text: string;
  /** What others said; null where the server did not take the verdict for another reason. */
  readonly theirs: readonly Review[] | null;
}

export interface Decisions {
  readonly verdicts: ReadonlyMap<string, Verdict | null>;
  readonly decidedAt: readonly number[];
  readonly problems: readonly Problem[];
  readonly decide: (item: QueueItem, body: ReviewBody) => void;
  readonly resend: (problem: Problem) => void;
  readonly drop: (problem: Problem) => void;
  /** Takes the last verdict back; returns its item. */
  readonly undo: () => QueueItem | null;
}

export function useDecisions(): Decisions {
  const queries = useQueryClient();
  const role = useQuery(sessionQuery).data?.role;
  const [verdicts, setVerdicts] = useState<ReadonlyMap<string, Verdict | null>>(new Map());
  const [decidedAt, setDecidedAt] = useState<readonly number[]>([]);
  const [problems, setProblems] = useState<readonly Problem[]>([]);
  const trail = useRef<Decision[]>([]);
  /** What was typed for them is not done with, though they may still be saved before they are taken back. */
  const undone = useRef(new Set<Decision>());
  const show = (id: string, verdict: Verdict | null) => setVerdicts((old) => new Map(old).set(id, verdict));
  const countAgain = ({ runId }: QueueItem) => {
    for (const queryKey of countsOfReviews(runId)) void queries.invalidateQueries({ queryKey });
  };
  useEffect(
    () =>
      followTabs((message) => {
        if (message.kind !== "reviewed") return;
        // What was decided here counts no more where the person has thought again in another tab.
        setVerdicts((old) => (old.has(message.item) ? new Map(old).set(message.item, message.verdict) : old));
        trail.current = trail.current.filter((one) => one.item.itemId !== message.item);
      }),
    [],
  );
  const keep = (item: QueueItem, review: Review | null) => {
    const { queryKey } = reviewsQuery(item);
    const others = (old: Review[] | undefined) => (old ?? []).filter((one) => one.id !== review?.id);
    if (review === null) void queries.invalidateQueries({ queryKey });
    else queries.setQueryData(queryKey, (old) => [...others(old), review]);
  };
  const verdict = useWrite<Decision, Review>({
    what: "The verdict",
    scope: "review",
    send: ({ item, body, isForced }) => {
      if (isForced) return giveReview(item, body);
      const { queryKey } = reviewsQuery(item);
      const known = queries.getQueryData(queryKey) ?? [];
      return giveUnlessUnseen(item, body, known, { read: readReviews, give: giveReview, onRead: (now) => queries.setQueryData(queryKey, now) });
    },
    onSaved: (review, decision) => {
      const { item, typed } = decision;
      keep(item, review);
      if (!undone.current.has(decision)) settleDraft(item, typed);
      countAgain(item);
    },
    onFailed: (error, decision) => {
      show(decision.item.itemId, decision.before);
      notice.set(null); // it says that the verdict is given, and its "Undo" would take back another one
      trail.current = trail.current.filter((one) => one !== decision);
      const theirs = error instanceof UnseenReviews ? error.theirs : null;
      const problem = { decision, theirs, text: describeFailure(error, "The verdict", role) };
      setProblems((old) => [...old.filter((one) => one.decision.item.itemId !== decision.item.itemId), problem]);
    },
  });
  const undo = useWrite<Decision, { review: Review | null }>({
    what: "Undoing the verdict",
    scope: "review",
    send: ({ item }) => undoReview(item),
    onSaved: ({ review }, { item }) => {
      keep(item, review);
      countAgain(item);
    },
    onFailed: (error, decision) => {
      settleDraft(decision.item, decision.typed);
      show(decision.item.itemId, decision.body.verdict);
      setProblems((old) => [...old, { decision, theirs: null, text: describeFailure(error, "Undoing the verdict", role) }]);
    },
  });
  const start = (decision: Decision) => {
    show(decision.item.itemId, decision.body.verdict);
    trail.current.push(decision);
    setDecidedAt((old) => [...old, Date.now()]);
    setProblems((old) => old.filter((one) => one.decision.item.itemId !== decision.item.itemId));
    verdict.save(decision);
  };
  return {
    verdicts,
    decidedAt,
    problems,
    decide: (item, body) => {
      const before = verdicts.get(item.itemId) ?? null;
      start({ item, body, typed: typedAbout(item), before, isForced: false });
    },
    resend: ({ decision }) => start({ ...decision, isForced: true }),
    drop: (problem) => setProblems((old) => old.filter((one) => one !== problem)),
    undo: () => {
      const last = trail.current.pop();
      if (last === undefined) return null;
      show(last.item.itemId, last.before);
      undone.current.add(last);
      restoreDraft(last.item, last.typed);
      setDecidedAt((old) => old.slice(0, -1));
      undo.save(last);
      return last.item;
    },
  };
}
