// ---- numbers ----

const UNKNOWN = "–";
/** A share; only a whole one is 100.0 % and only none at all is 0.0 %. */
const percent = (rate) => {
  if (rate == null) return UNKNOWN;
  const shown = Number(fixed(rate * 100, 1));
  return `${fixed(rate > 0 && rate < 1 ? Math.min(Math.max(shown, 0.1), 99.9) : shown, 1)} %`;
};
const usd = (amount) => `$${fixed(amount, 4)}`;
const score = (value) => (value == null ? UNKNOWN : fixed(value, 2));
const count = (value) => Number(Number.isInteger(value) ? value : fixed(value, 1)).toLocaleString("en");
const signed = (text, value) => (value > 0 ? `+${text}` : value < 0 ? text.replace("-", "−") : `±${text}`);
const day = (started) => started.slice(0, 16).replace("T", " ");

// ---- pictures in SVG, with no style of their own ----

const svg = (name, attributes, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child != null && child !== ""));
  return node;
};

const outcomeBar = (run) => {
  let start = 0;
  const parts = [["pass", run.passed], ["fail", run.failed], ["error", run.errored], ["info", run.informational], ["none", run.unjudged]].map(([kind, number]) => {
    const width = (100 * number) / (run.total || 1);
    const part = number ? svg("rect", { class: kind, x: start, y: 0, width, height: 6 }) : null;
    start += width;
    return part;
  });
  return svg("svg", { class: "outcomes", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, parts);
};

/** Lines between the points that are known: a gap stays a gap. */
const linePath = (points) => {
  let path = "";
  let joined = false;
  for (const point of points) {
    if (!point) { joined = false; continue; }
    path += `${joined ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    joined = true;
  }
  return path;
};

const EDGE = { left: 46, right: 14, top: 26, bottom: 24 };

/** The pass rate over the runs: intervals, boundaries of prompt versions, and marks where it fell. */
const trendChart = (points, width, open) => {
  const height = 230;
  const inner = { width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
  const x = (place) => EDGE.left + (points.length < 2 ? inner.width / 2 : (inner.width * place) / (points.length - 1));
  const y = (rate) => EDGE.top + inner.height * (1 - rate);
  const grid = [0, 0.25, 0.5, 0.75, 1].map((rate) => [
    svg("line", { class: "axis", x1: EDGE.left, x2: width - EDGE.right, y1: y(rate), y2: y(rate) }),
    rate * 4 % 2 ? null : svg("text", { class: "tick", x: EDGE.left - 8, y: y(rate) + 4, "text-anchor": "end" }, `${rate * 100} %`)]);
  const drawn = points.map(({ rate }, place) => (rate == null ? null : [x(place), y(rate)]));
  const marks = points.map((point, place) => drawn[place] && pointMark(point, drawn[place], y, open));
  return svg("svg", { class: "trend", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Pass rate of each run, the oldest first" },
    grid, boundaries(points, x, height), svg("path", { class: "line", d: linePath(drawn) }), marks, dates(points, x, width, height));
};

const pointMark = (point, [cx, cy], y, open) => {
  const { run, interval } = point;
  const fell = point.drop && (point.drop.p <= 0.05 ? "fell" : "fell perhaps");
  const label = `${day(run.started)} · ${percent(point.rate)} passed of ${count(point.judged)}${run.version ? ` · ${run.version}` : ""}` +
    (point.drop ? ` · ${point.drop.worse} worse and ${point.drop.better} better than the run before, p = ${fixed(point.drop.p, 3)}` : "");
  return svg("g", { class: "point", tabindex: "0", role: "link", "aria-label": label, onclick: () => open(run), onkeydown: (event) => { if (event.key === "Enter") open(run); } },
    svg("title", null, label),
    interval ? svg("line", { class: "spread", x1: cx, x2: cx, y1: y(interval[0]), y2: y(interval[1]) }) : null,
    svg("circle", { class: "target", cx, cy, r: 11 }), svg("circle", { class: "dot", cx, cy, r: 4 }),
    fell ? svg("path", { class: fell, d: `M${cx - 6} ${cy + 9}h12l-6 9z` }) : null);
};

const boundaries = (points, x, height) => {
  let free = 0;
  return points.map(({ run }, place) => {
    if (!run.version || (place > 0 && points[place - 1].run.version === run.version)) return null;
    const at = place === 0 ? x(0) : (x(place) + x(place - 1)) / 2;
    const name = oneLine(run.version, 16);
    const fits = at >= free;
    if (fits) free = at + 7 * name.length + 12;
    return [place === 0 ? null : svg("line", { class: "boundary", x1: at, x2: at, y1: EDGE.top - 14, y2: height - EDGE.bottom }),
      fits ? svg("text", { class: "tick", x: at + 4, y: 12 }, name, svg("title", null, run.version)) : null];
  });
};

const dates = (points, x, width, height) => {
  if (!points.length) return null;
  const first = points[0].run.started.slice(0, 10);
  const last = points[points.length - 1].run.started.slice(0, 10);
  const y = height - 6;
  if (points.length === 1 || first === last) return svg("text", { class: "tick", x: width / 2, y, "text-anchor": "middle" }, last);
  return [svg("text", { class: "tick", x: EDGE.left, y }, first), svg("text", { class: "tick", x: width - EDGE.right, y, "text-anchor": "end" }, last)];
};

/** How the mean of one metric developed, from 0 to 1, with its threshold as a dashed line. */
const sparkline = (means, threshold) => {
  const x = (place) => (means.length < 2 ? 110 : 4 + (212 * place) / (means.length - 1));
  const y = (mean) => 44 - 40 * mean;
  const drawn = means.map((mean, place) => (mean == null ? null : [x(place), y(mean)]));
  const last = drawn.findLast(Boolean);
  return svg("svg", { class: "spark", viewBox: "0 0 220 48", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("line", { class: "axis", x1: 0, x2: 220, y1: 44, y2: 44 }), svg("line", { class: "axis", x1: 0, x2: 220, y1: 4, y2: 4 }),
    threshold == null ? null : svg("line", { class: "threshold", x1: 0, x2: 220, y1: y(threshold), y2: y(threshold) }),
    svg("path", { class: "line", d: linePath(drawn) }), last ? svg("circle", { class: "dot", cx: last[0], cy: last[1], r: 3 }) : null);
};
