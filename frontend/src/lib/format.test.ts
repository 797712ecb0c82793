import { describe, expect, it } from "vitest";
import { ago, cost, cut, duration, percent, points, rate, score, shown, textOf, time } from "./format";
import { compareWords } from "./words";

describe("numbers", () => {
  it("never says 100 % of nothing", () => {
    expect([rate(null), score(undefined), points(null), duration(null)]).toEqual(["–", "–", "–", "–"]);
    expect(cost(null)).toBe("unpriced");
  });

  it("has fixed decimals and a minus sign", () => {
    expect([rate(0.863), score(-0.5), score(-0.001), points(-0.061), points(0.02), points(-0.0001)]).toEqual([
      "86.3 %", "−0.50", "0.00", "−6.1", "+2.0", "0.0",
    ]);
    expect(cost(0.1874)).toBe("$0.1874");
  });

  it("says by how many percent something changed, where there is something to compare with", () => {
    expect([percent(200, 100), percent(100, 112), percent(100, 100.1), percent(0, 1), percent(null, 1)]).toEqual(["−50 %", "+12 %", "±0 %", "", ""]);
  });

  it("writes durations with three digits", () => {
    expect([840, 1_840, 61_200, 125_000, 7_500_000].map(duration)).toEqual([
      "840 ms", "1.84 s", "61.2 s", "2 min 5 s", "2 h 5 min",
    ]);
  });

  it("names the year where it is another one", () => {
    expect(time("2026-11-22T12:00:00Z", new Date("2026-12-01T00:00:00Z"))).toMatch(/^22 Nov, \d\d:00$/);
    expect(time("2025-11-22T12:00:00Z", new Date("2026-12-01T00:00:00Z"))).toMatch(/^22 Nov 2025, /);
  });
});

describe("text from models", () => {
  it("shows overrides of direction, NUL and terminal codes as what they are", () => {
    expect(shown("a\u202eb\u0000c\u001b[31m")).toBe("a⟨U+202E⟩b⟨U+0000⟩c⟨U+001B⟩[31m");
    expect(shown("line\n\ttab")).toBe("line\n\ttab");
  });

  it("is cut to one line", () => {
    expect(cut("a  b\nc", 10)).toBe("a b c");
    expect(cut("x".repeat(1_000_000), 5)).toBe("xxxxx…");
  });

  it("is the single text of a map, or JSON", () => {
    expect(textOf({ answer: "30 days" })).toBe("30 days");
    expect(textOf({ output: "9:00", context: ["…"] })).toBe("9:00");
    expect(textOf({ a: 1, b: [2] })).toBe('{\n  "a": 1,\n  "b": [\n    2\n  ]\n}');
    expect(textOf(null)).toBe("");
  });
});

describe("how long ago something was", () => {
  const now = new Date("2026-11-22T22:14:00Z");
  it.each([
    ["2026-11-22T22:13:01Z", "just now"], ["2026-11-22T22:15:00Z", "just now"], ["2026-11-22T22:13:00Z", "1 minute ago"],
    ["2026-11-22T21:14:01Z", "59 minutes ago"], ["2026-11-22T21:14:00Z", "1 hour ago"], ["2026-11-21T22:14:01Z", "23 hours ago"],
    ["2026-11-21T22:14:00Z", time("2026-11-21T22:14:00Z", now)],
  ])("is said of %s as %s", (value, said) => {
    expect(ago(value, now)).toBe(said);
  });
});

describe("differences of words", () => {
  it("marks the words that only one text has", () => {
    const [left, right] = compareWords("within 30 days", "within 60 days") ?? [[], []];
    expect(left.filter((piece) => piece.differs).map((piece) => piece.text)).toEqual(["30"]);
    expect(right.filter((piece) => piece.differs).map((piece) => piece.text)).toEqual(["60"]);
    expect(right.map((piece) => piece.text).join("")).toBe("within 60 days");
  });

  it("gives up on texts that are too long for a page", () => {
    expect(compareWords("a ".repeat(5_000), "b")).toBeNull();
  });
});
