import { describe, expect, it } from "vitest";
import { type SavedView, addView, changeViews, parseViews, pathOf, readFilters, readStored, removeView, toParameters } from "./saved-views";

const view: SavedView = { area: "items", name: "mine", path: "/runs/1", query: "outcome=fail" };

describe("saved views", () => {
  it("keep filters in one order, and not what is open", () => {
    expect(readFilters("items", "?search=a+b&item=3.0&outcome=fail")).toEqual({ query: "outcome=fail&search=a+b", unknown: [] });
  });

  it("of another version lose what is not understood, and say so", () => {
    const search = "outcome=splendid&shape=round&constructor=1&search=a";
    expect(readFilters("items", search)).toEqual({ query: "search=a", unknown: ["outcome", "shape", "constructor"] });
  });

  it("keep texts that the router puts into quotes", () => {
    expect(readFilters("traces", "?live=%22true%22").query).toBe("live=%22true%22");
  });

  it("open on the page that is open where it is of their kind", () => {
    expect(pathOf(view, "/runs/2")).toBe("/runs/2");
    expect(pathOf(view, "/experiments/2/runs/2/diff")).toBe("/runs/1");
  });

  it("are read from whatever is stored", () => {
    expect(parseViews(null)).toEqual([]);
    expect(parseViews("{")).toEqual([]);
    expect(parseViews('{"a": 1}')).toEqual([]);
    const odd = [null, 3, { ...view, path: "//evil.example" }, { ...view, area: "toString" }, { ...view, name: "" }, view];
    expect(parseViews(JSON.stringify(odd))).toEqual([view]);
  });

  it("have one name each in their area", () => {
    const other = { ...view, query: "outcome=error" };
    expect(addView([view], other)).toEqual([other]);
    expect(addView([view], { ...view, area: "runs" })).toHaveLength(2);
    expect(removeView([view], { area: "runs", name: "mine" })).toEqual([view]);
  });

  it("are on the server by the names of their filters, and come back as they were", () => {
    const stored = { id: "7", kind: "items", name: "mine", projectName: null, shared: false, isOwn: true };
    expect(toParameters({ ...view, query: "outcome=fail&tag=a&tag=b" })).toEqual({ outcome: "fail", tag: ["a", "b"], page: "/runs/1" });
    expect(readStored({ ...stored, query: toParameters(view) })).toEqual({ ...view, id: "7", isOwn: true, isShared: false });
    const odd = { ...view, query: "__proto__=1" };
    expect(readStored({ ...stored, query: toParameters(odd) })?.query).toBe("__proto__=1");
    const review: SavedView = { area: "review", name: "r", path: "/review-queue", query: "near=0.1" };
    expect(toParameters(review)).toEqual({ near: "0.1" });
  });

  it("that were made through the API open where a page of their kind is open, and lead nowhere else", () => {
    const stored = { id: "7", kind: "runs", name: "slow", projectName: "shop", shared: true, isOwn: false };
    const runs = readStored({ ...stored, query: { branch: "main", limit: 20, page: "//evil.example", none: null } });
    expect(runs).toMatchObject({ query: "branch=main&limit=20", path: "", isShared: true });
    expect(readStored({ ...stored, kind: "traces", query: { status: "error" } })).toMatchObject({ query: "project=shop&status=error", path: "/traces" });
    expect(readStored({ ...stored, kind: "datasets", query: {} })).toBeNull();
  });

  it("say that a browser keeps nothing", () => {
    expect(changeViews(() => [view])).toContain("Nothing was saved"); // there is no storage here
  });
});
