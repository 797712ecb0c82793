/** Which items of a comparison an evaluator sees differently: by its verdict, and by how far its score moved. */
import { type PairedItem, type Pairing, changeOf, verdictShare } from "./pairing";

export const CHANGES = ["verdict", "failed", "passed", "worse", "better"] as const;
/** What became of an item: its verdict crossed the threshold, in any or in one direction, or its score moved in one. */
export type Change = (typeof CHANGES)[number];

export interface ChangeFilter {
  /** The evaluator whose score changed; any evaluator where it is not set. */
  readonly evaluator?: string | undefined;
  readonly change?: Change | undefined;
  /** By how much its score is to have moved at least. */
  readonly least?: number | undefined;
}

export const narrowsChanges = ({ evaluator, change, least }: ChangeFilter): boolean =>
  evaluator !== undefined || change !== undefined || (least ?? 0) > 0;

/** The items that changed like that in any of the runs against the baseline: all of it by one evaluator, in one run. */
export function filterChanges(pairing: Pairing, items: readonly PairedItem[], filter: ChangeFilter): readonly PairedItem[] {
  if (!narrowsChanges(filter)) return items;
  const evaluators = filter.evaluator === undefined ? pairing.evaluators : [filter.evaluator];
  return items.filter((item) =>
    item.cells.some((_, run) => run > 0 && evaluators.some((name) => isChanged(pairing, item, name, run, filter))));
}

// Scores are decimals, as is what somebody types: 0.3 - 0.2 is to be 0.1.
const DUST = 1e-9;

function isChanged(pairing: Pairing, item: PairedItem, name: string, run: number, { change, least = 0 }: ChangeFilter): boolean {
  const moved = changeOf(pairing.scores, name, item.cells, run);
  const crossed = crossingOf(pairing, item, name, run);
  if (least > 0 && (moved === null || Math.abs(moved) < least - DUST)) return false;
  if (change === undefined) return Math.abs(moved ?? 0) > DUST || crossed !== 0;
  if (change === "verdict") return crossed !== 0;
  if (change === "failed" || change === "passed") return crossed === (change === "failed" ? -1 : 1);
  const gain = (moved ?? 0) * (pairing.lowerIsBetter.has(name) ? -1 : 1);
  return change === "worse" ? gain < -DUST : gain > DUST;
}

/** Whether the verdict of an evaluator became worse (-1) or better (1); of repeats, whether fewer or more of them passed. */
function crossingOf(pairing: Pairing, item: PairedItem, name: string, run: number): -1 | 0 | 1 {
  const before = verdictShare(pairing.sides[0], name, item.cells[0]);
  const now = verdictShare(pairing.sides[run], name, item.cells[run]);
  if (before === null || now === null || before === now) return 0;
  return now < before ? -1 : 1;
}
