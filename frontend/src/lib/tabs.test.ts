import { describe, expect, it } from "vitest";
import { readMessage } from "./tabs";

describe("what another tab says", () => {
  it("is heard where it is understood", () => {
    expect(readMessage({ kind: "signed-out", more: 1 })).toEqual({ kind: "signed-out" });
    expect(readMessage({ kind: "changed", keys: [["run", "1"], [], "all", null] })).toEqual({ kind: "changed", keys: [["run", "1"]] });
    expect([null, "signed-out", { kind: "burn" }, { kind: "changed", keys: "all" }].map(readMessage)).toEqual([null, null, null, null]);
  });

  it("about a review names the item and a verdict that this version knows, or none", () => {
    const said = { kind: "reviewed", run: "1", item: "2", verdict: "CORRECT" };
    expect(readMessage(said)).toEqual(said);
    expect(readMessage({ ...said, verdict: null })).toEqual({ ...said, verdict: null });
    expect([{ ...said, verdict: "SPLENDID" }, { ...said, item: 2 }, { ...said, verdict: undefined }].map(readMessage)).toEqual([null, null, null]);
  });
});
