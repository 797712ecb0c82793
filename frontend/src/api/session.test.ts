import { describe, expect, it } from "vitest";
import { isSomebodyElse, personOf } from "./session";

describe("who signs in", () => {
  it("is somebody else only where another one had signed in before", () => {
    expect(isSomebodyElse("ben", "ann")).toBe(true);
    expect(isSomebodyElse("ann", "ann")).toBe(false);
    expect(isSomebodyElse(null, "ann")).toBe(false);
    expect(isSomebodyElse("ann", null)).toBe(false);
  });

  it("is nobody on an open server, where all are the same", () => {
    expect(personOf({ isAuthenticated: true, needsKey: false, id: "open" })).toBeNull();
    expect(personOf({ isAuthenticated: false, needsKey: true, id: "anonymous" })).toBeNull();
    expect(personOf({ isAuthenticated: true, needsKey: true, id: "ann" })).toBe("ann");
  });
});
