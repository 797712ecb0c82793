// ---- two or three runs side by side; the first one is the baseline ----

const CASES_AT_ONCE = 200;
const KINDS_OF_CHANGE = [["all", "All"], ["regressed", "✗ Regressed"], ["improved", "✓ Improved"], ["changed", "≠ Otherwise changed"], ["same", "Unchanged"], ["partly", "Not in every run"]];

const runPickers = (suite, chosen, go) => el("div", { class: "toolbar pickers" }, [0, 1, 2].map((place) => {
  const select = el("select", { "aria-label": ["Baseline", "Candidate", "Second candidate"][place], onchange: () => {
    const next = [0, 1, 2].map((other) => (other === place ? select.value : chosen[other] || "")).filter(Boolean);
    go({ with: [...new Set(next)].join(","), cases: "", only: "all" });
  } }, place === 2 ? el("option", { value: "" }, "none") : null, [...suite].reverse().map((run) => el("option", { value: run.id }, `${day(run.started)} · ${percent(run.rate)}${run.version ? ` · ${oneLine(run.version, 20)}` : ""}`)));
  select.value = chosen[place] || "";
  return el("label", null, ["baseline", "candidate", "second"][place], select);
}));

const deltaTable = (runs) => {
  const [baseline, ...others] = runs;
  const names = [...new Set(runs.flatMap((run) => run.evaluators.map((one) => one.name)))];
  const evaluator = (run, name) => run.evaluators.find((one) => one.name === name);
  const measures = [
    { label: "Pass rate", value: (run) => run.rate, show: percent, delta: points },
    ...names.map((name) => ({ label: name, value: (run) => (evaluator(run, name) || { mean: null }).mean, show: score, lower: runs.some((run) => (evaluator(run, name) || {}).lower) })),
    { label: "Errors", value: (run) => run.errored, show: count, delta: (by) => signed(count(by), by), lower: true },
    { label: "Latency, median", value: (run) => run.latency, show: (value) => (value == null ? UNKNOWN : duration(value)), delta: (by) => signed(duration(Math.abs(by)), 0).replace("±", by > 0 ? "+" : by < 0 ? "−" : "±"), lower: true },
    { label: "Cost", value: (run) => run.cost, show: (value, run) => costText(run), delta: (by) => signed(usd(Math.abs(by)), 0).replace("±", by > 0 ? "+" : by < 0 ? "−" : "±"), lower: true, partial: (run) => run.priced < run.tokenized },
    { label: "Tokens", value: (run) => run.tokens, show: (value) => (value == null ? UNKNOWN : count(value)), delta: (by) => signed(count(by), by), lower: true },
  ];
  const row = ({ label, value, show, delta, lower, partial }) => el("tr", null,
    el("th", { scope: "row", class: "foreign" }, label, lower ? el("span", { class: "rule" }, "lower is better") : null),
    el("td", { class: "num" }, show(value(baseline), baseline)),
    others.map((run) => {
      const known = value(run) != null && value(baseline) != null && !(partial && (partial(run) || partial(baseline)));
      const by = known ? value(run) - value(baseline) : 0;
      const good = lower ? by < 0 : by > 0;
      return [el("td", { class: "num" }, show(value(run), run)), el("td", { class: `num${by ? (good ? " better" : " worse") : " muted"}` }, known ? (delta || ((moved) => signed(fixed(moved, 2), moved)))(by) : UNKNOWN)];
    }));
  return el("div", { class: "scroll" }, el("table", { class: "deltas" },
    el("thead", null, el("tr", null, el("th", { scope: "col" }, "Measure"), el("th", { scope: "col", class: "num" }, "Baseline"), others.map((run, place) => [el("th", { scope: "col", class: "num" }, others.length > 1 ? `Candidate ${place + 1}` : "Candidate"), el("th", { scope: "col", class: "num" }, "Change")]))),
    el("tbody", null, measures.map(row))));
};

const RUN_FACTS = new Set(["Run", "Started", "Ended", "Resumed", "Command"]);
const configDifferences = (runs) => {
  const settings = runs.map((run) => ({
    ...Object.fromEntries(Object.entries(run.facts).filter(([label]) => !RUN_FACTS.has(label))),
    ...Object.fromEntries(run.evaluators.map((one) => [`metric: ${one.name}`, JSON.stringify({ threshold: one.threshold, ...one.parameters })])),
  }));
  const labels = [...new Set(settings.flatMap((one) => Object.keys(one)))].filter((label) => new Set(settings.map((one) => one[label])).size > 1);
  if (!labels.length) return el("p", { class: "muted" }, "The runs were configured alike.");
  return el("div", { class: "scroll" }, el("table", { class: "config" },
    el("thead", null, el("tr", null, el("th", { scope: "col" }, "Setting"), runs.map((run, place) => el("th", { scope: "col" }, place ? `Candidate${runs.length > 2 ? ` ${place}` : ""}` : "Baseline")))),
    el("tbody", null, labels.map((label) => el("tr", null, el("th", { scope: "row", class: "foreign" }, label), settings.map((one) => el("td", { class: "foreign" }, one[label] ?? UNKNOWN)))))));
};

/** The cases of several runs by their keys, each with what became of it in every run. */
const joinedCases = (datas) => {
  const rows = new Map();
  datas.forEach((data, place) => {
    for (const [key, , outcome, inputs] of data.items) {
      if (!rows.has(key)) rows.set(key, { key, outcomes: datas.map(() => null), input: "" });
      const row = rows.get(key);
      row.outcomes[place] = OUTCOMES[outcome];
      if (!row.input && inputs.length > 1) row.input = inputs[1] >= 0 ? data.strings[inputs[1]] : data.shared[-2 - inputs[1]];
    }
  });
  for (const row of rows.values()) row.change = changeOf(row.outcomes);
  const order = KINDS_OF_CHANGE.map(([name]) => name);
  return [...rows.values()].sort((a, b) => order.indexOf(a.change) - order.indexOf(b.change));
};
const changeOf = ([first, ...rest]) => {
  if (first === null || rest.includes(null)) return "partly";
  const fell = rest.some((outcome) => outcome === "failed" || outcome === "errored");
  if (first === "passed" && fell) return "regressed";
  if ((first === "failed" || first === "errored") && rest.includes("passed")) return "improved";
  return rest.every((outcome) => outcome === first) ? "same" : "changed";
};

const caseMatrix = (datas, runs, state, actions) => {
  const all = joinedCases(datas);
  const wanted = state.cases.toLowerCase();
  const found = all.filter((row) => !wanted || row.key.toLowerCase().includes(wanted) || row.input.toLowerCase().includes(wanted));
  const kept = found.filter((row) => state.only === "all" || row.change === state.only);
  const chips = KINDS_OF_CHANGE.map(([name, label]) => {
    const number = found.filter((row) => name === "all" || row.change === name).length;
    return el("button", { type: "button", class: `chip${number ? "" : " zero"}`, "data-only": name, "aria-pressed": String(state.only === name), onclick: () => actions.set({ only: name }) }, label, el("b", null, count(number)));
  });
  const body = el("tbody");
  const more = el("button", { type: "button", class: "plain-button" }, "Show more");
  let shown = 0;
  const extend = () => {
    body.append(...kept.slice(shown, shown + CASES_AT_ONCE).map((row) => el("tr", { "data-key": row.key, class: row.change },
      el("td", { class: "item" }, el("span", { class: "excerpt" }, el("span", { class: "id foreign" }, row.key), el("span", { class: "foreign" }, oneLine(row.input, 200)))),
      row.outcomes.map((outcome, place) => el("td", null, outcome === null ? el("span", { class: "muted" }, "not in it")
        : el("button", { type: "button", class: `link sign ${outcome}`, title: "Open this case", onclick: () => actions.open(runs[place], row.key) }, WORDS[outcome]))))));
    shown += CASES_AT_ONCE;
    more.hidden = shown >= kept.length;
  };
  more.addEventListener("click", extend);
  extend();
  const search = el("input", { type: "search", "aria-label": "Search the cases", placeholder: "Search cases …", "data-filter": "cases", value: state.cases });
  search.addEventListener("input", () => actions.set({ cases: search.value }, search));
  return [el("div", { class: "toolbar case-search" }, search), el("div", { class: "chips", role: "group", "aria-label": "Filter by change" }, chips),
    kept.length ? el("div", { class: "scroll" }, el("table", { class: "matrix" }, el("thead", null, el("tr", null, el("th", { scope: "col" }, "Case"), runs.map((run, place) => el("th", { scope: "col" }, place ? `Candidate${runs.length > 2 ? ` ${place}` : ""}` : "Baseline")))), body))
      : el("p", { class: "empty-state" }, "No case matches."), more];
};

const changeLine = (datas) => {
  const rows = joinedCases(datas);
  const number = (kind) => rows.filter((row) => row.change === kind).length;
  const [worse, better] = [number("regressed"), number("improved")];
  return el("p", { class: `verdict ${worse > better ? "fell-verdict" : ""}` }, `${count(worse)} regressed, ${count(better)} improved `, el("span", { class: "of" }, `of ${count(rows.length)} cases`));
};
