/** Verdicts that the person of this browser has given by now, in any of its tabs, by item: queues read before have them not. */
import { makeStore } from "./store";
import type { Verdict } from "./review";
import type { Reviewed } from "./tabs";

export const givenVerdicts = makeStore<ReadonlyMap<string, Verdict | null>>(new Map());

export function noteVerdict({ item, verdict }: Pick<Reviewed, "item" | "verdict">): void {
  givenVerdicts.set(new Map(givenVerdicts.get()).set(item, verdict));
}
