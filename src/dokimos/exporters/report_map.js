// ---- the heat map: a column for each item, worst left, and a row for each evaluator ----

const MOST_ROWS = 24;
const LEAST_WIDTH = 5;
const CELL = 10;
/** What a cell shows, the worst first: its shape says what its colour says. */
const CELLS = ["errored", "failed", "passed", "informs", "skipped"];
const SHAPES = {
  errored: (x) => `M${x} 0h8v2.5h-8zM${x} 4.5h8v7.5h-8z`,
  failed: (x) => `M${x} 0h8v12h-8z`,
  passed: (x) => `M${x} 6h8v6h-8z`,
  informs: (x) => `M${x} 9h8v3h-8z`,
  skipped: (x) => `M${x} 11h8v1h-8z`,
};
const CELL_WORDS = { errored: "! error", failed: "✗ fail", passed: "✓ pass", informs: "informs", skipped: "– skipped" };

const svgPart = (name, attributes, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

const cellOf = (view) => {
  if (!view.given) return null;
  if (view.soft || view.outcome === "errored") return "errored";
  if (view.outcome === "failed" || view.outcome === "passed") return view.outcome;
  return view.score === null ? "skipped" : "informs";
};

/** Draws the items by evaluators into `host`; `open(item)` is called for what is chosen. */
const heatMap = (host, evaluators, items, open) => {
  const failures = new Map();
  const viewOf = (item, e) => (e < 0 ? { given: true, outcome: item.outcome, soft: false, score: null } : item.by(e));
  const nameOf = (e) => (e < 0 ? "whole item" : evaluators[e].name);
  for (const item of items) for (const e of item.given) failures.set(e, (failures.get(e) || 0) + (["errored", "failed"].includes(cellOf(item.by(e))) ? 1 : 0));
  if (items.length < 2 || !failures.size) return;
  const all = [...failures.keys()].sort((a, b) => a - b);
  const few = all.length <= MOST_ROWS ? all : [...all].sort((a, b) => failures.get(b) - failures.get(a) || a - b).slice(0, MOST_ROWS);
  const rows = few.length === 1 ? few : [-1, ...few];
  let groups = [];
  let at = [0, 0];

  const worstIn = (group, e) => {
    let found = [CELLS.length, group[0]];
    for (const item of group) {
      const kind = CELLS.indexOf(cellOf(viewOf(item, e)));
      if (kind >= 0 && kind < found[0]) found = [kind, item];
    }
    return found;
  };
  const tell = el("p", { class: "muted tell", role: "status", "aria-live": "polite" });
  const table = el("table", { class: "heat" });
  const box = el("div", { class: "scroll map", tabindex: "0", role: "application", "aria-roledescription": "heat map",
    "aria-label": `Items by evaluators: ${items.length} items, the worst first, and ${few.length} evaluators. The arrow keys move, Enter opens the item.` }, table);
  const cursor = svgPart("rect", { class: "cursor", y: 0, width: CELL, height: 12 });
  const pictures = [];

  const draw = () => {
    const room = Math.max(120, (host.clientWidth || 1000) - (host.clientWidth < 560 ? 130 : 240));
    const columns = Math.min(items.length, Math.floor(room / LEAST_WIDTH));
    const size = Math.ceil(items.length / columns);
    groups = [];
    for (let i = 0; i < items.length; i += size) groups.push(items.slice(i, i + size));
    pictures.length = 0;
    table.replaceChildren(el("tbody", null, rows.map((e, row) => {
      const paths = CELLS.map(() => "");
      groups.forEach((group, column) => {
        const [kind] = worstIn(group, e);
        if (kind < CELLS.length) paths[kind] += SHAPES[CELLS[kind]](column * CELL + 1);
      });
      const picture = svgPart("svg", { viewBox: `0 0 ${groups.length * CELL} 12`, preserveAspectRatio: "none", "aria-hidden": "true" },
        ...CELLS.map((kind, place) => (paths[place] ? svgPart("path", { class: kind, d: paths[place] }) : "")).filter(Boolean));
      picture.addEventListener("click", (event) => { move(row, columnAt(picture, event)); choose(); });
      picture.addEventListener("mousemove", (event) => move(row, columnAt(picture, event)));
      // Few items would be as wide as pages.
      picture.style.maxWidth = `${groups.length * 28}px`;
      pictures.push(picture);
      return el("tr", null, el("th", { scope: "row", class: "foreign", title: nameOf(e) }, nameOf(e)), el("td", null, picture));
    })));
    at = [Math.min(at[0], rows.length - 1), Math.min(at[1], groups.length - 1)];
  };
  const columnAt = (picture, event) => {
    const { left, width } = picture.getBoundingClientRect();
    return Math.floor(((event.clientX - left) / width) * groups.length);
  };
  const move = (row, column) => {
    at = [Math.min(Math.max(row, 0), rows.length - 1), Math.min(Math.max(column, 0), groups.length - 1)];
    cursor.setAttribute("x", at[1] * CELL);
    pictures[at[0]].append(cursor);
    const group = groups[at[1]];
    const [kind, item] = worstIn(group, rows[at[0]]);
    const view = viewOf(item, rows[at[0]]);
    const score = view.score === null ? "" : ` ${fixed(view.score, 2)}`;
    const others = group.length > 1 ? `, the worst of ${group.length} items` : "";
    tell.textContent = `${item.key} · ${nameOf(rows[at[0]])}: ${kind < CELLS.length ? CELL_WORDS[CELLS[kind]] + score : "not applied"}${others}`;
  };
  const choose = () => open(worstIn(groups[at[1]], rows[at[0]])[1]);
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity] };
  box.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (step) move(at[0] + step[0], at[1] + step[1]);
    else choose();
  });
  box.addEventListener("focus", () => move(...at));

  const left = all.length - few.length;
  const legend = el("p", { class: "muted legend" }, CELLS.filter((kind) => items.some((item) => cellOf(viewOf(item, -1)) === kind || item.given.some((e) => cellOf(item.by(e)) === kind)))
    .map((kind) => el("span", null, svgPart("svg", { viewBox: "0 0 10 12", "aria-hidden": "true" }, svgPart("path", { class: kind, d: SHAPES[kind](1) })), CELL_WORDS[kind])));
  host.append(el("h2", null, "Items by evaluators"), box,
    el("div", { class: "below-map" }, legend, tell),
    left ? el("p", { class: "muted" }, `The ${few.length} evaluators with the most failures; ${left.toLocaleString("en")} more are in the table above.`) : "");
  host.hidden = false;
  draw();
  let width = host.clientWidth;
  new ResizeObserver(() => { if (host.clientWidth !== width) { width = host.clientWidth; draw(); } }).observe(host);
};
