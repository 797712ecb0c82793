"use strict";
(() => {
  const PAGE = 100;
  const MAX_DIFF_CELLS = 4e6;
  const MAX_SCORE_COLUMNS = 6;
  const OUTCOMES = ["errored", "failed", "unjudged", "passed"];
  const WORDS = { errored: "! error", failed: "✗ fail", unjudged: "– not judged", passed: "✓ pass" };
  const DEFAULTS = { q: "", show: "all", by: "", sort: "worst", dir: "asc", item: "", run: "" };

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

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      if (header.classList.contains("plain")) return;
      const label = header.textContent;
      header.replaceChildren(el("button", { type: "button", onclick: () => sortTable(table, column, header) }, label));
    });
  }

  const app = document.getElementById("app");
  if (!app) return;
  const data = JSON.parse(document.getElementById("data").textContent);
  const text = (position) => (position < 0 ? null : data.strings[position]);

  // ---- the items as objects ----

  const pairs = (flat) => {
    const found = [];
    for (let i = 0; i < flat.length; i += 2) found.push([text(flat[i]), text(flat[i + 1])]);
    return found;
  };
  const readEvaluation = ([e, score, success, threshold, reason, error, skipped, metadata, strict]) => ({
    e, score, success, threshold, reason: text(reason), error: text(error), skipped: text(skipped),
    metadata: text(metadata), strict: strict === 1,
  });
  const readRun = (run) => run && {
    outcome: OUTCOMES[run[0]], outputs: run[1], calls: run[2], error: text(run[3]), metrics: run[4],
    evaluations: run[5].map(readEvaluation),
  };
  const outcomeOf = (evaluation) => {
    if (evaluation.error != null) return evaluation.strict ? "errored" : "unjudged";
    return evaluation.success === 1 ? "passed" : evaluation.success === 0 ? "failed" : "unjudged";
  };
  const worstOf = (outcomes) => ["errored", "failed", "passed"].find((o) => outcomes.includes(o)) || "unjudged";
  const goodness = (evaluation) => (data.evaluators[evaluation.e].lower ? 1 - evaluation.score : evaluation.score);
  const mean = (numbers) => (numbers.length ? numbers.reduce((a, b) => a + b, 0) / numbers.length : null);

  const items = data.items.map(([key, index, outcome, inputs, expected, metadata, tags, packedRuns]) => {
    const runs = packedRuns.map(readRun);
    const done = runs.filter(Boolean);
    const evaluations = done.flatMap((run) => run.evaluations);
    const scored = evaluations.filter((one) => one.score !== null);
    // Worked out when an item is first shown: ten thousand items open in half the time.
    let views = null;
    const viewsOf = () => data.evaluators.map((_, e) => {
      const own = evaluations.filter((one) => one.e === e);
      return {
        given: own.length > 0,
        outcome: worstOf(own.map(outcomeOf)),
        soft: own.some((one) => one.error != null && !one.strict),
        score: mean(own.filter((one) => one.score !== null).map((one) => one.score)),
        worst: Math.min(2, ...own.filter((one) => one.score !== null).map(goodness)),
        skipped: own.some((one) => one.skipped != null),
        changed: new Set(own.map(outcomeOf)).size > 1,
      };
    });
    return {
      key, index, inputs, expected, metadata, tags: tags.map((own) => own.map(text)), runs,
      outcome: OUTCOMES[outcome],
      get byEvaluator() { return (views ??= viewsOf()); },
      warned: evaluations.some((one) => one.error != null && !one.strict),
      changed: new Set(done.map((run) => run.outcome)).size > 1,
      worst: Math.min(2, ...scored.map(goodness)),
      latency: mean(done.map((run) => run.metrics[0]).filter((value) => value != null)),
      haystack: null,
    };
  });

  const produced = new Set(["output", "toolCalls"]);
  for (const item of items) {
    for (const { outputs } of item.runs.filter(Boolean)) {
      for (let i = 0; i < outputs.length; i += 2) produced.add(text(outputs[i]));
    }
  }

  const haystack = (item) => {
    if (item.haystack === null) {
      const parts = [item.key, ...item.tags.flat()];
      const add = (flat) => { for (let i = 1; i < flat.length; i += 2) parts.push(text(flat[i])); };
      [item.inputs, item.expected, ...item.runs.filter(Boolean).map((run) => run.outputs)].forEach(add);
      for (const run of item.runs.filter(Boolean)) {
        parts.push(run.error, ...run.calls.flat().map(text));
        for (const one of run.evaluations) parts.push(one.reason, one.error, one.skipped);
      }
      item.haystack = parts.filter(Boolean).join("\n").toLowerCase();
    }
    return item.haystack;
  };

  // ---- state, kept in the fragment ----

  let state = {};
  const readState = () => {
    const given = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    const next = { ...DEFAULTS, tags: {} };
    for (const [key, value] of given) {
      if (key.startsWith("tag.")) next.tags[key.slice(4)] = value;
      else if (key in DEFAULTS) next[key] = value;
    }
    state = next;
  };
  const writeState = () => {
    const kept = new URLSearchParams();
    for (const [key, value] of Object.entries(DEFAULTS)) if (state[key] !== value) kept.set(key, state[key]);
    for (const [key, value] of Object.entries(state.tags)) if (value) kept.set(`tag.${key}`, value);
    const hash = kept.toString();
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  };
  const change = (changes) => { Object.assign(state, changes); writeState(); refresh(); };

  // ---- filters ----

  const chosen = () => data.evaluators.findIndex((one) => one.name === state.by);
  const CHIPS = [
    ["all", "All", (view, e) => e < 0 || view.given],
    ["failed", "✗ Failed", (view) => view.outcome === "failed"],
    ["errored", "! Errored", (view) => view.outcome === "errored"],
    ["passed", "✓ Passed", (view) => view.outcome === "passed"],
    ["unjudged", "– Not judged", (view, e) => view.outcome === "unjudged" && (e < 0 || view.given)],
    ["warnings", "Warnings", (view, e) => (e < 0 ? view.warned : view.soft)],
    ...(data.runs > 1 ? [["changed", "≠ Differs between runs", (view) => view.changed]] : []),
  ];
  const viewOf = (item, e) => (e < 0 ? item : item.byEvaluator[e]);

  const candidates = () => {
    const terms = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    const tags = Object.entries(state.tags).filter(([key, value]) => value && data.tagKeys.includes(key));
    return items.filter((item) =>
      tags.every(([key, value]) => item.tags[data.tagKeys.indexOf(key)].includes(value)) &&
      (terms.length === 0 || terms.every((term) => haystack(item).includes(term))));
  };

  const sorted = (list, e) => {
    const sign = state.dir === "desc" ? -1 : 1;
    const score = state.sort.startsWith("score.")
      ? data.evaluators.findIndex((one) => one.name === state.sort.slice(6)) : -1;
    const number = {
      item: (item) => item.index,
      latency: (item) => item.latency,
    }[state.sort] || (score >= 0 ? (item) => item.byEvaluator[score].score : null);
    if (!number) {
      const rank = (item) => OUTCOMES.indexOf(viewOf(item, e).outcome);
      const order = (a, b) => rank(a) - rank(b) || viewOf(b, e).warned - viewOf(a, e).warned ||
        viewOf(a, e).worst - viewOf(b, e).worst || a.index - b.index;
      return list.sort((a, b) => sign * order(a, b));
    }
    return list.sort((a, b) => {
      const [x, y] = [number(a), number(b)];
      if (x == null || y == null) return (x == null) - (y == null) || a.index - b.index;
      return sign * (x - y) || a.index - b.index;
    });
  };

  // ---- the list ----

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
  const inputText = (item) => {
    for (const [key, value] of pairs(item.inputs)) if (key === "input" || item.inputs.length === 2) return value;
    return pairs(item.inputs).map(([key, value]) => `${key}: ${value}`).join(" · ");
  };
  const why = (item) => {
    for (const run of item.runs) {
      if (!run || run.outcome !== item.outcome) continue;
      if (run.error) return run.error;
      const bad = run.evaluations.filter((one) => outcomeOf(one) === item.outcome);
      bad.sort((a, b) => goodness(a) - goodness(b));
      if (item.outcome === "errored" && bad[0]) return `${data.evaluators[bad[0].e].name}: ${bad[0].error}`;
      if (item.outcome === "failed" && bad[0]) {
        return `${data.evaluators[bad[0].e].name} ${bad[0].score === null ? "" : fixed(bad[0].score, 2)}  ${bad[0].reason || ""}`;
      }
    }
    for (const run of item.runs.filter(Boolean)) {
      const soft = run.evaluations.find((one) => one.error != null && !one.strict);
      if (soft) return `Warning, ${data.evaluators[soft.e].name}: ${soft.error}`;
    }
    return "";
  };
  const scoreCell = (item, e) => {
    const view = item.byEvaluator[e];
    if (view.outcome === "errored" || view.soft) return el("td", { class: "num score cell-errored" }, view.score === null ? "! error" : `! ${fixed(view.score, 2)}`);
    if (view.score === null) return el("td", { class: "num score muted" }, view.skipped ? "skipped" : "–");
    const failed = view.outcome === "failed";
    return el("td", { class: `num score${failed ? " cell-failed" : ""}` }, `${failed ? "✗ " : ""}${fixed(view.score, 2)}`);
  };
  const shownColumns = () => {
    const e = chosen();
    const all = data.evaluators.map((_, position) => position);
    if (e < MAX_SCORE_COLUMNS) return all.slice(0, MAX_SCORE_COLUMNS);
    return [e, ...all.slice(0, MAX_SCORE_COLUMNS - 1)];
  };

  const rowOf = (item, columns) => {
    const reason = why(item);
    const row = el("tr", { "data-key": item.key, onclick: (event) => { if (!getSelection().toString() || event.detail === 0) openItem(item); } },
      el("td", null, el("span", { class: `sign ${item.outcome}` }, WORDS[item.outcome]),
        item.warned ? el("span", { class: "tail" }, "! warning") : null,
        item.changed ? el("span", { class: "tail" }, "≠ differs") : null),
      el("td", { class: "item" }, el("button", { class: "open", type: "button", "aria-label": `Open ${item.key}, ${item.outcome}` },
        el("span", { class: "excerpt" }, el("span", { class: "id foreign" }, item.key), el("span", { class: "foreign" }, oneLine(inputText(item), 300))),
        reason ? el("span", { class: `why ${item.outcome}` }, oneLine(reason, 400)) : null)),
      columns.map((e) => scoreCell(item, e)),
      el("td", { class: "num time" }, item.latency === null ? "–" : duration(item.latency)));
    item.row = row;
    return row;
  };

  const search = el("input", { type: "search", placeholder: "Search input, output, reasons …", "aria-label": "Search the items", autocomplete: "off", spellcheck: "false" });
  const chips = el("div", { class: "chips", role: "group", "aria-label": "Filter by outcome" });
  const judge = el("select", null, el("option", { value: "" }, "whole item"), data.evaluators.map(({ name }) => el("option", { value: name }, name)));
  const tagSelects = data.tagKeys.map((key, position) => {
    const values = [...new Set(items.flatMap((item) => item.tags[position]))].sort();
    const select = el("select", null, el("option", { value: "" }, "any"), values.map((value) => el("option", { value }, value)));
    select.addEventListener("change", () => change({ tags: { ...state.tags, [key]: select.value } }));
    return [key, select];
  });
  const total = el("span", { role: "status", "aria-live": "polite" });
  const head = el("tr");
  const body = el("tbody");
  const emptyState = el("p", { class: "empty-state", hidden: true }, "No item matches these filters.",
    el("button", { type: "button", class: "plain-button", onclick: () => change({ q: "", show: "all", by: "", tags: {} }) }, "Clear all filters"));
  const more = el("div", { class: "more", "aria-hidden": "true" });

  let visible = [];
  let rendered = 0;
  const renderMore = () => {
    if (rendered >= visible.length) return;
    const columns = shownColumns();
    body.append(...visible.slice(rendered, rendered + PAGE).map((item) => rowOf(item, columns)));
    rendered = Math.min(rendered + PAGE, visible.length);
    markCurrent();
  };

  const header = (label, sort, className, first) => {
    const active = state.sort === sort;
    const turn = () => change(active ? { dir: state.dir === "asc" ? "desc" : "asc" } : { sort, dir: first || "asc" });
    return el("th", { scope: "col", class: className, "aria-sort": active && (state.dir === "asc" ? "ascending" : "descending") },
      el("button", { type: "button", onclick: turn }, label));
  };

  let lastList = "";
  const refresh = () => {
    if (search.value !== state.q) search.value = state.q;
    judge.value = state.by;
    for (const [key, select] of tagSelects) select.value = state.tags[key] || "";
    const list = JSON.stringify([state.q, state.show, state.by, state.sort, state.dir, state.tags]);
    if (list !== lastList) { lastList = list; refreshList(); }
    refreshDrawer();
  };
  const refreshList = () => {
    const e = chosen();
    const found = candidates();
    const active = CHIPS.find(([name]) => name === state.show) || CHIPS[0];
    chips.replaceChildren(...CHIPS.map(([name, label, test]) => {
      const count = found.filter((item) => test(viewOf(item, e), e)).length;
      return el("button", { type: "button", class: `chip${count ? "" : " zero"}`, "data-show": name, "aria-pressed": String(name === active[0]), onclick: () => change({ show: name }) },
        label, el("b", null, count.toLocaleString("en")));
    }));
    visible = sorted(found.filter((item) => active[2](viewOf(item, e), e)), e);
    total.textContent = `${visible.length.toLocaleString("en")} of ${items.length.toLocaleString("en")} items`;
    head.replaceChildren(header("Outcome", "worst"), header("Item", "item"),
      ...shownColumns().map((position) => {
        const { name, lower } = data.evaluators[position];
        return header(name, `score.${name}`, "num score", lower ? "desc" : "asc");
      }),
      header("Time", "latency", "num time", "desc"));
    for (const item of items) item.row = null;
    body.replaceChildren();
    rendered = 0;
    renderMore();
    emptyState.hidden = visible.length > 0;
  };

  // ---- the drawer ----

  const drawer = el("aside", { class: "drawer", role: "dialog", "aria-labelledby": "drawer-title", hidden: true, tabindex: "-1" });
  let current = null;
  const itemOf = (key) => items.find((item) => item.key === key);
  const markCurrent = () => {
    for (const row of body.querySelectorAll(".current")) row.classList.remove("current");
    if (current && current.row) current.row.classList.add("current");
  };
  const openItem = (item) => change({ item: item.key, run: "" });
  const closeItem = () => {
    change({ item: "", run: "" });
    if (current && current.row) current.row.querySelector(".open").focus();
  };
  const move = (step) => {
    if (!visible.length) return;
    const position = visible.indexOf(current);
    const next = position < 0 ? (step > 0 ? 0 : visible.length - 1) : Math.min(Math.max(position + step, 0), visible.length - 1);
    while (rendered <= next) renderMore();
    current = visible[next];
    if (state.item) openItem(current);
    else current.row.querySelector(".open").focus({ preventScroll: true });
    markCurrent();
    current.row.scrollIntoView({ block: "nearest" });
  };

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

  const block = (label, value, className) => [
    el("h3", null, el("span", { class: "foreign" }, label)),
    el("pre", { class: `text${className ? ` ${className}` : ""}`, tabindex: "0" }, value),
  ];
  const comparison = (label, expected, actual) => {
    if (expected == null) return block(label, actual);
    // What only evaluators look at, such as the keys of relevant documents, has no output to stand beside.
    if (actual == null && !produced.has(label)) return block(`Expected ${label}`, expected);
    const suffix = label === "output" ? "" : ` ${label}`;
    const diff = actual == null || expected === actual ? null : wordDiff(expected, actual);
    const note = actual == null ? "" : expected === actual ? "identical" : diff ? "" : "too long to mark differences";
    return el("div", { class: "pair" },
      el("div", null, el("h3", null, `Expected${suffix}`, el("small", null, note || (diff ? "underlined: missing from the output" : ""))),
        el("pre", { class: "text", tabindex: "0" }, diff ? diff[0] : expected)),
      el("div", null, el("h3", null, `Actual${suffix}`, el("small", null, diff ? "dashed: not expected" : "")),
        actual == null ? el("p", { class: "muted" }, "No such output.") : el("pre", { class: "text", tabindex: "0" }, diff ? diff[1] : actual)));
  };
  const outputBlocks = (item, run) => {
    const expected = new Map(pairs(item.expected));
    const actual = new Map(pairs(run.outputs));
    // Expected calls are compared as text only where there are no actual ones to draw.
    const keys = [...new Set([...expected.keys(), ...actual.keys()])].filter((key) => key !== "toolCalls" || !run.calls.length);
    const blocks = keys.map((key) => comparison(key, expected.get(key), actual.get(key)));
    if (!run.calls.length) return blocks;
    const calls = run.calls.map(([name, args, result]) => el("li", null,
      el("span", { class: "tool" }, text(name)),
      text(args) === "{}" ? null : el("pre", { class: "text", tabindex: "0" }, text(args)),
      result < 0 ? null : [el("div", { class: "muted" }, "returned"), el("pre", { class: "text", tabindex: "0" }, text(result))]));
    const wanted = expected.get("toolCalls");
    return [...blocks, wanted == null ? [] : block("Expected tool calls", wanted),
      el("h3", null, `Tool calls (${run.calls.length})`), el("ol", { class: "timeline" }, calls)];
  };

  const judgement = (one) => {
    const outcome = outcomeOf(one);
    const sign = one.skipped != null ? "– skipped" : one.error != null ? (one.strict ? "! error" : "! warning") : one.success < 0 ? "informs" : WORDS[outcome];
    const shade = one.error != null ? "errored" : outcome;
    const lower = data.evaluators[one.e].lower;
    return el("div", { class: "judgement" },
      el("div", { class: "line" },
        el("span", { class: `sign ${shade}` }, sign),
        el("span", { class: "name" }, data.evaluators[one.e].name),
        el("span", { class: "value" }, one.score === null ? "–" : fixed(one.score, 2)),
        one.threshold === null ? null : el("span", { class: "muted" }, `${lower ? "at most" : "at least"} ${fixed(one.threshold, 2)}`)),
      one.reason ? el("div", { class: "reason" }, one.reason) : null,
      one.error != null ? el("pre", { class: "text problem" }, one.error) : null,
      one.skipped != null ? el("div", { class: "reason muted" }, one.skipped) : null,
      one.metadata ? el("details", null, el("summary", null, "Details"), el("pre", { class: "text" }, one.metadata)) : null);
  };

  const metricsLine = ([latency, firstChunk, cost, tokensIn, tokensOut, model]) => [
    latency == null ? null : duration(latency),
    firstChunk == null ? null : `first chunk ${duration(firstChunk)}`,
    tokensIn == null && tokensOut == null ? null : `${tokensIn ?? "?"} tokens in, ${tokensOut ?? "?"} out`,
    cost == null ? (tokensIn == null && tokensOut == null ? null : "unpriced") : `$${fixed(cost, 4)}`,
    model == null || model < 0 ? null : text(model),
  ].filter(Boolean).join(" · ");

  const runTable = (item, shown) => {
    const cell = (position, content, extra) => el("td", { class: `num${position === shown ? " shown" : ""}${extra || ""}` }, content);
    const rows = data.evaluators.map(({ name }, e) => [name, e]).filter(([, e]) => item.byEvaluator[e].given);
    return el("div", { class: "runs scroll" }, el("table", null,
      el("thead", null, el("tr", null, el("td"), item.runs.map((run, position) =>
        el("th", { class: `num${position === shown ? " shown" : ""}` }, el("button", { type: "button", disabled: !run, "aria-pressed": String(position === shown), onclick: () => change({ run: String(position + 1) }) }, `Run ${position + 1}`))))),
      el("tbody", null,
        el("tr", null, el("th", { scope: "row" }, "Outcome"), item.runs.map((run, position) =>
          cell(position, run ? el("span", { class: `sign ${run.outcome}` }, WORDS[run.outcome]) : "not run"))),
        rows.map(([name, e]) => el("tr", null, el("th", { scope: "row", class: "foreign" }, name), item.runs.map((run, position) => {
          const one = run && run.evaluations.find((found) => found.e === e);
          if (!one) return cell(position, "–");
          const bad = one.error != null ? " cell-errored" : outcomeOf(one) === "failed" ? " cell-failed" : "";
          const score = one.score === null ? "skipped" : `${bad ? "✗ " : ""}${fixed(one.score, 2)}`;
          return cell(position, one.error != null ? "! error" : score, bad);
        }))))));
  };

  const fillDrawer = (item) => {
    const wanted = Number(state.run) - 1;
    const worst = item.runs.findIndex((run) => run && run.outcome === item.outcome);
    const shown = item.runs[wanted] ? wanted : Math.max(worst, 0);
    const run = item.runs[shown];
    const position = visible.indexOf(item);
    const step = (label, by, title) => el("button", { type: "button", class: "plain-button", title, "aria-label": title, disabled: position < 0 || !visible[position + by], onclick: () => move(by) }, label);
    const metrics = metricsLine(run.metrics);
    const parts = [
      data.runs > 1 ? runTable(item, shown) : null,
      metrics ? el("p", { class: "metrics" }, metrics) : null,
      run.error == null ? null : block("Error of the task", run.error, "problem"),
      pairs(item.inputs).flatMap(([key, value]) => block(key === "input" ? "Input" : `Input ${key}`, value)),
      outputBlocks(item, run),
      el("h3", null, "Evaluators"),
      run.evaluations.length ? run.evaluations.map(judgement) : el("p", { class: "muted" }, "No evaluator was applied."),
      item.metadata.length ? [el("h3", null, "Metadata"), el("pre", { class: "text" }, pairs(item.metadata).map(([key, value]) => `${key}: ${value}`).join("\n"))] : null,
    ];
    drawer.replaceChildren(
      el("div", { class: "drawer-head" },
        el("span", { class: `sign ${run.outcome}` }, WORDS[run.outcome]), el("h2", { id: "drawer-title" }, item.key),
        step("↑", -1, "Previous item (k)"), step("↓", 1, "Next item (j)"),
        el("button", { type: "button", class: "plain-button close", "aria-label": "Close (Esc)", title: "Close (Esc)", onclick: closeItem }, "✕")),
      el("div", { class: "drawer-body" }, parts));
  };
  const refreshDrawer = () => {
    const item = state.item && itemOf(state.item);
    const wasHidden = drawer.hidden;
    drawer.hidden = !item;
    if (!item) return;
    current = item;
    fillDrawer(item);
    markCurrent();
    if (wasHidden) drawer.focus({ preventScroll: true });
  };

  // ---- wiring ----

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && state.item) { closeItem(); return; }
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "/") { event.preventDefault(); search.focus(); }
    else if (event.key === "Enter" && current && !state.item && event.target === document.body) openItem(current);
  });
  let typing = 0;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => change({ q: search.value }), 80); });
  judge.addEventListener("change", () => change({ by: judge.value, sort: "worst", dir: "asc" }));
  for (const name of document.querySelectorAll(".evaluators .name")) {
    const show = () => { change({ by: name.dataset.evaluator, show: "all", sort: "worst", dir: "asc" }); document.getElementById("items").scrollIntoView(); };
    name.replaceWith(el("button", { type: "button", class: "link foreign", title: "Show its items, worst first", onclick: show }, name.textContent));
  }
  for (const key of document.querySelectorAll(".first [data-item]")) {
    const open = () => { const item = itemOf(key.dataset.item); if (item) openItem(item); };
    key.replaceWith(el("button", { type: "button", class: "link key foreign", onclick: open }, key.textContent));
  }
  app.append(
    el("div", { class: "toolbar" }, search,
      el("label", null, "judged by", judge),
      tagSelects.map(([key, select]) => el("label", null, el("span", { class: "foreign" }, key), select)), chips),
    el("p", { class: "summary-line" }, total,
      el("span", { class: "keys" }, el("kbd", null, "j"), " ", el("kbd", null, "k"), " move · ", el("kbd", null, "Enter"), " open · ", el("kbd", null, "Esc"), " close · ", el("kbd", null, "/"), " search")),
    el("div", { class: "scroll" }, el("table", { class: "list" }, el("thead", null, head), body)), emptyState, more);
  document.body.append(drawer);
  app.hidden = false;
  new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) renderMore(); }, { rootMargin: "1200px" }).observe(more);
  window.addEventListener("hashchange", () => { readState(); refresh(); });
  readState();
  refresh();
  if (current && current.row) current.row.scrollIntoView({ block: "center" });
})();
