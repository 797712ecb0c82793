import { afterEach, describe, expect, it, vi } from "vitest";
import { type Begun, dropDraft, dropDrafts, hideDrafts, keepDraft, noteGone, noteProjects, readDraft, settleDraft } from "./drafts";

/** Whether a page asks before it is closed. */
function watchPage(): () => boolean {
  const page = new EventTarget();
  vi.stubGlobal("window", page);
  return () => {
    const event = new Event("beforeunload", { cancelable: true });
    page.dispatchEvent(event);
    return event.defaultPrevented;
  };
}

afterEach(() => {
  hideDrafts(false);
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
    const asks = watchPage();

    expect(asks()).toBe(false);
    keepDraft("rule:1", "a");
    keepDraft("rule:2", "b");
    dropDraft("rule:1");
    expect(asks()).toBe(true);
    dropDraft("rule:2");
    expect(asks()).toBe(false);
  });

  it("asks for nothing that is not there any more, and is there again once that is", () => {
    const asks = watchPage();
    keepDraft("rule:p:1", "a");
    keepDraft("rule:p:new", "b");
    keepDraft("rule:q:1", "c");

    noteGone("rule:p:", ["2"]);
    expect(asks()).toBe(true);
    dropDraft("rule:p:new");
    dropDraft("rule:q:1");
    expect(asks()).toBe(false);
    noteGone("rule:p:", ["1", "2"]);
    expect([asks(), readDraft("rule:p:1")]).toEqual([true, "a"]);
  });

  it("asks for nothing of a project that was deleted", () => {
    const asks = watchPage();
    for (const key of ["alert:1:new", "acknowledge:1:f", "webhook:1:w", "instructions:shop", "settings:a:b"]) keepDraft(key, "x");

    noteProjects([{ id: "1", name: "other" }]);
    expect(asks()).toBe(true);
    noteProjects([{ id: "2", name: "other" }]);
    expect(asks()).toBe(false);
    noteProjects([{ id: "2", name: "a:b" }]);
    expect(asks()).toBe(true);
  });

  it("is read by nobody while nobody is signed in, and waits", () => {
    keepDraft("rule:1", "a");

    hideDrafts(true);
    expect(readDraft("rule:1")).toBeUndefined();
    hideDrafts(false);
    expect(readDraft("rule:1")).toBe("a");
  });

  it("stays over what is saved where it was typed while that was being saved", () => {
    const stored = { fields: { name: "a" }, opened: "2" };
    keepDraft<Begun<object>>("rule:1", { fields: { name: "a" }, opened: "1" });
    expect(settleDraft("rule:1", { sent: { name: "a" }, stored, key: "rule:1" })).toBe(false);
    expect(readDraft("rule:1")).toBeUndefined();

    keepDraft<Begun<object>>("rule:1", { fields: { name: "ab" }, opened: "1" });
    expect(settleDraft("rule:1", { sent: { name: "a" }, stored, key: "rule:1" })).toBe(true);
    expect(readDraft("rule:1")).toEqual({ fields: { name: "ab" }, opened: "2" });
  });

  it("goes to what was made of it where it was typed while that was being made", () => {
    keepDraft<Begun<object>>("rule:new", { fields: { name: "ab" }, opened: null });

    expect(settleDraft("rule:new", { sent: { name: "a" }, stored: { fields: { name: "a" }, opened: "1" }, key: "rule:7" })).toBe(true);
    expect([readDraft("rule:new"), readDraft("rule:7")]).toEqual([undefined, { fields: { name: "ab" }, opened: "1" }]);
  });
});
