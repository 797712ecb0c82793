// ---- what is looked at; all of it is in the fragment, so that every state has an address ----

const VIEW_DEFAULTS = {
  view: "summary", suite: "", id: "", with: "", only: "all", cases: "",
  from: "", to: "", version: "", model: "", min: "", tag: "", kind: "", find: "",
};
const FILTERS = ["from", "to", "version", "model", "min", "tag", "kind", "find"];

const parameters = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
const readView = () => {
  const found = { ...VIEW_DEFAULTS };
  for (const [key, value] of parameters()) if (Object.hasOwn(VIEW_DEFAULTS, key)) found[key] = value;
  return found;
};
const viewParameters = (state) => {
  const kept = new URLSearchParams();
  for (const [key, value] of Object.entries(VIEW_DEFAULTS)) if (state[key] !== value) kept.set(key, state[key]);
  return kept;
};
const addressOf = (kept) => { const hash = kept.toString(); return hash ? `#${hash}` : location.pathname + location.search; };

/** Passed and judged cases of a run: all of them, or those with a tag. */
const ratesOf = (run, tag) => {
  if (!tag) return { rate: run.rate, judged: run.passed + run.failed + run.errored, interval: run.interval, drop: run.drop };
  const [passed, judged] = run.tags[tag] || [0, 0];
  return { rate: judged ? passed / judged : null, judged, interval: null, drop: null };
};

const keeps = (state) => {
  const least = state.min === "" || isNaN(state.min) ? null : Number(state.min) / 100;
  const wanted = state.find.toLowerCase();
  return (run) => {
    const date = run.started.slice(0, 10);
    const { rate } = ratesOf(run, state.tag);
    return (!state.from || date >= state.from) && (!state.to || date <= state.to) &&
      (!state.version || run.version === state.version) && (!state.model || run.model === state.model) &&
      (!state.tag || rate !== null) && (least === null || (rate !== null && rate >= least)) &&
      (!wanted || [run.id, run.version, run.model, run.commit, run.status, run.started].some((text) => text.toLowerCase().includes(wanted)));
  };
};

const filterBar = (runs, state, set) => {
  const distinct = (values) => [...new Set(values)].filter(Boolean).sort();
  const choice = (key, label, values) => {
    if (!values.length) return null;
    const select = el("select", { "aria-label": label, "data-filter": key, onchange: () => set({ [key]: select.value }) }, el("option", { value: "" }, `any ${label}`), values.map((value) => el("option", { value }, value)));
    select.value = values.includes(state[key]) ? state[key] : "";
    return select;
  };
  const field = (key, label, attributes) => {
    const input = el("input", { ...attributes, "data-filter": key, "aria-label": label, value: state[key] });
    input.addEventListener("input", () => set({ [key]: input.value }, input));
    return el("label", null, label, input);
  };
  return el("div", { class: "toolbar filters", role: "search", "aria-label": "Filter the runs" },
    field("find", "search", { type: "search", placeholder: "run, version, commit …" }),
    field("from", "from", { type: "date" }), field("to", "to", { type: "date" }),
    choice("version", "version", distinct(runs.map((run) => run.version))),
    choice("model", "model", distinct(runs.map((run) => run.model))),
    choice("tag", "tag", distinct(runs.flatMap((run) => Object.keys(run.tags)))),
    choice("kind", "kind", distinct(runs.flatMap((run) => run.evaluators.map((one) => one.kind)))),
    field("min", "at least %", { type: "number", min: "0", max: "100", class: "narrow" }),
    el("button", { type: "button", class: "plain-button", onclick: () => set(Object.fromEntries(FILTERS.map((key) => [key, ""]))) }, "Clear filters"));
};
