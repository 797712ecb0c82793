import { describe, expect, it } from "vitest";
import { readMessage } from "./tabs";

describe("what another tab says", () => {
  it("is heard where it is understood", () => {
    expect(readMessage({ kind: "signed-out", more: 1 })).toEqual({ kind: "signed-out" });
    expect(readMessage({ kind: "changed", keys: [["run", "1"], [], "all", null] })).toEqual({ kind: "changed", keys: [["run", "1"]] });
    expect([null, "signed-out", { kind: "burn" }, { kind: "changed", keys: "all" }].map(readMessage)).toEqual([null, null, null, null]);
  });
});
