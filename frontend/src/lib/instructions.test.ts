import { beforeEach, describe, expect, it, vi } from "vitest";
import { fold, keepFolded, readFolded } from "./instructions";

describe("folded instructions", () => {
  beforeEach(() => {
    const kept = new Map<string, string>();
    vi.stubGlobal("localStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value) });
  });

  it("are kept for each person", () => {
    keepFolded("ann", fold(readFolded("ann"), "project", "v1"));
    expect(readFolded("ann")).toEqual({ project: "v1" });
    expect(readFolded("ben")).toEqual({});
  });

  it("are those of one version of a text", () => {
    const folded = fold({ project: "v1", other: "v7" }, "project", "v2");
    expect(folded).toEqual({ other: "v7", project: "v2" });
    expect(fold(folded, "project", null)).toEqual({ other: "v7" });
  });

  it("are those of the latest projects", () => {
    let folded = {};
    for (let place = 0; place < 150; place++) folded = fold(folded, `p${place}`, "v");
    expect(Object.keys(folded)).toHaveLength(100);
    expect(folded).toHaveProperty("p149");
    expect(folded).not.toHaveProperty("p49");
  });

  it.each(["[]", "null", "7", "{", '{"project": 7}'])("that cannot be read, as %s, are none", (text) => {
    localStorage.setItem("dokimos-folded-instructions-ann", text);
    expect(readFolded("ann")).toEqual({});
  });
});
