import { describe, expect, it } from "vitest";
import { type Entry, groupEntries, listEntries, markWords, matchOnly, readId, stepThrough } from "./palette";

const page = (label: string, more: Partial<Entry> = {}): Entry => ({ kind: "page", key: label, label, ...more });

describe("entries of the palette", () => {
  it("match by each word, in label, note or id, those that begin with it first", () => {
    const entries = [page("LLM connections"), page("A trace"), page("Retrace"), page("Traces"), page("Rules", { note: "of traces" })];

    const [group] = groupEntries(entries, " TRACE ");

    expect(group?.entries.map((one) => one.label)).toEqual(["Traces", "A trace", "Retrace", "Rules"]);
    expect(groupEntries(entries, "trace rules")[0]?.entries.map((one) => one.label)).toEqual(["Rules"]);
  });

  it("stand once, in groups of a fixed order, and as many as have room", () => {
    const runs = Array.from({ length: 20 }, (_, n): Entry => ({ kind: "run", key: `run ${n % 10}`, label: `run ${n}` }));

    const groups = groupEntries([...runs, page("Runs of mine")], "run");

    expect(groups.map((one) => one.kind)).toEqual(["page", "run"]);
    expect(groups[1]?.entries.map((one) => one.key)).toEqual(["run 0", "run 1", "run 2", "run 3", "run 4", "run 5"]);
    expect(groups.map((one) => one.more)).toEqual([0, 4]);
  });

  it("are shown where the server found them by something that is not in sight", () => {
    expect(groupEntries([page("a", { isFound: true }), page("b")], "zzz")[0]?.entries).toHaveLength(1);
  });

  it("that were found for another text have to match by themselves", () => {
    const found = [page("capitals", { isFound: true }), page("nightly", { isFound: true })];

    expect(listEntries(matchOnly(found, true), "capit").map((one) => one.label)).toEqual(["capitals", "nightly"]);
    expect(listEntries(matchOnly(found, false), "capit").map((one) => one.label)).toEqual(["capitals"]);
  });

  it("mark what was typed in the text as it is shown", () => {
    expect(markWords("<b>\u202eRetry", "ret")).toEqual([
      { text: "<b>⟨U+202E⟩", isMarked: false },
      { text: "Ret", isMarked: true },
      { text: "ry", isMarked: false },
    ]);
    expect(markWords("İstanbul", "st")).toEqual([{ text: "İstanbul", isMarked: false }]);
  });

  it("are stepped through around the ends", () => {
    expect(stepThrough(["a", "b"], null, 1)).toBe("a");
    expect(stepThrough(["a", "b"], "b", 1)).toBe("a");
    expect(stepThrough(["a", "b"], "a", -1)).toBe("b");
    expect(stepThrough([], "a", 1)).toBeNull();
  });

  it("are asked for by a whole id alone", () => {
    expect(readId(" 01A5C9B2-0000-7000-8000-000000000001")?.kind).toBe("run");
    expect(readId("a".repeat(32))?.kind).toBe("trace");
    expect(readId("a".repeat(31))).toBeNull();
  });
});
