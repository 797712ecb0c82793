import { describe, expect, it } from "vitest";
import { isMarkdown, parseMarkdown, readInline } from "./markdown";

describe("what is Markdown", () => {
  it.each(["# Title", "a **bold** word", "use `code`", "```\ncode\n```", "- one\n- two", "1. one\n2. two", "| a | b |\n|---|---|\n| 1 | 2 |"])("%j is", (text) => {
    expect(isMarkdown(text)).toBe(true);
  });

  it.each(["plain words", "2 * 3 * 4", "- a dash alone", '{"text": "**bold**"}', "[1, `2`]", "", `**bold** ${"x".repeat(50_000)}`])("%.40s is not", (text) => {
    expect(isMarkdown(text)).toBe(false);
  });
});

describe("lines", () => {
  it("have emphasis, code and addresses that lead nowhere", () => {
    expect(readInline("**so** *it* `is` ~~not~~")).toEqual([
      { kind: "strong", parts: ["so"] }, " ", { kind: "em", parts: ["it"] }, " ", { kind: "code", text: "is" }, " ", { kind: "struck", text: "not" },
    ]);
    expect(readInline("see [here](javascript:alert(1)")).toEqual(["see [here](javascript:alert(1)"]);
    expect(readInline("see [here](javascript:alert)")).toEqual(["see ", "here", { kind: "address", text: "javascript:alert" }]);
    expect(readInline("![cat](//evil/cat.png)")).toEqual(["image cat", { kind: "address", text: "//evil/cat.png" }]);
  });

  it("keep markup and signs without a pair as text", () => {
    for (const text of ["<img src=x onerror=alert(1)>", "a * b", "snake_case_name", "2*3*4", "**open", "` tick"]) expect(readInline(text)).toEqual([text]);
  });

  it("that are long keep their signs", () => {
    const line = `**a** ${"x".repeat(4_000)}`;
    expect(readInline(line)).toEqual([line]);
  });
});

describe("blocks", () => {
  it("are headings, paragraphs with their lines, rules and code as it is", () => {
    expect(parseMarkdown("## Tone ##\none\r\ntwo\n\n---\n```py\n# not a heading\n\n**x**\n```\nafter")).toEqual([
      { kind: "heading", lines: [["Tone"]] },
      { kind: "paragraph", lines: [["one"], ["two"]] },
      { kind: "rule" },
      { kind: "code", text: "# not a heading\n\n**x**" },
      { kind: "paragraph", lines: [["after"]] },
    ]);
  });

  it("are lists whose items go on and stand deeper", () => {
    expect(parseMarkdown("3. one\n   goes on\n   - deeper\n4. two")).toEqual([
      {
        kind: "list",
        start: 3,
        items: [{ depth: 0, parts: ["one", " ", "goes on"] }, { depth: 1, parts: ["deeper"] }, { depth: 0, parts: ["two"] }],
      },
    ]);
  });

  it("are tables and quotes", () => {
    expect(parseMarkdown("| a | **b** |\n|:--|---|\n| 1 | |\n> said\n> - it")).toEqual([
      { kind: "table", head: [["a"], [{ kind: "strong", parts: ["b"] }]], rows: [[["1"], []]] },
      { kind: "quote", blocks: [{ kind: "paragraph", lines: [["said"]] }, { kind: "list", start: null, items: [{ depth: 0, parts: ["it"] }] }] },
    ]);
  });

  it("end, whatever the text is", () => {
    for (const text of ["```", "|", "|a|", "> ".repeat(2_000), "`".repeat(20_000), "*".repeat(20_000), "[".repeat(20_000), "- ".repeat(5_000), `${" ".repeat(9_000)}x`, "#".repeat(9_000)]) {
      expect(Array.isArray(parseMarkdown(text))).toBe(true);
    }
  });
});
