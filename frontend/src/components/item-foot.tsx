/** The foot of an item of a run: what somebody says about it, and where it goes from here. */
import { useQuery } from "@tanstack/react-query";
import { type RefObject, useEffect, useLayoutEffect, useRef, useState } from "react";
import type { Item, Run } from "../api/queries";
import { mayWrite, sessionQuery } from "../api/session";
import { commandOf, nameOf } from "../lib/items";
import { type KeyLine, type Keys, useKeyHelp } from "../lib/keys";
import { VERDICTS } from "../lib/review";
import { ReviewFaults, ReviewFields, VerdictChips, useItemReview } from "./item-review";
import { PromoteForm } from "./promote-form";

const REVIEW_KEYS: readonly KeyLine[] = [
  ["1 2 3", "correct, incorrect, unsure"],
  ["e", "correct the expected output"],
  ["p", "promote into a dataset"],
];
const NO_KEYS: readonly KeyLine[] = [];

interface Props {
  readonly run: Run;
  readonly item: Item;
  readonly version: string;
  /** What the keys of the drawer do, for the drawer to call. */
  readonly keys: RefObject<Keys>;
}

export function ItemFoot({ run, item, version, keys }: Props) {
  const session = useQuery(sessionQuery);
  const isAllowed = mayWrite(session.data);
  const review = useItemReview(run, item, version);
  const [isPromoting, setIsPromoting] = useState(false);
  const promote = useRef<HTMLButtonElement>(null);
  const correct = useRef<HTMLButtonElement>(null);
  const wasPromoting = useRef(false);
  // The keys of the drawer are heard in it alone: the focus must not go with the form.
  useEffect(() => {
    if (wasPromoting.current && !isPromoting && document.activeElement === document.body) promote.current?.focus();
    wasPromoting.current = isPromoting;
  }, [isPromoting]);
  useKeyHelp("In an item", isAllowed ? REVIEW_KEYS : NO_KEYS);
  useLayoutEffect(() => {
    keys.current = isAllowed ? {
      ...Object.fromEntries(VERDICTS.map(({ key, verdict }) => [key, () => review.decide(verdict)])),
      e: review.correct,
      p: () => setIsPromoting(true),
    } : {};
  });
  const testCase = JSON.stringify({
    id: nameOf(item),
    inputs: item.input,
    ...(item.expectedOutput === null ? {} : { expectedOutputs: item.expectedOutput }),
  });
  const command = commandOf(item, run.provenance);
  return (
    <div className="drawer-foot">
      {isAllowed && (
        <>
          <ReviewFields review={review} onLeave={() => correct.current?.focus()} />
          <VerdictChips review={review} />
          <button ref={correct} type="button" className="btn" aria-expanded={review.draft.expected !== null} onClick={review.correct}>Correct expected<kbd>e</kbd></button>
          <button ref={promote} type="button" className="btn" aria-expanded={isPromoting} onClick={() => setIsPromoting(!isPromoting)}>Promote<kbd>p</kbd></button>
        </>
      )}
      <CopyButton text={testCase}>Copy as test case</CopyButton>
      {command !== null && <CopyButton text={command}>Copy as command</CopyButton>}
      <CopyButton text={location.href}>Copy link</CopyButton>
      {isAllowed && <ReviewFaults review={review} />}
      {isPromoting && <PromoteForm itemId={item.id} correction={review.correction} onPromoted={review.notePromotion} onClose={() => setIsPromoting(false)} />}
    </div>
  );
}

function CopyButton({ text, children }: { text: string; children: string }) {
  const [said, setSaid] = useState("");
  return (
    <button
      type="button"
      className="btn"
      onClick={() => {
        navigator.clipboard.writeText(text).then(() => setSaid("Copied"), () => setSaid("The browser refused"));
      }}
    >
      {said || children}
    </button>
  );
}
