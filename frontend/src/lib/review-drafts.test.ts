import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { QueueItem, Review } from "../api/reviews";
import { dropDrafts, hasDrafts, hideDrafts, noteWhether } from "./drafts";
import { correctWhole, draftsOfRun, keepDraft, readCorrection, readDraft, restoreDraft, settleDraft, startCorrection, typedAbout } from "./review-drafts";

const item = { runId: "r", itemId: "1", expectedOutput: { output: "Paris" }, actualOutput: { output: "It is Paris" } } as unknown as QueueItem;
const mine = { note: "old", overriddenExpectedOutput: null, labels: { tone: { value: "kind", version: 1 }, depth: { value: 2, version: 1 } } } as unknown as Review;
const said = { note: "old", expected: null, labels: { tone: "kind", depth: 2 } };

beforeEach(dropDrafts);
afterEach(() => hideDrafts(false));

describe("what is typed about an item", () => {
  it("is lost with the page until a verdict with it is saved", () => {
    const typed = { ...said, note: "new" };
    keepDraft(item, typed, mine);

    expect(hasDrafts()).toBe(true);
    expect(readDraft(item, mine)).toEqual(typed);
    settleDraft(item, typed);
    expect(hasDrafts()).toBe(false);
    expect(readDraft(item, mine)).toEqual(said);
  });

  it.each([
    ["is what was said last", { ...said, labels: { depth: 2, tone: "kind" } }, mine],
    ["has a label that is empty again", { note: "", expected: null, labels: { tone: "" } }, undefined],
    ["is a correction that is only begun", { ...said, expected: "Paris" }, mine],
  ])("loses nothing where it %s", (_, typed, before) => {
    keepDraft(item, { ...typed, note: "something" }, before);
    keepDraft(item, typed, before);

    expect(hasDrafts()).toBe(false);
  });

  it("stays where it was typed while the verdict was being saved", () => {
    const sent = { ...said, note: "sent" };
    keepDraft(item, sent, mine);
    keepDraft(item, { ...said, note: "sent, and more" }, mine);
    settleDraft(item, sent);

    expect(typedAbout(item)?.note).toBe("sent, and more");
  });

  it("is typed again once the verdict is taken back, unless something else was typed", () => {
    restoreDraft(item, { ...said, note: "sent" });
    restoreDraft(item, { ...said, note: "older" });

    expect(typedAbout(item)?.note).toBe("sent");
    expect(hasDrafts()).toBe(true);
  });

  it("is not lost with the page where the run of the item is gone, unless somebody types on", () => {
    keepDraft(item, { ...said, note: "new" }, mine);
    noteWhether(false, draftsOfRun("another"));
    expect(hasDrafts()).toBe(true);
    noteWhether(false, draftsOfRun("r"));
    expect(hasDrafts()).toBe(false);
    expect(typedAbout(item)?.note).toBe("new");

    noteWhether(true, draftsOfRun("r")); // who was signed out sees it again
    expect(hasDrafts()).toBe(true);
  });

  it("begins a correction with what was corrected last, or else with what was expected", () => {
    const corrected = { ...mine, overriddenExpectedOutput: { output: "Lyon" } } as unknown as Review;

    expect(startCorrection(item, said, mine).expected).toBe("Paris");
    expect(startCorrection(item, said, corrected).expected).toBe("Lyon");
    expect(startCorrection({ ...item, expectedOutput: null }, said, undefined).expected).toBe("");
  });

  it("corrects the main text, or all of it as JSON", () => {
    const found = { ...item, expectedOutput: { output: "15", relevant: ["card"] } };
    const typed = { ...said, expected: "16" };
    const whole = correctWhole(found, typed, mine);

    expect(readCorrection(found, typed, mine)).toEqual({ value: { output: "16", relevant: ["card"] } });
    expect(JSON.parse(whole.expected ?? "")).toEqual({ output: "16", relevant: ["card"] });
    expect(readCorrection(found, { ...whole, expected: '{"output": "16"}' }, mine)).toEqual({ value: { output: "16" } });
    expect(correctWhole(found, { ...whole, expected: "{" }, mine).expected).toBe("{");
  });

  it("is out of sight while nobody is signed in", () => {
    keepDraft(item, { ...said, note: "new" }, mine);
    hideDrafts(true);

    expect(readDraft(item, mine)).toEqual(said);
  });
});
