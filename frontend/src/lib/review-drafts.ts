/** What somebody has typed about an item but not sent: kept as long as the page is open, wherever they go in it. */
import type { QueueItem, Review, ReviewBody } from "../api/reviews";
import { areDraftsHidden } from "./drafts";
import { type Verdict, fromEditable, toEditable } from "./review";

export interface Draft {
  readonly note: string;
  /** The corrected expected output as text; null where nobody corrects it. */
  readonly expected: string | null;
  readonly labels: Readonly<Record<string, unknown>>;
}

const kept = new Map<string, Draft>();

/** The draft of an item; before something is typed, what the reviewer said last. */
export function readDraft(item: QueueItem, mine: Review | undefined): Draft {
  const draft = areDraftsHidden() ? undefined : kept.get(item.itemId);
  if (draft !== undefined) return draft;
  const corrected = mine?.overriddenExpectedOutput ?? null;
  return {
    note: mine?.note ?? "",
    expected: corrected === null ? null : toEditable(corrected, item.actualOutput).text,
    labels: Object.fromEntries(Object.entries(mine?.labels ?? {}).map(([name, said]) => [name, valueOf(said)])),
  };
}

/** What was said with a label, which comes with the version of its definition. */
function valueOf(said: unknown): unknown {
  return typeof said === "object" && said !== null && "value" in said ? said.value : said;
}

export function keepDraft(id: string, draft: Draft): void {
  kept.set(id, draft);
}

/** The correction of a draft, null without one; or what is wrong with it. */
export function readCorrection(item: QueueItem, draft: Draft, mine: Review | undefined): ReturnType<typeof fromEditable> | null {
  if (draft.expected === null) return null;
  const editable = toEditable(mine?.overriddenExpectedOutput ?? item.expectedOutput, item.actualOutput);
  return fromEditable(draft.expected, editable.key);
}

/** The body of a review; a string says what is wrong with the draft. */
export function toReview(item: QueueItem, draft: Draft, verdict: Verdict, mine: Review | undefined): ReviewBody | string {
  const correction = readCorrection(item, draft, mine);
  if (correction !== null && "fault" in correction) return correction.fault;
  const labels = Object.fromEntries(Object.entries(draft.labels).filter(([, value]) => value !== "" && value !== undefined));
  return {
    verdict,
    overriddenExpectedOutput: correction === null ? null : { ...correction.value },
    note: draft.note.trim() === "" ? null : draft.note,
    labels,
  };
}
