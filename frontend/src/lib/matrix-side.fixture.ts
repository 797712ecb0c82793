/** A run for tests of matrices. */
import type { ItemAttributesAnswer } from "../api/queries";
import { readOutline } from "./outline";
import type { Side } from "./pairing";

/** A run whose items have these outcomes, a letter each: p pass, f fail, e error, u not judged. */
export function side(outcomes: string, attributes: Partial<ItemAttributesAnswer> = {}, scored: string = "pf"): Side {
  const ordinals = [...outcomes].map((_, index) => index);
  const repetitions = ordinals.map(() => 0);
  const outline = readOutline({
    ordinals,
    repetitions,
    outcomes,
    latenciesMs: ordinals.map(() => null),
    evaluators: [{
      evaluatorName: "exact",
      scores: [...outcomes].map((one) => (scored.includes(one) ? Number(one === "p") : null)),
      outcomes: outcomes.replaceAll(/[eu]/g, "-"),
    }],
    excludedEvaluators: [],
  });
  return { outline, attributes: { ordinals, repetitions, datasetItemIds: [], lineageIds: [], exampleIds: [], metadata: [], ...attributes } };
}
