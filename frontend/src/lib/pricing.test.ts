import { describe, expect, it } from "vitest";
import { NOTHING_PRICED, addPriced, costInWords, leastCost, unpricedNote } from "./pricing";

const partly = { costUsd: 0.012, pricedCallCount: 3, unpricedCallCount: 2 };

describe("a cost", () => {
  it("says how many calls are missing in it", () => {
    expect(costInWords(partly)).toBe("at least $0.0120 (2 of 5 calls unpriced)");
    expect(leastCost(partly)).toBe("≥ $0.0120");
    expect(unpricedNote(partly)).toBe("2 of 5 calls unpriced");
  });

  it("is the cost where each call has a price, or nobody has counted them", () => {
    for (const whole of [{ ...partly, unpricedCallCount: 0 }, { costUsd: 0.012, pricedCallCount: null, unpricedCallCount: null }]) {
      expect([costInWords(whole), leastCost(whole), unpricedNote(whole)]).toEqual(["$0.0120", "$0.0120", ""]);
    }
  });

  it("is not a sum where no call has a price", () => {
    const none = { costUsd: null, pricedCallCount: 0, unpricedCallCount: 4 };
    expect([costInWords(none), leastCost(none), unpricedNote(none)]).toEqual(["unpriced", "unpriced", ""]);
  });

  it("is added to others with what is missing in it", () => {
    expect(addPriced(partly, { costUsd: null, pricedCallCount: 0, unpricedCallCount: 1 })).toEqual({ costUsd: 0.012, pricedCallCount: 3, unpricedCallCount: 3 });
    expect(addPriced(NOTHING_PRICED, partly)).toEqual(partly);
  });
});
