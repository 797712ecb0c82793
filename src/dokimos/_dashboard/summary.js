// ---- how the runs developed ----

const card = (label, value, ...notes) => el("div", { class: "card" }, el("h2", null, label), el("p", { class: "value" }, value), el("p", { class: "note" }, notes));
const points = (difference) => signed(`${fixed(difference * 100, 1)} points`, difference);
const costText = (run) => {
  if (run.cost == null) return run.tokenized ? "unpriced" : UNKNOWN;
  return run.priced < run.tokenized ? `${usd(run.cost)} (${count(run.priced)}/${count(run.tokenized)} priced)` : usd(run.cost);
};
const latestOf = (runs) => runs[runs.length - 1];

const tiles = (runs, all, state) => {
  const latest = latestOf(runs);
  const before = runs[runs.length - 2];
  const now = ratesOf(latest, state.tag);
  const earlier = before && ratesOf(before, state.tag);
  const moved = earlier && earlier.rate !== null && now.rate !== null ? ` · ${points(now.rate - earlier.rate)} since the run before` : "";
  const judged = latest.evaluators.filter((one) => ["geval", "rag", "judge"].includes(one.kind) && one.mean !== null && !one.lower && !one.range);
  const quality = judged.length ? judged.reduce((sum, one) => sum + one.mean, 0) / judged.length : null;
  const priced = runs.filter((run) => run.cost != null);
  return el("section", { class: "cards", "aria-label": "Summary" },
    card("Pass rate, latest run", percent(now.rate), now.rate === null ? "not judged" : `n = ${count(now.judged)}${moved}`),
    card("Runs", count(runs.length), runs.length === all.length ? `since ${all[0].started.slice(0, 10)}` : `of ${count(all.length)}, by the filters`),
    card("Judged metrics, mean", score(quality), judged.length ? `over ${judged.length} in the latest run` : "none in the latest run"),
    card("Latency, median", latest.latency == null ? UNKNOWN : duration(latest.latency),
      latest.latency == null ? "not measured" : `95th percentile ${latest.p95 == null ? UNKNOWN : duration(latest.p95)}`, latest.seconds == null ? "" : ` · the run took ${duration(latest.seconds * 1000)}`),
    card("Cost of these runs", priced.length ? usd(priced.reduce((sum, run) => sum + run.cost, 0)) : UNKNOWN,
      priced.length ? `${priced.length} of ${runs.length} runs priced` : runs.some((run) => run.tokenized) ? "unpriced" : "no cost reported"));
};

/** Where a score lies in the range of its metric, from 0 to 1. */
const shareOf = ({ range }, score) => (range && score !== null ? (score - range[0]) / (range[1] - range[0]) : score);

const ruleOf = ({ threshold, lower, decides }) => {
  if (threshold !== null) return `${lower ? "at most" : "at least"} ${score(threshold)}`;
  return `${decides ? "a yes or no of its own" : "informs only"}${lower ? " · lower is better" : ""}`;
};

const KIND_WORDS = {
  standard: "Computed", geval: "By criteria (geval)", rag: "Retrieval and answer (rag)", judge: "Judged", agent: "Agent",
  tools: "Expected tools", code: "Code graders", conversation: "Conversation", retrieval: "Retrieval",
};

const metricTrends = (runs, state) => {
  const kinds = new Map();
  for (const run of runs) for (const { kind, name } of run.evaluators) {
    if (state.kind && kind !== state.kind) continue;
    if (!kinds.has(kind)) kinds.set(kind, new Set());
    kinds.get(kind).add(name);
  }
  return [...kinds].map(([kind, names]) => el("section", { class: "kind", "data-kind": kind }, el("h3", null, KIND_WORDS[kind] || kind),
    el("div", { class: "sparks" }, [...names].map((name) => sparkCard(name, runs)))));
};

const sparkCard = (name, runs) => {
  const found = runs.map((run) => run.evaluators.find((one) => one.name === name));
  const known = found.filter((one) => one && one.mean !== null);
  const last = known[known.length - 1];
  const before = known[known.length - 2];
  const rule = last ? ruleOf(last) : "";
  return el("div", { class: "card spark-card" }, el("h2", { class: "foreign" }, name),
    el("p", { class: "value" }, last ? score(last.mean) : UNKNOWN, before ? el("small", null, signed(fixed(last.mean - before.mean, 2), last.mean - before.mean)) : null),
    sparkline(found.map((one) => (one ? shareOf(one, one.mean) : null)), last ? shareOf(last, last.threshold) : null),
    el("p", { class: "note" }, rule, last && last.judged ? ` · ${count(last.passed)}/${count(last.judged)} passed` : "", last && last.errors ? ` · ${last.errors} errors` : "", last && last.skipped ? ` · ${last.skipped} skipped` : ""));
};

const runsTable = (runs, state, { open, choose, chosen }) => {
  const has = (key) => runs.some((run) => run[key]);
  const [versions, models, costs] = [has("version"), has("model"), runs.some((run) => run.cost != null || run.tokenized)];
  const number = (value, text, kind) => el("td", { class: `num${kind ? ` ${kind}` : ""}`, "data-sort": value ?? "" }, text);
  const rows = [...runs].reverse().map((run) => {
    const { rate, judged } = ratesOf(run, state.tag);
    const box = el("input", { type: "checkbox", "aria-label": `Compare ${run.id}`, checked: chosen.includes(run.id), onchange: () => choose(run.id, box.checked) });
    const place = tierOf(rate);
    return el("tr", { "data-run": run.id }, el("td", { class: "pick" }, box),
      el("th", { scope: "row", "data-sort": run.started }, el("button", { type: "button", class: "link", onclick: () => open(run) }, day(run.started)), el("span", { class: "rule foreign" }, run.id)),
      versions ? el("td", { class: "foreign", "data-sort": run.version }, oneLine(run.version || UNKNOWN, 28)) : null,
      models ? el("td", { class: "foreign", "data-sort": run.model }, oneLine(run.model || UNKNOWN, 28)) : null,
      number(rate, [el("span", { class: `tier ${place}` }, percent(rate)), el("span", { class: "rule" }, `n = ${count(judged)}`)]),
      el("td", { class: "bar" }, outcomeBar(run), run.status === "completed" ? null : el("span", { class: "tail" }, `! ${run.status.replace("_", " ")}`)),
      number(run.errored, run.errored ? `${count(run.errored)} !` : UNKNOWN, run.errored ? "error" : ""),
      costs ? number(run.cost, costText(run)) : null,
      number(run.latency, run.latency == null ? UNKNOWN : duration(run.latency)),
      number(run.drop ? run.drop.drop : null, run.drop ? el("span", { class: "sign failed", title: `${run.drop.worse} worse, ${run.drop.better} better, p = ${fixed(run.drop.p, 3)}` }, `▼ ${fixed(run.drop.drop * 100, 1)}`, el("span", { class: "rule" }, run.drop.p <= 0.05 ? "not by chance" : "may be chance")) : ""));
  });
  const head = (label, number) => el("th", { scope: "col", class: number ? "num" : "" }, label);
  const table = el("table", { class: "sortable runs-table" }, el("thead", null, el("tr", null, el("th", { class: "plain", scope: "col" }, el("span", { class: "muted" }, "Compare")),
    head("Started"), versions ? head("Version") : null, models ? head("Model") : null, head("Passed", true), el("th", { class: "plain", scope: "col" }, "Outcomes"),
    head("Errors", true), costs ? head("Cost", true) : null, head("Latency", true), head("Fell", true))), el("tbody", null, rows));
  makeSortable(table);
  return el("div", { class: "scroll" }, table);
};
const tierOf = (rate) => (rate === null ? "" : rate >= 0.85 ? "high" : rate >= 0.65 ? "middle" : "low");

const summaryView = (suite, state, actions, width) => {
  const kept = suite.filter(keeps(state));
  const bar = filterBar(suite, state, actions.set);
  if (!kept.length) {
    return [bar, el("p", { class: "empty-state" }, "No run matches these filters. Clear some of them.")];
  }
  const chart = kept.map((run) => ({ run, ...ratesOf(run, state.tag) }));
  const legend = ["Each point is a run, with its 95 % interval; open one for its cases.", kept.some((run) => run.drop) ? " ▼ marks a fall of more than 4 points against the run before on the same cases; a hollow one may be chance." : "", new Set(kept.map((run) => run.version)).size > 1 ? " Dashed lines divide prompt versions." : ""];
  const chosen = state.with.split(",").filter(Boolean);
  return [bar, tiles(kept, suite, state),
    el("section", null, el("h2", null, `Pass rate${state.tag ? " of cases tagged " : ""}`, state.tag ? el("bdi", null, state.tag) : null), el("div", { class: "chart" }, trendChart(chart, width, actions.open)), el("p", { class: "note muted" }, legend)),
    el("section", null, el("h2", null, "Metrics"), el("div", { class: "kinds" }, metricTrends(kept, state))),
    el("section", null, el("div", { class: "heading" }, el("h2", null, "Runs"),
      el("button", { type: "button", class: "plain-button compare-button", disabled: chosen.length < 2, onclick: () => actions.go({ view: "compare" }) }, chosen.length < 2 ? "Choose two or three to compare" : `Compare ${chosen.length} runs`)),
      runsTable(kept, state, { open: actions.open, choose: actions.choose, chosen }))];
};
