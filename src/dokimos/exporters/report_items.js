const PAGE = 100;
const MAX_SCORE_COLUMNS = 6;
const FOLD_FROM = 1200;
const OUTCOMES = ["errored", "failed", "unjudged", "informational", "passed"];
const WORDS = { errored: "! error", failed: "✗ fail", unjudged: "– not judged", informational: "· informational", passed: "✓ pass" };
const SIGNS = { errored: "!", failed: "✗", unjudged: "·", passed: "✓" };
const DEFAULTS = { q: "", show: "all", by: "", sort: "worst", dir: "asc", item: "", run: "" };


/** The list of a result's items with search, filters and a drawer; its state is kept at `address`. */
const itemsView = (data, address) => {
  // Below -1 are texts that several results share.
  const text = (position) => (position >= 0 ? data.strings[position] : position === -1 ? null : data.shared[-2 - position]);

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
  const goodness = (evaluation) => {
    const { lower, range } = data.evaluators[evaluation.e];
    const share = range ? (evaluation.score - range[0]) / (range[1] - range[0]) : evaluation.score;
    return lower ? 1 - share : share;
  };
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
    const next = { ...DEFAULTS, tags: {} };
    for (const [key, value] of address.read()) {
      if (key.startsWith("tag.")) next.tags[key.slice(4)] = value;
      else if (key in DEFAULTS) next[key] = value;
    }
    state = next;
  };
  const writeState = () => {
    const kept = new URLSearchParams();
    for (const [key, value] of Object.entries(DEFAULTS)) if (state[key] !== value) kept.set(key, state[key]);
    for (const [key, value] of Object.entries(state.tags)) if (value) kept.set(`tag.${key}`, value);
    address.write(kept);
  };
  const change = (changes) => { Object.assign(state, changes); writeState(); refresh(); };

  // ---- filters ----

  const chosen = () => data.evaluators.findIndex((one) => one.name === state.by);
  const CHIPS = [
    ["all", "All", (view, e) => e < 0 || view.given],
    ["failed", "✗ Failed", (view) => view.outcome === "failed"],
    ["errored", "! Errored", (view) => view.outcome === "errored"],
    ["passed", "✓ Passed", (view) => view.outcome === "passed"],
    ...(items.some((item) => item.outcome === "informational") ? [["informational", "· Informational", (view) => view.outcome === "informational"]] : []),
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
      const warned = (view) => (e < 0 ? view.warned : view.soft);
      const order = (a, b) => rank(a) - rank(b) || warned(viewOf(b, e)) - warned(viewOf(a, e)) ||
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
  const timeline = (calls) => el("ol", { class: "timeline" }, calls.map(({ name, args, result, error }) => el("li", null,
    el("span", { class: "tool" }, name),
    args === "{}" || args == null ? null : folded(args),
    result == null ? null : [el("div", { class: "muted" }, "returned"), folded(result)],
    error == null ? null : [el("div", { class: "muted" }, "failed"), el("pre", { class: "text problem", tabindex: "0" }, error)])));
  /** A text that takes no room until it is asked for, where it is long. */
  const folded = (value) => {
    const whole = el("pre", { class: "text", tabindex: "0" }, value);
    if (value.length <= FOLD_FROM) return whole;
    return el("details", null, el("summary", { class: "muted" }, `${oneLine(value, 80)} (${value.length.toLocaleString("en")} characters)`), whole);
  };

  // ---- conversations ----

  const parsed = (value) => { try { return JSON.parse(value); } catch { return null; } };
  const indented = (value) => { const tree = parsed(value); return tree === null ? value : JSON.stringify(tree, null, 2); };
  const asText = (value) => (value == null ? null : typeof value === "string" ? value : JSON.stringify(value, null, 2));
  /** The turns that an output holds as JSON, null where it holds something else. */
  const turnsIn = (value, strict = true) => {
    const turns = value == null ? null : parsed(value);
    if (!Array.isArray(turns) || !turns.length) return null;
    return !strict || turns.every((turn) => turn && typeof turn === "object" && "input" in turn) ? turns : null;
  };
  /** The arguments of a call, or what the model wrote in their place. */
  const argumentsOf = ({ arguments: known, args, metadata }) =>
    metadata?.unknownArguments ? "not recorded" : asText(metadata?.invalidArguments || (known ?? args ?? null));
  const callOf = (call) => ({
    name: String(call.name ?? "?"), args: argumentsOf(call),
    result: asText(call.result ?? null), error: asText(call.error ?? null),
  });
  const turnRows = (evaluations, index) => evaluations.flatMap((one) => {
    const rows = (one.metadata && (parsed(one.metadata) || {}).turns) || [];
    return Array.isArray(rows) ? rows.filter((row) => row && row.turn === index).map((row) => ({ ...row, name: data.evaluators[one.e].name })) : [];
  });
  const turnVerdict = (row) => {
    const outcome = row.error != null ? "errored" : row.success === true ? "passed" : row.success === false ? "failed" : "unjudged";
    const score = typeof row.score === "number" ? ` ${fixed(row.score, 2)}` : "";
    return el("li", null, el("span", { class: `sign ${outcome}` }, SIGNS[outcome]), " ",
      el("span", { class: "foreign" }, `${row.name}${score}`),
      row.error ?? row.skipped ?? row.reason ? el("span", { class: "reason muted" }, ` ${row.error ?? row.skipped ?? row.reason}`) : null);
  };
  const conversation = (turns, truths, evaluations) => [
    el("h3", null, `Conversation (${turns.length} turns)`),
    el("ol", { class: "thread" }, turns.map((turn, index) => {
      const calls = Array.isArray(turn.toolCalls) ? turn.toolCalls.filter((call) => call && typeof call === "object").map(callOf) : [];
      const context = turn.retrievalContext ?? turn.context;
      const rows = turnRows(evaluations, index);
      return el("li", null,
        el("div", { class: "said" }, el("h3", null, `Turn ${index + 1}`), el("pre", { class: "text", tabindex: "0" }, asText(turn.input))),
        calls.length ? timeline(calls) : null,
        context == null ? null : [el("div", { class: "muted" }, "retrieved"), folded(asText(context))],
        turn.error == null ? comparison("output", asText(truths[index] ?? null), asText(turn.output)) : block("No reply", asText(turn.error), "problem"),
        rows.length ? el("ul", { class: "turn-verdicts" }, rows.map(turnVerdict)) : null);
    })),
  ];

  /** The inputs, without those that a conversation shows turn by turn. */
  const shownInputs = (item, run) => {
    const isConversation = turnsIn(new Map(pairs(run.outputs)).get("turns")) !== null;
    return pairs(item.inputs).filter(([key]) => !isConversation || (key !== "input" && key !== "turns"));
  };

  const outputBlocks = (item, run) => {
    const expected = new Map(pairs(item.expected));
    const actual = new Map(pairs(run.outputs));
    const turns = turnsIn(actual.get("turns"));
    if (turns) return conversation(turns, turnsIn(expected.get("turns"), false) || [], run.evaluations);
    // Expected calls are compared as text only where there are no actual ones to draw.
    const keys = [...new Set([...expected.keys(), ...actual.keys()])].filter((key) => key !== "toolCalls" || !run.calls.length);
    const blocks = keys.map((key) => comparison(key, expected.get(key), actual.get(key)));
    if (!run.calls.length) return blocks;
    const calls = run.calls.map(([name, args, result]) => ({ name: text(name), args: indented(text(args)), result: result < 0 ? null : text(result) }));
    const wanted = expected.get("toolCalls");
    return [...blocks, wanted == null ? [] : block("Expected tool calls", wanted),
      el("h3", null, `Tool calls (${calls.length})`), timeline(calls)];
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
      details(one.metadata));
  };
  /** What an evaluator has kept beside its reason; tools that were expected are told one by one. */
  const details = (metadata) => {
    if (!metadata) return null;
    const { called, expected } = parsed(metadata) || {};
    const whole = el("details", null, el("summary", null, "Details"), el("pre", { class: "text" }, indented(metadata)));
    if (!Array.isArray(called) || !Array.isArray(expected) || !expected.length) return whole;
    const tools = expected.map((name) => {
      const found = called.some((other) => String(other).includes(String(name)));
      return el("li", { class: found ? "passed" : "failed" }, `${found ? "✓" : "✗"} ${name}`);
    });
    const count = tools.filter((one) => one.className === "passed").length;
    return [el("ul", { class: "coverage" }, el("li", { class: "muted" }, `${count} of ${expected.length} expected tools called`), tools), whole];
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
      shownInputs(item, run).flatMap(([key, value]) => block(key === "input" ? "Input" : `Input ${key}`, value)),
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

  const leaving = new AbortController();
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
  }, { signal: leaving.signal });
  let typing = 0;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => change({ q: search.value }), 80); });
  judge.addEventListener("change", () => change({ by: judge.value, sort: "worst", dir: "asc" }));
  const node = el("div", { class: "items-view" },
    el("div", { class: "toolbar" }, search,
      el("label", null, "judged by", judge),
      tagSelects.map(([key, select]) => el("label", null, el("span", { class: "foreign" }, key), select)), chips),
    el("p", { class: "summary-line" }, total,
      el("span", { class: "keys" }, el("kbd", null, "j"), " ", el("kbd", null, "k"), " move · ", el("kbd", null, "Enter"), " open · ", el("kbd", null, "Esc"), " close · ", el("kbd", null, "/"), " search")),
    el("div", { class: "scroll" }, el("table", { class: "list" }, el("thead", null, head), body)), emptyState, more);
  const watch = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) renderMore(); }, { rootMargin: "1200px" });
  watch.observe(more);
  return {
    node,
    drawer,
    /** Read the state from the address and show it. */
    show() {
      readState();
      refresh();
    },
    /** Bring what is open into sight. */
    reveal() { if (current && current.row) current.row.scrollIntoView({ block: "center" }); },
    byEvaluator(name) { change({ by: name, show: "all", sort: "worst", dir: "asc" }); },
    open(key) { const item = itemOf(key); if (item) openItem(item); },
    leave() { leaving.abort(); watch.disconnect(); drawer.remove(); },
  };
};
