import { describe, expect, it } from "vitest";
import { placeOfEvidence, ticksOfEvidence } from "./evidence";

describe("the scale of evidence", () => {
  it("is logarithmic, and takes nothing and too much", () => {
    expect(placeOfEvidence(0, 1000)).toBe(0);
    expect(placeOfEvidence(10, 1000)).toBeCloseTo(0.5);
    expect(placeOfEvidence(1e300, 1000)).toBe(1);
  });

  it("has few ticks, however much evidence there is", () => {
    expect(ticksOfEvidence(730)).toEqual([0.1, 1, 10, 100]);
    expect(ticksOfEvidence(1e300).length).toBeLessThanOrEqual(8);
    expect(ticksOfEvidence(1e300).every((tick) => tick <= 1e300)).toBe(true);
  });
});
