const MAX_SCORE_COLUMNS = 6;
const NO_VIEW = { given: false, outcome: "unjudged", soft: false, score: null, worst: 2, skipped: false, changed: false };
const mean = (numbers) => (numbers.length ? numbers.reduce((a, b) => a + b, 0) / numbers.length : null);

/** The items of a result as objects, and what they are read with. */
const readItems = (data) => {
  // Below -1 are texts that several results share.
  const text = (position) => (position >= 0 ? data.strings[position] : position === -1 ? null : data.shared[-2 - position]);
  const pairs = (flat) => {
    const found = [];
    for (let i = 0; i < flat.length; i += 2) found.push([text(flat[i]), text(flat[i + 1])]);
    return found;
  };
  const readOrigin = (packed) => packed && { place: text(packed[0]), frames: text(packed[1]), traceback: text(packed[2]) };
  const readEvaluation = ([e, score, success, threshold, reason, error, skipped, metadata, strict, label, origin]) => ({
    e, score, success, threshold, reason: text(reason), error: text(error), skipped: text(skipped),
    metadata: text(metadata), strict: strict === 1, label: text(label), origin: readOrigin(origin),
  });
  const readRun = (run) => run && {
    outcome: OUTCOMES[run[0]], outputs: run[1], calls: run[2], error: text(run[3]), metrics: run[4],
    evaluations: run[5].map(readEvaluation), origin: readOrigin(run[6]),
  };
  const worstOf = (outcomes) => ["errored", "failed", "passed"].find((o) => outcomes.includes(o)) || "unjudged";
  const goodness = (evaluation) => {
    const { lower, range } = data.evaluators[evaluation.e];
    const share = range ? (evaluation.score - range[0]) / (range[1] - range[0]) : evaluation.score;
    return lower ? 1 - share : share;
  };
  const viewOf = (own) => ({
    given: true,
    outcome: worstOf(own.map(outcomeOf)),
    soft: own.some((one) => one.error != null && !one.strict),
    score: mean(own.filter((one) => one.score !== null).map((one) => one.score)),
    worst: Math.min(2, ...own.filter((one) => one.score !== null).map(goodness)),
    skipped: own.some((one) => one.skipped != null),
    changed: new Set(own.map(outcomeOf)).size > 1,
  });

  const items = data.items.map(([key, index, outcome, inputs, expected, metadata, tags, packedRuns], place) => {
    const runs = packedRuns.map(readRun);
    const done = runs.filter(Boolean);
    const evaluations = done.flatMap((run) => run.evaluations);
    // Worked out when an item is first shown: thousands of items, or of evaluators, open at once.
    let views = null;
    const viewsOf = () => {
      const own = new Map();
      for (const one of evaluations) own.has(one.e) ? own.get(one.e).push(one) : own.set(one.e, [one]);
      return new Map([...own].map(([e, found]) => [e, viewOf(found)]));
    };
    let worst = 2;
    for (const one of evaluations) if (one.score !== null) worst = Math.min(worst, goodness(one));
    return {
      key, index, place, inputs, expected, metadata, tags: tags.map((own) => own.map(text)), runs,
      outcome: OUTCOMES[outcome],
      /** The evaluators that were applied. */
      get given() { return [...(views ??= viewsOf()).keys()]; },
      by(e) { return (views ??= viewsOf()).get(e) || NO_VIEW; },
      warned: evaluations.some((one) => one.error != null && !one.strict),
      changed: new Set(done.map((run) => run.outcome)).size > 1,
      worst,
      latency: mean(done.map((run) => run.metrics[0]).filter((value) => value != null)),
      haystack: null,
    };
  });
  return { items, text, pairs, goodness };
};

/** The list of a result's items with search, filters and a drawer; its state is kept at `address`. */
const itemsView = (data, address) => {
  const { items, text, pairs, goodness } = readItems(data);
  const produced = new Set(["output", "toolCalls"]);
  for (const item of items) {
    for (const { outputs } of item.runs.filter(Boolean)) {
      for (let i = 0; i < outputs.length; i += 2) produced.add(text(outputs[i]));
    }
  }
  const timed = items.some((item) => item.latency !== null);

  const haystack = (item) => {
    if (item.haystack === null) {
      const parts = [item.key, ...item.tags.flat()];
      const add = (flat) => { for (let i = 1; i < flat.length; i += 2) parts.push(text(flat[i])); };
      [item.inputs, item.expected, ...item.runs.filter(Boolean).map((run) => run.outputs)].forEach(add);
      for (const run of item.runs.filter(Boolean)) {
        parts.push(run.error, run.origin && run.origin.frames, ...run.calls.flat().map(text));
        for (const one of run.evaluations) parts.push(one.reason, one.error, one.skipped, one.origin && one.origin.frames);
      }
      item.haystack = parts.filter(Boolean).join("\n").toLowerCase();
    }
    return item.haystack;
  };

  // ---- filters and order ----

  const placeOf = new Map(data.evaluators.map(({ name }, place) => [name, place]));
  const chosen = (state) => placeOf.get(state.by) ?? -1;
  const viewOf = (item, e) => (e < 0 ? item : item.by(e));
  const anyInformational = items.some((item) => item.outcome === "informational");
  const chipsOf = (state) => {
    const e = chosen(state);
    const outcome = (wanted) => (item) => viewOf(item, e).outcome === wanted;
    return [
      ["all", "All", (item) => e < 0 || item.by(e).given],
      ["failed", "✗ Failed", outcome("failed")],
      ["errored", "! Errored", outcome("errored")],
      ["passed", "✓ Passed", outcome("passed")],
      ...(anyInformational ? [["informational", "· Informational", outcome("informational")]] : []),
      ["unjudged", "– Not judged", (item) => outcome("unjudged")(item) && (e < 0 || item.by(e).given)],
      ["warnings", "Warnings", (item) => (e < 0 ? item.warned : item.by(e).soft)],
      ...(data.runs > 1 ? [["changed", "≠ Differs between runs", (item) => viewOf(item, e).changed]] : []),
    ];
  };
  const compareBy = (state) => {
    const e = chosen(state);
    const score = state.sort.startsWith("score.") ? placeOf.get(state.sort.slice(6)) ?? -1 : -1;
    const number = { item: (item) => item.index, latency: (item) => item.latency }[state.sort] ||
      (score >= 0 ? (item) => item.by(score).score : null);
    const warned = (item) => Number(e < 0 ? item.warned : item.by(e).soft);
    if (!number) {
      const rank = (item) => OUTCOMES.indexOf(viewOf(item, e).outcome);
      return (a, b, sign) => sign * (rank(a) - rank(b) || warned(b) - warned(a) || viewOf(a, e).worst - viewOf(b, e).worst || a.index - b.index);
    }
    return (a, b, sign) => {
      const [x, y] = [number(a), number(b)];
      return x == null || y == null ? (x == null) - (y == null) : sign * (x - y);
    };
  };

  // ---- the list ----

  /** The usual value of a map, else all of it. */
  const mainText = (flat, usual) => {
    const found = pairs(flat).filter(([key]) => key !== "toolCalls");
    const main = found.length === 1 ? found[0] : found.find(([key]) => key === usual);
    return main ? main[1] : found.map(([key, value]) => `${key}: ${value}`).join(" · ");
  };
  const inputText = (item) => mainText(item.inputs, "input");
  const worstRun = (item) => item.runs.find((run) => run && run.outcome === item.outcome) || item.runs.find(Boolean);
  const why = (item) => {
    for (const run of item.runs) {
      if (!run || run.outcome !== item.outcome) continue;
      if (run.error) return located(run.error, run.origin);
      const bad = run.evaluations.filter((one) => outcomeOf(one) === item.outcome);
      bad.sort((a, b) => goodness(a) - goodness(b));
      if (item.outcome === "errored" && bad[0]) return `${data.evaluators[bad[0].e].name}: ${located(bad[0].error, bad[0].origin)}`;
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
    const view = item.by(e);
    if (view.outcome === "errored" || view.soft) return el("td", { class: "num score cell-errored" }, view.score === null ? "! error" : `! ${fixed(view.score, 2)}`);
    if (view.score === null) return el("td", { class: "num score muted" }, view.skipped ? "skipped" : "–");
    const failed = view.outcome === "failed";
    return el("td", { class: `num score${failed ? " cell-failed" : ""}` }, `${failed ? "✗ " : ""}${fixed(view.score, 2)}`);
  };
  /** Where there are many evaluators, those of most items: a column of dashes tells nothing. */
  const usual = (() => {
    const all = data.evaluators.map((_, place) => place);
    const counts = all.map(() => 0);
    for (const item of items) for (const e of new Set(item.runs.filter(Boolean).flatMap((run) => run.evaluations.map((one) => one.e)))) counts[e] += 1;
    const kept = all.filter((e) => counts[e]);
    if (kept.length <= MAX_SCORE_COLUMNS) return kept;
    return kept.sort((a, b) => counts[b] - counts[a] || a - b).slice(0, MAX_SCORE_COLUMNS).sort((a, b) => a - b);
  })();
  const shownColumns = (state) => {
    const e = chosen(state);
    if (e < 0 || usual.includes(e)) return usual;
    return [e, ...usual.slice(0, MAX_SCORE_COLUMNS - 1)];
  };
  const said = (label, value) => (value ? el("span", { class: "excerpt said-line" }, el("span", { class: "label" }, label), " ", el("span", { class: "foreign" }, oneLine(value, 300))) : null);
  const rowOf = (item, state) => {
    const reason = why(item);
    const run = worstRun(item);
    return el("tr", null,
      el("td", null, el("span", { class: `sign ${item.outcome}` }, WORDS[item.outcome]),
        item.warned ? el("span", { class: "tail" }, "! warning") : null,
        item.changed ? el("span", { class: "tail" }, "≠ differs") : null),
      el("td", { class: "item" }, el("button", { class: "open", type: "button", "aria-label": `Open ${item.key}, ${item.outcome}` },
        el("span", { class: "excerpt question" }, el("span", { class: "id foreign" }, item.key), " ", el("span", { class: "foreign" }, oneLine(inputText(item), 300))),
        said("got", mainText(run.outputs, "output")),
        said("want", mainText(item.expected, "output")),
        reason ? el("span", { class: `why ${item.outcome}` }, oneLine(reason, 400)) : null)),
      shownColumns(state).map((e) => scoreCell(item, e)),
      timed ? el("td", { class: "num time" }, item.latency === null ? "–" : duration(item.latency)) : null);
  };
  const headOf = (state, column) => [column("Outcome", "worst"), column("Item", "item"),
    ...shownColumns(state).map((position) => {
      const { name, lower } = data.evaluators[position];
      return column(name, `score.${name}`, "num score", lower ? "desc" : "asc");
    }),
    ...(timed ? [column("Time", "latency", "num time", "desc")] : [])];

  // ---- the drawer ----

  /** The inputs, without those that a conversation shows turn by turn. */
  const shownInputs = (item, run) => {
    const isConversation = turnsIn(new Map(pairs(run.outputs)).get("turns")) !== null;
    return pairs(item.inputs).filter(([key]) => !isConversation || (key !== "input" && key !== "turns"));
  };
  const judgedChunks = (run) => {
    const found = new Map();
    for (const one of run.evaluations) {
      if (data.evaluators[one.e].kind !== "contextual_precision" || !one.metadata) continue;
      for (const entry of (parsed(one.metadata) || {}).contexts || []) if (entry && typeof entry.context === "string") found.set(entry.context, entry);
    }
    return found;
  };
  /** What was retrieved and what is relevant, in the outputs and expected outputs, else in the metadata. */
  const retrievalOf = (item, run) => {
    const [actual, expected, metadata] = [run.outputs, item.expected, item.metadata].map((flat) => new Map(pairs(flat)));
    const keys = retrievalKeys(data.evaluators, run.evaluations.map((one) => one.e));
    const found = (names, first) => {
      const own = names.filter((key) => first.has(key));
      const values = own.length ? first : metadata;
      const used = own.length ? own : names.filter((key) => metadata.has(key));
      return { used, chunks: uniqueChunks(used.map((key) => values.get(key))) };
    };
    const [retrieved, relevant] = [found(keys.retrieved, actual), found(keys.relevant, expected)];
    return { retrieved: retrieved.chunks, relevant: relevant.chunks, matches: keys.matches, taken: new Set([...retrieved.used, ...relevant.used]) };
  };
  const metadataBlock = (item, run) => {
    const isConversation = turnsIn(new Map(pairs(run.outputs)).get("turns")) !== null;
    const taken = isConversation ? new Set() : retrievalOf(item, run).taken;
    const shown = pairs(item.metadata).filter(([key]) => !taken.has(key));
    return shown.length ? [el("h3", null, "Metadata"), plainText(shown.map(([key, value]) => `${key}: ${value}`).join("\n"))] : null;
  };
  const outputBlocks = (item, run) => {
    const expected = new Map(pairs(item.expected));
    const actual = new Map(pairs(run.outputs));
    const turns = turnsIn(actual.get("turns"));
    if (turns) return conversation(turns, turnsIn(expected.get("turns"), false) || [], run.evaluations, data.evaluators);
    const { retrieved, relevant, matches, taken } = retrievalOf(item, run);
    // Expected calls are compared as text only where there are no actual ones to draw.
    const others = [...new Set([...expected.keys(), ...actual.keys()])].filter((key) => !taken.has(key) && (key !== "toolCalls" || !run.calls.length));
    const verdict = ["failed", "passed"].find((wanted) => run.evaluations.some((one) => outcomeOf(one) === wanted));
    const blocks = others.map((key) => {
      // What only evaluators look at has no output to stand beside.
      if (!actual.has(key) && !produced.has(key)) return block(`Expected ${key}`, expected.get(key));
      return comparison(key, expected.get(key), actual.get(key), verdict, run.error == null ? undefined : "The task gave no output.");
    });
    const retrieval = chunkList(retrieved, relevant, matches, judgedChunks(run));
    if (!run.calls.length) return [blocks, retrieval];
    const calls = run.calls.map(([name, args, result]) => ({ name: text(name), args: indented(text(args)), result: result < 0 ? null : text(result) }));
    const wanted = expected.get("toolCalls");
    return [blocks, retrieval, wanted == null ? [] : block("Expected tool calls", wanted),
      el("h3", null, `Tool calls (${calls.length})`), timeline(calls)];
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
    return el("div", { class: "runs scroll" }, el("table", null,
      el("thead", null, el("tr", null, el("td"), item.runs.map((run, position) =>
        el("th", { class: `num${position === shown ? " shown" : ""}` }, el("button", { type: "button", disabled: !run, "aria-pressed": String(position === shown), onclick: () => view.change({ run: String(position + 1) }) }, `Run ${position + 1}`))))),
      el("tbody", null,
        el("tr", null, el("th", { scope: "row" }, "Outcome"), item.runs.map((run, position) =>
          cell(position, run ? el("span", { class: `sign ${run.outcome}` }, WORDS[run.outcome]) : "not run"))),
        item.given.map((e) => el("tr", null, el("th", { scope: "row", class: "foreign" }, data.evaluators[e].name), item.runs.map((run, position) => {
          const one = run && run.evaluations.find((found) => found.e === e);
          if (!one) return cell(position, "–");
          const bad = one.error != null ? " cell-errored" : outcomeOf(one) === "failed" ? " cell-failed" : "";
          const score = one.score === null ? "skipped" : `${bad ? "✗ " : ""}${fixed(one.score, 2)}`;
          return cell(position, one.error != null ? "! error" : score, bad);
        }))))));
  };

  const drawerOf = (item, state) => {
    const wanted = Number(state.run) - 1;
    const worst = item.runs.findIndex((run) => run && run.outcome === item.outcome);
    const shown = item.runs[wanted] ? wanted : Math.max(worst, 0);
    const run = item.runs[shown];
    const metrics = metricsLine(run.metrics);
    return { sign: run.outcome, word: WORDS[run.outcome], parts: [
      data.runs > 1 ? runTable(item, shown) : null,
      metrics ? el("p", { class: "metrics" }, metrics) : null,
      run.error == null && run.outcome !== "passed" && why(item) ? el("p", { class: `because ${run.outcome}` }, oneLine(why(item), 600)) : null,
      run.error == null ? null : [block("Error of the task", run.error, "problem"), origin(run.origin)],
      shownInputs(item, run).flatMap(([key, value]) => block(key === "input" ? "Input" : `Input ${key}`, value)),
      outputBlocks(item, run),
      el("h3", null, "Evaluators"),
      run.evaluations.length ? run.evaluations.map((one) => judgement(one, data.evaluators[one.e])) : el("p", { class: "muted" }, "No evaluator was applied."),
      metadataBlock(item, run),
    ] };
  };

  // ---- wiring ----

  const judge = el("select", null, el("option", { value: "" }, "whole item"), data.evaluators.map(({ name }) => el("option", { value: name }, name)));
  judge.addEventListener("change", () => view.change({ by: judge.value, sort: "worst", dir: "asc" }));
  const view = listView({
    items, address, haystack, tagKeys: data.tagKeys, chips: chipsOf, compare: compareBy, head: headOf, row: rowOf, drawer: drawerOf,
    defaults: { by: "", run: "" }, fresh: { run: "" }, cleared: { by: "" },
    placeholder: "Search input, output, reasons …", chipsLabel: "Filter by outcome",
    controls: data.evaluators.length > 1 ? [el("label", null, "judged by", judge)] : [],
    sync: (state) => { judge.value = state.by; },
  });
  return {
    ...view,
    items,
    /** The items in the order in which they are listed at first. */
    worstFirst: () => { const compare = compareBy({ by: "", sort: "worst" }); return [...items].sort((a, b) => compare(a, b, 1)); },
    byEvaluator(place) { view.change({ by: data.evaluators[place].name, show: "all", sort: "worst", dir: "asc" }); },
    openAt(place) { if (items[place]) view.open(items[place]); },
  };
};
