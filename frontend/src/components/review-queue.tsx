/** What stands around the item that is judged: the list of those that wait, the progress, the keys. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import type { QueueItem } from "../api/reviews";
import { sessionQuery } from "../api/session";
import { count, cut, plural, shown, textOf } from "../lib/format";
import { type KeyLine, isKeyHelpOpen } from "../lib/keys";
import { VERDICTS, type Verdict, estimateMinutes } from "../lib/review";
import type { Decisions } from "../lib/use-decisions";

interface ListProps {
  readonly items: readonly QueueItem[];
  readonly current: string;
  readonly total: number;
  readonly verdictOf: (item: QueueItem) => Verdict | null;
  readonly onShow: (id: string) => void;
}

export function QueueList({ items, current, total, verdictOf, onShow }: ListProps) {
  const me = useQuery(sessionQuery).data?.id;
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [current]);
  const more = total - items.length;
  return (
    <ol className="queue hide-s" aria-label="Queue" tabIndex={0} ref={list}>
      {items.map((item) => {
        const verdict = VERDICTS.find((one) => one.verdict === (verdictOf(item) ?? item.currentVerdict));
        const isOthers = item.claim !== null && item.claim.reviewer !== me;
        return (
          <li key={item.itemId} aria-current={item.itemId === current ? true : undefined}>
            <span className={verdict?.style ?? "none"} title={verdict?.word}>{verdict?.sign ?? "·"}</span>
            <button type="button" tabIndex={-1} className="cut" onClick={() => onShow(item.itemId)}>
              {shown(cut(textOf(item.input), 120))}
              {isOthers && <span className="sub">{item.claim?.expiresAt === null ? "assigned to" : "claimed by"} {shown(item.claim?.reviewerName ?? "somebody else")}</span>}
            </button>
          </li>
        );
      })}
      {more > 0 && <li className="more">{count(more)} more</li>}
    </ol>
  );
}

export function Progress({ decisions, left }: { decisions: Decisions; left: number }) {
  const given = [...decisions.verdicts.values()];
  const number = (verdict: Verdict) => given.filter((one) => one === verdict).length;
  const correct = number("CORRECT");
  const incorrect = number("INCORRECT");
  const unsure = number("UNSURE");
  const done = correct + incorrect + unsure;
  const total = done + left;
  const unit = 1000 / Math.max(total, 1);
  const minutes = estimateMinutes(decisions.decidedAt, left);
  return (
    <>
      <svg className="outcomes" viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true">
        <rect className="f-none" width="1000" height="8" />
        <rect className="f-pass" width={correct * unit} height="8" />
        <rect className="f-fail" x={correct * unit} width={incorrect * unit} height="8" />
      </svg>
      <p className="counts">
        <span><b>{count(done)}</b> of {count(total)} reviewed</span>
        {done > 0 && <span className="none"><span className="pass">✓ {correct}</span> <span className="fail">✗ {incorrect}</span> – {unsure}</span>}
        {minutes !== null && <span className="none">about {plural(minutes, "minute")} left</span>}
      </p>
    </>
  );
}

export const REVIEW_KEYS: readonly KeyLine[] = [
  ["j k", "next, previous item"],
  ["1 2 3", "correct, incorrect, unsure, and on to the next"],
  ["e", "correct the expected output"],
  ["c", "comment"],
  ["p", "promote to a dataset"],
  ["u", "undo the last verdict"],
  ["i", "open, fold the instructions"],
];

export function KeysLine() {
  return (
    <p className="keysline">
      {REVIEW_KEYS.map(([keys, text]) => (
        <span key={keys}>{keys.split(" ").map((key) => <kbd key={key}>{key}</kbd>)} {text}</span>
      ))}
      <button type="button" className="plain-button" onClick={() => isKeyHelpOpen.set(true)}><kbd>?</kbd> all keys</button>
    </p>
  );
}
