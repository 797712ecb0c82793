// ---- texts of models: as they are, or with their Markdown made readable; never as markup ----

const FOLD_FROM = 1200;
const MOST_FORMATTED = 20000;
const FORMATTED = /^#{1,6} \S|^ {0,3}[-*+] \S.*\n+ {0,5}[-*+] \S|^ {0,3}\d+[.)] \S.*\n+ {0,5}\d+[.)] \S|\*\*[^*\s][^*\n]*\*\*|^ {0,3}```|^\|.+\|[ \t]*\n\|[ \t:|-]+\|/m;
const INLINE = /(`+)([^`\n]+)\1|\*\*([^*\n]+)\*\*|__([^_\n]+)__|(?<![\w*])\*([^*\s][^*\n]*)\*(?![\w*])|(?<!\w)_([^_\s][^_\n]*)_(?!\w)|~~([^~\n]+)~~|!?\[([^\]\n]*)\]\(([^()\s]*)\)/g;

/** Emphasis and code of a line. An address is shown and leads nowhere; an image is its address. */
const inline = (line) => {
  const nodes = [];
  let end = 0;
  for (const found of line.matchAll(INLINE)) {
    const [whole, , code, bold, strong, italic, slanted, struck, label, address] = found;
    if (found.index > end) nodes.push(line.slice(end, found.index));
    end = found.index + whole.length;
    if (code !== undefined) nodes.push(el("code", null, code));
    else if (bold ?? strong) nodes.push(el("strong", null, inline(bold ?? strong)));
    else if (italic ?? slanted) nodes.push(el("em", null, inline(italic ?? slanted)));
    else if (struck) nodes.push(el("s", null, struck));
    else nodes.push(whole.startsWith("!") ? "image " : "", label, address ? el("span", { class: "address" }, ` (${address})`) : "");
  }
  if (end < line.length) nodes.push(line.slice(end));
  return nodes;
};

const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
const LIST_ITEM = /^( *)(?:[-*+]|(\d+)[.)]) +(.*)$/;

/** The blocks of a text in Markdown, as elements that do nothing. */
const formatted = (source) => {
  const lines = source.split(/\r?\n/);
  const blocks = [];
  let at = 0;
  const takeWhile = (test) => { const start = at; while (at < lines.length && test(lines[at])) at += 1; return lines.slice(start, at); };
  while (at < lines.length) {
    const line = lines[at];
    const fence = /^ {0,3}(```+|~~~+)/.exec(line);
    const heading = /^(#{1,6}) +(.*?)#*\s*$/.exec(line);
    if (!line.trim()) at += 1;
    else if (fence) {
      at += 1;
      const code = takeWhile((other) => !other.trim().startsWith(fence[1]));
      at += 1;
      blocks.push(el("pre", null, el("code", null, code.join("\n"))));
    } else if (heading) { at += 1; blocks.push(el("p", { class: "heading" }, inline(heading[2]))); }
    else if (/^ {0,3}([-*_])( *\1){2,} *$/.test(line)) { at += 1; blocks.push(el("hr")); }
    else if (line.startsWith(">")) blocks.push(el("blockquote", null, takeWhile((other) => other.startsWith(">")).map((other) => el("p", null, inline(other.replace(/^> ?/, ""))))));
    else if (/^\s*\|.*\|/.test(line) && /^\s*\|[\s:|-]+\|\s*$/.test(lines[at + 1] || "")) {
      const [head, , ...rows] = takeWhile((other) => /^\s*\|/.test(other)).map(cellsOf);
      blocks.push(el("div", { class: "scroll" }, el("table", null, el("thead", null, el("tr", null, head.map((cell) => el("th", null, inline(cell))))),
        el("tbody", null, rows.map((row) => el("tr", null, row.map((cell) => el("td", null, inline(cell)))))))));
    } else if (LIST_ITEM.test(line)) {
      const items = takeWhile((other) => LIST_ITEM.test(other) || /^ {2,}\S/.test(other));
      blocks.push(listOf(items));
    } else {
      const taken = takeWhile((other) => other.trim() && !LIST_ITEM.test(other) && !/^(#{1,6} |>| {0,3}```|\s*\|.*\|\s*$)/.test(other));
      const paragraph = taken.length ? taken : [lines[at++]];
      blocks.push(el("p", null, paragraph.flatMap((text, place) => (place ? [el("br"), ...inline(text)] : inline(text)))));
    }
  }
  return blocks;
};
/** A list of one level; what is indented stands deeper by its class. */
const listOf = (lines) => {
  const first = LIST_ITEM.exec(lines[0]);
  const list = el(first[2] === undefined ? "ul" : "ol", first[2] === undefined ? null : { start: first[2] });
  for (const line of lines) {
    const [, indent, , content] = LIST_ITEM.exec(line) || [];
    if (content === undefined) list.lastChild.append(" ", ...inline(line.trim()));
    else list.append(el("li", { class: indent.length > first[1].length + 1 ? "deeper" : null }, inline(content)));
  }
  return list;
};

const plainText = (value, className) => el("pre", { class: `text${className ? ` ${className}` : ""}`, tabindex: "0" }, value);

/** A text in a box; one in Markdown can be read formatted or as it is. */
const textBox = (value) => {
  const source = plainText(value);
  if (value.length > MOST_FORMATTED || !FORMATTED.test(value) || /^\s*[[{]/.test(value)) return source;
  const readable = el("div", { class: "text prose", tabindex: "0" }, formatted(value));
  source.hidden = true;
  const button = el("button", { type: "button", class: "link switch", "aria-pressed": "false", onclick: () => {
    source.hidden = !source.hidden;
    readable.hidden = !source.hidden;
    button.setAttribute("aria-pressed", String(!source.hidden));
    button.textContent = source.hidden ? "show as written" : "show formatted";
  } }, "show as written");
  return el("div", { class: "box" }, readable, source, button);
};

/** A text that takes no room until it is asked for, where it is long. */
const folded = (value) => {
  if (value.length <= FOLD_FROM) return plainText(value);
  return el("details", null, el("summary", { class: "muted" }, `${oneLine(value, 80)} (${value.length.toLocaleString("en")} characters)`), plainText(value));
};

const parsed = (value) => { try { return JSON.parse(value); } catch { return null; } };
const indented = (value) => { const tree = parsed(value); return tree === null ? value : JSON.stringify(tree, null, 2); };
const asText = (value) => (value == null ? null : typeof value === "string" ? value : JSON.stringify(value, null, 2));

const block = (label, value, className) => [
  el("h3", null, el("span", { class: "foreign" }, label)),
  className ? plainText(value, className) : textBox(value),
];

/** Two texts side by side; what differs is marked at once where that is what went wrong, else when asked for. */
const sideBySide = (left, right, { mark, note }) => {
  const differs = left.value != null && right.value != null && left.value !== right.value;
  const box = el("div", { class: "pair" });
  const column = ({ title, value, missing, hint }, content, small) => el("div", null,
    el("h3", null, title, small ? el("small", null, hint) : null),
    value == null ? el("p", { class: "muted" }, missing) : content);
  const show = (marks) => {
    const diff = marks ? wordDiff(left.value, right.value) : null;
    box.replaceChildren(
      column(left, diff ? plainText(diff[0]) : left.value == null ? null : textBox(left.value), diff),
      column(right, diff ? plainText(diff[1]) : right.value == null ? null : textBox(right.value), diff));
    if (marks && !diff) box.append(el("p", { class: "muted wide" }, "Too long to mark the differences."));
    if (!marks && differs) box.append(el("p", { class: "muted wide" }, `${note ? `${note} ` : ""}`, el("button", { type: "button", class: "link switch", onclick: () => show(true) }, "mark the differences")));
    if (!differs && left.value != null && right.value != null) box.append(el("p", { class: "muted wide" }, "Both are the same."));
  };
  show(differs && mark);
  return box;
};
