/**
 * What somebody has typed about an item but not sent: kept like that of a form, so that closing or reloading the page asks
 * first, until a verdict with it is saved.
 */
import type { ItemPlace, QueueItem, Review, ReviewBody } from "../api/reviews";
import * as drafts from "./drafts";
import { type Correctable, type Verdict, type fromEditable, fromCorrectable, toCorrectable } from "./review";

export interface Draft {
  readonly note: string;
  /** The corrected expected output as text; null where nobody corrects it. */
  readonly expected: string | null;
  /** Whether that is all of it as JSON, rather than its main text. */
  readonly isWhole?: boolean;
  readonly labels: Readonly<Record<string, unknown>>;
}

/** An item that somebody reviews, in the queue or beside its run. */
export type ReviewedItem = Pick<QueueItem, "runId" | "itemId" | "expectedOutput" | "actualOutput">;

/** Of the keys of all drafts about items; the run follows it, with which they go. */
export const REVIEW_DRAFTS = "review:";
export const draftsOfRun = (run: string): string => `${REVIEW_DRAFTS}${run}:`;
const keyOf = ({ runId, itemId }: ItemPlace): string => draftsOfRun(runId) + itemId;

/** What is typed about an item and kept; undefined where nothing is. */
export const typedAbout = (item: ItemPlace): Draft | undefined => drafts.readDraft<Draft>(keyOf(item));

/** The draft of an item; before something is typed, what the reviewer said last. */
export const readDraft = (item: ReviewedItem, mine: Review | undefined): Draft => typedAbout(item) ?? lastSaid(item, mine);

/** A draft in which somebody begins to correct the expected output. */
export const startCorrection = (item: ReviewedItem, draft: Draft, mine: Review | undefined): Draft =>
  ({ ...draft, expected: correctableOf(item, mine).text });

/** What is corrected of an item: what the reviewer corrected it to last, or else what was expected. */
export function correctableOf(item: ReviewedItem, mine: Review | undefined, draft?: Draft): Correctable {
  const correctable = toCorrectable(mine?.overriddenExpectedOutput ?? item.expectedOutput, item.actualOutput);
  return draft?.isWhole === true ? { ...correctable, key: null, rest: {} } : correctable;
}

/** The same correction as JSON, where what stands beside the main text is wrong, too. */
export function correctWhole(item: ReviewedItem, draft: Draft, mine: Review | undefined): Draft {
  const correction = readCorrection(item, draft, mine);
  return correction !== null && "value" in correction ? { ...draft, expected: JSON.stringify(correction.value, null, 2), isWhole: true } : draft;
}

export function lastSaid(item: ReviewedItem, mine: Review | undefined): Draft {
  const corrected = mine?.overriddenExpectedOutput ?? null;
  return {
    note: mine?.note ?? "",
    expected: corrected === null ? null : toCorrectable(corrected, item.actualOutput).text,
    labels: Object.fromEntries(Object.entries(mine?.labels ?? {}).map(([name, said]) => [name, valueOf(said)])),
  };
}

/** What was said with a label, which comes with the version of its definition. */
function valueOf(said: unknown): unknown {
  return typeof said === "object" && said !== null && "value" in said ? said.value : said;
}

/** Keeps what is typed. Nothing is lost with what the reviewer said last, nor with a correction that is only begun. */
export function keepDraft(item: ReviewedItem, draft: Draft, mine: Review | undefined): void {
  const said = lastSaid(item, mine);
  const isBegun = said.expected === null && draft.expected === toCorrectable(item.expectedOutput, item.actualOutput).text;
  if (isSame(isBegun ? { ...draft, expected: null } : draft, said)) drafts.dropDraft(keyOf(item));
  else drafts.keepDraft(keyOf(item), draft);
}

/** Drops what is saved with a verdict; what was typed meanwhile stays. */
export function settleDraft(item: ItemPlace, sent: Draft | undefined): void {
  const now = typedAbout(item);
  if (now !== undefined && sent !== undefined && isSame(now, sent)) drafts.dropDraft(keyOf(item));
}

/** What was typed for a verdict is typed again once that is taken back; what was typed since then stays. */
export function restoreDraft(item: ItemPlace, sent: Draft | undefined): void {
  if (sent !== undefined && typedAbout(item) === undefined) drafts.keepDraft(keyOf(item), sent);
}

function isSame(one: Draft, other: Draft): boolean {
  const labels = ({ labels: said }: Draft) => JSON.stringify(Object.entries(givenLabels(said)).sort(([a], [b]) => (a < b ? -1 : 1)));
  return one.note === other.note && one.expected === other.expected && labels(one) === labels(other);
}

const givenLabels = (labels: Draft["labels"]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== "" && value !== undefined));

/** The correction of a draft, null without one; or what is wrong with it. */
export function readCorrection(item: ReviewedItem, draft: Draft, mine: Review | undefined): ReturnType<typeof fromEditable> | null {
  if (draft.expected === null) return null;
  return fromCorrectable(draft.expected, correctableOf(item, mine, draft));
}

/** The body of a review; a string says what is wrong with the draft. */
export function toReview(item: ReviewedItem, draft: Draft, verdict: Verdict, mine: Review | undefined): ReviewBody | string {
  const correction = readCorrection(item, draft, mine);
  if (correction !== null && "fault" in correction) return correction.fault;
  return {
    verdict,
    overriddenExpectedOutput: correction === null ? null : { ...correction.value },
    note: draft.note.trim() === "" ? null : draft.note,
    labels: givenLabels(draft.labels),
  };
}
