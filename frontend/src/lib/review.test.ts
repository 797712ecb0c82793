import { describe, expect, it } from "vitest";
import { estimateMinutes, findNeighbour, findNextOpen, findUnseen, fromCorrectable, fromEditable, sayCorrectable, toCorrectable, toEditable } from "./review";

describe("an expected output that somebody edits", () => {
  it.each([
    [{ answer: "Paris" }, { output: "?" }, { text: "Paris", key: "answer" }],
    [null, { answer: "Lima" }, { text: "", key: "answer" }],
    [null, { a: 1, b: 2 }, { text: "", key: "output" }],
    [{ a: 1 }, {}, { text: '{\n  "a": 1\n}', key: null }],
    [{ a: "x", b: "y" }, {}, { text: '{\n  "a": "x",\n  "b": "y"\n}', key: null }],
  ])("is its only text, or JSON", (expected, actual, editable) => {
    expect(toEditable(expected, actual)).toEqual(editable);
    if (expected !== null) expect(fromEditable(editable.text, editable.key)).toEqual({ value: expected });
  });

  it.each([
    [{ output: "15", relevant: ["card"] }, "16", { output: "16", relevant: ["card"] }, "; “relevant” stays as before"],
    [{ output: "15", unit: "€", relevant: [] }, "16", { output: "16", unit: "€", relevant: [] }, "; “unit”, “relevant” stay as before"],
    [{ output: "15" }, "16", { output: "16" }, ""],
    [{ output: { a: 1 }, b: 2 }, '{"a": 2}', { a: 2 }, " (as JSON)"],
    [null, "16", { answer: "16" }, ""],
  ])("is corrected in its main text, with what stands beside it as it was: %j", (expected, typed, corrected, said) => {
    const correctable = toCorrectable(expected, { answer: "?" });

    expect(fromCorrectable(typed, correctable)).toEqual({ value: corrected });
    expect(sayCorrectable(correctable)).toBe(said);
  });

  it.each(["[1]", "null", '"text"', "{", ""])("is refused where it is not an object", (text) => {
    expect(fromEditable(text, null)).toHaveProperty("fault");
  });
});

describe("what others said", () => {
  const known = [{ id: "a", updatedAt: "1" }];
  it("is unseen where it is new or has changed", () => {
    expect(findUnseen(known, known)).toEqual([]);
    expect(findUnseen([{ id: "a", updatedAt: "2" }, { id: "b", updatedAt: "1" }], known)).toHaveLength(2);
  });
});

describe("the way through the queue", () => {
  const ids = ["a", "b", "c"];
  it("ends at its ends", () => {
    expect(findNeighbour(ids, "c", 1)).toBeNull();
    expect(findNeighbour(ids, "a", -1)).toBeNull();
    expect(findNeighbour(ids, "b", 1)).toBe("c");
  });

  it("leads to what is open below, then above", () => {
    expect(findNextOpen(ids, "b", () => true)).toBe("c");
    expect(findNextOpen(ids, "c", (id) => id !== "c")).toBe("a");
    expect(findNextOpen(ids, "b", () => false)).toBeNull();
  });

  it("says how long the rest takes only after some items", () => {
    expect(estimateMinutes([0, 30_000], 10)).toBeNull();
    expect(estimateMinutes([0, 30_000, 60_000, 90_000], 10)).toBe(5);
  });
});
