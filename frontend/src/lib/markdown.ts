/**
 * Markdown as a tree of what a page may show of it: emphasis, lists, quotes, tables and code. A link is its text and its
 * address, an image is its address, and markup stays text, so nothing of it can do anything.
 */

export type Inline =
  | string
  | { readonly kind: "code" | "struck" | "address"; readonly text: string }
  | { readonly kind: "strong" | "em"; readonly parts: readonly Inline[] };

export interface ListItem {
  /** How deep it stands below the first level. */
  readonly depth: number;
  readonly parts: readonly Inline[];
}

export type Block =
  | { readonly kind: "heading" | "paragraph"; readonly lines: readonly (readonly Inline[])[] }
  | { readonly kind: "quote"; readonly blocks: readonly Block[] }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "list"; readonly start: number | null; readonly items: readonly ListItem[] }
  | { readonly kind: "table"; readonly head: readonly (readonly Inline[])[]; readonly rows: readonly (readonly (readonly Inline[])[])[] }
  | { readonly kind: "rule" };

/** Longer texts are shown as they were written. */
const MOST_FORMATTED = 50_000;
/** Longer lines keep their signs: what looks for pairs of them takes time that grows with the square of the length. */
const LONGEST_LINE = 4_000;
const MOST_QUOTES = 4;
const MOST_DEPTH = 3;

const SIGNS = [
  /^#{1,6} \S/m,
  /\*\*[^*\s][^*\n]*\*\*/,
  /`[^`\n]+`/,
  /^ {0,3}(?:```|~~~)/m,
  /^ {0,3}[-*+] \S.*\n+ {0,5}[-*+] \S/m,
  /^ {0,3}\d+[.)] \S.*\n+ {0,5}\d+[.)] \S/m,
  /^ *\|.+\|[ \t]*\n *\|[ \t:|-]+\|/m,
];

/** Whether a text has signs of Markdown, and is neither JSON nor too long. */
export function isMarkdown(text: string): boolean {
  if (text.length > MOST_FORMATTED || /^\s*[[{]/.test(text)) return false;
  const lines = text.split("\n").filter((line) => line.length <= LONGEST_LINE).join("\n");
  return SIGNS.some((sign) => sign.test(lines));
}

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}#{1,6} +(.*?) *#* *$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const LIST_ITEM = /^( *)(?:[-*+]|(\d{1,9})[.)]) +(.*)$/;
const TABLE_ROW = /^ *\|.*\| *$/;
const TABLE_LINE = /^ *\|[ :|-]+\| *$/;
const QUOTE = /^ {0,3}> ?/;

export function parseMarkdown(source: string): Block[] {
  return readBlocks(source.split(/\r?\n/), 0);
}

function readBlocks(lines: readonly string[], quotes: number): Block[] {
  const blocks: Block[] = [];
  let at = 0;
  const takeWhile = (fits: (line: string) => boolean): string[] => {
    const start = at;
    while (at < lines.length && fits(lines[at] ?? "")) at += 1;
    return lines.slice(start, at);
  };
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const fence = FENCE.exec(line)?.[1];
    const heading = line.length <= LONGEST_LINE ? HEADING.exec(line)?.[1] : undefined;
    if (line.trim() === "") {
      at += 1;
    } else if (fence !== undefined) {
      at += 1;
      const code = takeWhile((other) => !other.trim().startsWith(fence));
      at += 1;
      blocks.push({ kind: "code", text: code.join("\n") });
    } else if (heading !== undefined) {
      at += 1;
      blocks.push({ kind: "heading", lines: [readInline(heading)] });
    } else if (RULE.test(line)) {
      at += 1;
      blocks.push({ kind: "rule" });
    } else if (QUOTE.test(line) && quotes < MOST_QUOTES) {
      const quoted = takeWhile((other) => QUOTE.test(other)).map((other) => other.replace(QUOTE, ""));
      blocks.push({ kind: "quote", blocks: readBlocks(quoted, quotes + 1) });
    } else if (TABLE_ROW.test(line) && TABLE_LINE.test(lines[at + 1] ?? "")) {
      const [head = [], , ...rows] = takeWhile((other) => TABLE_ROW.test(other)).map(readCells);
      blocks.push({ kind: "table", head, rows });
    } else if (LIST_ITEM.test(line)) {
      blocks.push(readList(takeWhile((other) => LIST_ITEM.test(other) || /^ {2,}\S/.test(other))));
    } else {
      at += 1;
      const rest = takeWhile((other) => other.trim() !== "" && !beginsBlock(other));
      blocks.push({ kind: "paragraph", lines: [line, ...rest].map(readInline) });
    }
  }
  return blocks;
}

const beginsBlock = (line: string): boolean => [LIST_ITEM, HEADING, FENCE, QUOTE, TABLE_ROW, RULE].some((sign) => sign.test(line.slice(0, LONGEST_LINE)));

const readCells = (line: string): (readonly Inline[])[] => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => readInline(cell.trim()));

function readList(lines: readonly string[]): Block {
  const first = LIST_ITEM.exec(lines[0] ?? "");
  const base = first?.[1]?.length ?? 0;
  const items: { depth: number; parts: Inline[] }[] = [];
  for (const line of lines) {
    const [, indent = "", , content] = LIST_ITEM.exec(line) ?? [];
    const last = items.at(-1);
    if (content === undefined && last !== undefined) last.parts.push(" ", ...readInline(line.trim()));
    else items.push({ depth: Math.max(0, Math.min(MOST_DEPTH, Math.floor((indent.length - base) / 2))), parts: readInline(content ?? line.trim()) });
  }
  return { kind: "list", start: first?.[2] === undefined ? null : Number(first[2]), items };
}

const INLINE =
  /(`+)([^`]+)\1(?!`)|\*\*([^*]+)\*\*|__([^_]+)__|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])|(?<!\w)_([^_\s][^_]*)_(?!\w)|~~([^~]+)~~|!?\[([^[\]]*)\]\(([^()\s]*)\)/g;

/** The emphasis, code and addresses of a line. */
export function readInline(line: string): Inline[] {
  if (line.length > LONGEST_LINE) return [line];
  const parts: Inline[] = [];
  let end = 0;
  for (const found of line.matchAll(INLINE)) {
    const [whole, , code, bold, strong, italic, slanted, struck, label = "", address = ""] = found;
    if (found.index > end) parts.push(line.slice(end, found.index));
    end = found.index + whole.length;
    const strongly = bold ?? strong;
    const slightly = italic ?? slanted;
    if (code !== undefined) parts.push({ kind: "code", text: code });
    else if (strongly !== undefined) parts.push({ kind: "strong", parts: readInline(strongly) });
    else if (slightly !== undefined) parts.push({ kind: "em", parts: readInline(slightly) });
    else if (struck !== undefined) parts.push({ kind: "struck", text: struck });
    else parts.push(`${whole.startsWith("!") ? "image " : ""}${label}`, { kind: "address", text: address });
  }
  if (end < line.length) parts.push(line.slice(end));
  return parts;
}
