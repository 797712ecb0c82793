/** A run for tests of what pairs runs. */
import type { ItemAttributesAnswer, OutlineAnswer } from "../api/queries";
import { readOutline } from "./outline";
import type { Side } from "./pairing";

interface Given {
  /** Of each item, by the one evaluator; by default 1 for a pass and 0 for a failure. */
  readonly scores?: readonly (number | null)[];
  readonly outline?: Partial<OutlineAnswer>;
  readonly attributes?: Partial<ItemAttributesAnswer>;
}

const SCORES: Readonly<Record<string, number>> = { p: 1, f: 0 };

/** A run whose items have these outcomes, a letter each: p pass, f fail, e error, u not judged. */
export function side(outcomes: string, given: Given = {}): Side {
  const ordinals = [...outcomes].map((_, index) => index);
  const repetitions = ordinals.map(() => 0);
  const outline = readOutline({
    ordinals,
    repetitions,
    outcomes,
    latenciesMs: ordinals.map(() => null),
    evaluators: [{
      evaluatorName: "exact",
      scores: [...(given.scores ?? [...outcomes].map((one) => SCORES[one] ?? null))],
      outcomes: outcomes.replaceAll(/[eu]/g, "-"),
    }],
    excludedEvaluators: [],
    ...given.outline,
  });
  return { outline, attributes: { ordinals, repetitions, datasetItemIds: [], lineageIds: [], exampleIds: [], metadata: [], ...given.attributes } };
}
