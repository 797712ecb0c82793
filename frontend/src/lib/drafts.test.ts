import { afterEach, describe, expect, it, vi } from "vitest";
import { dropDraft, dropDrafts, keepDraft, readDraft } from "./drafts";

afterEach(() => {
  dropDrafts();
  vi.unstubAllGlobals();
});

describe("what is typed", () => {
  it("is kept by what it is for until it is saved or given up", () => {
    keepDraft("rule:1", { name: "a" });
    keepDraft("rule:2", { name: "b" });
    dropDraft("rule:1");

    expect(readDraft("rule:1")).toBeUndefined();
    expect(readDraft("rule:2")).toEqual({ name: "b" });
    dropDrafts();
    expect(readDraft("rule:2")).toBeUndefined();
  });

  it("lets the page ask before it is closed, as long as something would be lost", () => {
    const page = new EventTarget();
    vi.stubGlobal("window", page);
    const asks = () => {
      const event = new Event("beforeunload", { cancelable: true });
      page.dispatchEvent(event);
      return event.defaultPrevented;
    };

    expect(asks()).toBe(false);
    keepDraft("rule:1", "a");
    keepDraft("rule:2", "b");
    dropDraft("rule:1");
    expect(asks()).toBe(true);
    dropDraft("rule:2");
    expect(asks()).toBe(false);
  });
});
