// All text goes through here or through textContent: markup is never parsed.
const el = (name, attributes, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child != null && child !== ""));
  return node;
};

const sortTable = (table, column, header) => {
  const descending = header.getAttribute("aria-sort") === "ascending";
  const value = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return descending ? -order : order;
  });
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  table.tBodies[0].append(...rows);
};

const makeSortable = (table) => {
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    if (header.classList.contains("plain")) return;
    const label = header.textContent;
    header.replaceChildren(el("button", { type: "button", onclick: () => sortTable(table, column, header) }, label));
  });
};

// ---- numbers and texts ----

const fixed = (number, digits) => {
  // Half-up on the number as it is written; toFixed would look at its binary value.
  const [, whole, part] = /^(-?\d+)(?:\.(\d+))?$/.exec(String(number)) || [];
  if (whole === undefined || (part || "").length <= digits) return Number(number).toFixed(digits);
  return (Math.round(Number(`${number}e${digits}`)) / 10 ** digits).toFixed(digits);
};
const duration = (ms) => {
  const [value, unit] = ms < 999.5 ? [ms, "ms"] : ms < 99950 ? [ms / 1e3, "s"] : ms < 5997000 ? [ms / 6e4, "min"] : [ms / 3.6e6, "h"];
  return `${fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${unit}`;
};
const oneLine = (value, limit) => {
  const line = value.slice(0, limit * 4).replace(/\s+/g, " ").trim();
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
};

const MAX_DIFF_CELLS = 4e6;
const TOKENS = /\s+|[\p{L}\p{N}_]+|[^\s]/gu;
/** Marks the tokens of both texts that the other lacks; null where the texts are too long to compare. */
const wordDiff = (left, right) => {
  const a = left.match(TOKENS) || [];
  const b = right.match(TOKENS) || [];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const n = a.length - start - end;
  const m = b.length - start - end;
  if ((n + 1) * (m + 1) > MAX_DIFF_CELLS) return null;
  const width = m + 1;
  const lengths = new Uint32Array((n + 1) * width);
  for (let i = n - 1; i >= 0; i -= 1) {
    for (let j = m - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = a[start + i] === b[start + j]
        ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const inA = a.map(() => false);
  const inB = b.map(() => false);
  let [i, j] = [0, 0];
  while (i < n || j < m) {
    if (i < n && j < m && a[start + i] === b[start + j]) { i += 1; j += 1; }
    else if (j >= m || (i < n && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) { inA[start + i] = true; i += 1; }
    else { inB[start + j] = true; j += 1; }
  }
  return [marked(a, inA, "del"), marked(b, inB, "ins")];
};
const marked = (tokens, flags, tag) => {
  const nodes = [];
  for (let i = 0; i < tokens.length;) {
    let stop = i;
    while (stop < tokens.length && flags[stop] === flags[i]) stop += 1;
    const piece = tokens.slice(i, stop).join("");
    nodes.push(flags[i] ? el(tag, null, piece) : piece);
    i = stop;
  }
  return nodes;
};
