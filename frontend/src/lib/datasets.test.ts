import { describe, expect, it } from "vitest";
import { type PendingChange, describePending, readJsonFile, toChanges, typeOfFile } from "./datasets";

describe("a file to upload", () => {
  it.each([
    ["a.csv", "text/csv"],
    ["A.JSONL", "application/x-ndjson"],
    ["a.ndjson", "application/x-ndjson"],
    ["a.tar.json", "application/json"],
    ["json", "application/json"],
    ["a.txt", null],
  ])("%s has the type %s", (name, type) => {
    expect(typeOfFile(name)).toBe(type);
  });

  it("may be a list or an object with one", () => {
    expect(readJsonFile('[{"inputs": {}}]')).toEqual({ body: '{"items":[{"inputs":{}}]}' });
    expect(readJsonFile('{"examples": [], "name": "x"}')).toEqual({ body: '{"items":[]}' });
    expect(readJsonFile('{"rows": []}')).toHaveProperty("fault");
  });

  it("is refused with the line where it stops being JSON", () => {
    const answer = readJsonFile('[\n  {"inputs": {}},\n  oops\n]');
    expect("fault" in answer && answer.fault).toMatch(/^The file is not JSON: .*line 3/);
  });
});

describe("changes that are not saved", () => {
  const change = { inputs: { q: "?" }, expectedOutputs: null, metadata: null };
  const pending = new Map<string, PendingChange>([
    ["a", { op: "set", ...change }],
    ["b", { op: "remove", ...change }],
    ["new", { op: "add", ...change }],
  ]);
  it("name items by their lineage, and new ones by nothing", () => {
    expect(toChanges(pending)).toEqual([
      { op: "set", id: "a", ...change },
      { op: "remove", id: "b" },
      { op: "add", ...change },
    ]);
    expect(describePending(pending)).toBe("1 changed, 1 added, 1 removed");
  });
});
