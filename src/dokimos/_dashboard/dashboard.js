// ---- wiring: one state, one page ----

const overview = JSON.parse(document.getElementById("overview").textContent);
const runs = overview.runs.map((run, place) => ({ ...run, place })).sort((a, b) => (a.started < b.started ? -1 : 1));
const host = document.getElementById("app");
const top = el("div");
const main = el("div", { id: "content", tabindex: "-1" });
let state = readView();
let leave = () => {};
let drawing = 0;

// ---- the items of a run, unpacked when they are asked for ----

const KEPT_RUNS = 4;
const unpackedRuns = new Map();
const unpack = async (id) => {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
};
let sharedTexts = null;
const itemsOf = async (run) => {
  if (!unpackedRuns.has(run.id)) {
    sharedTexts ??= unpack("shared");
    const [data, shared] = await Promise.all([unpack(`run-${run.place}`), sharedTexts]);
    unpackedRuns.set(run.id, { ...data, shared });
    if (unpackedRuns.size > KEPT_RUNS) unpackedRuns.delete(unpackedRuns.keys().next().value);
  }
  return unpackedRuns.get(run.id);
};

// ---- state ----

const names = [...new Set([...runs].reverse().map((run) => run.name))];
const suiteName = () => (names.includes(state.suite) ? state.suite : names[0]);
const suiteRuns = () => runs.filter((run) => run.name === suiteName());
const go = (changes) => {
  state = { ...state, ...changes };
  history.pushState(null, "", addressOf(viewParameters(state)));
  draw();
  scrollTo(0, 0);
};
let typing = 0;
/** Change a filter in place; a field that is being typed into keeps its cursor. */
const set = (changes, field) => {
  state = { ...state, ...changes };
  history.replaceState(null, "", addressOf(viewParameters(state)));
  clearTimeout(typing);
  if (!field) { draw(); return; }
  typing = setTimeout(() => draw(field), 200);
};
const open = (run, item) => {
  state = { ...state, view: "run", id: run.id };
  const kept = viewParameters(state);
  if (item) kept.set("item", item);
  history.pushState(null, "", addressOf(kept));
  draw();
  scrollTo(0, 0);
};
const choose = (id, wanted) => {
  const others = state.with.split(",").filter((one) => one && one !== id);
  const order = runs.map((run) => run.id);
  const chosen = (wanted ? [...others, id].slice(-3) : others).sort((a, b) => order.indexOf(a) - order.indexOf(b));
  set({ with: chosen.join(",") });
};
const actions = { go, set, open, choose };

// ---- views ----

const drawSummary = async () => {
  const width = Math.max(300, host.clientWidth);
  return summaryView(suiteRuns(), state, actions, Math.min(width, 1192));
};

const drawRun = async () => {
  const suite = suiteRuns();
  const run = runs.find((one) => one.id === state.id) || latestOf(suite);
  const view = itemsView(await itemsOf(run), {
    read: parameters,
    write: (kept) => {
      const all = viewParameters(state);
      for (const [key, value] of kept) all.set(key, value);
      history.replaceState(null, "", addressOf(all));
    },
  });
  const show = () => {
    document.body.append(view.drawer);
    view.show();
    view.reveal();
  };
  const pick = (name) => { view.byEvaluator(data.evaluators.findIndex((one) => one.name === name)); view.node.scrollIntoView(); };
  return { nodes: [runHead(run, runs.filter((one) => one.name === run.name), actions), configuration(run),
    el("h2", null, "Metrics"), evaluatorTable(run, pick), el("h2", null, "Cases"), view.node], show, leave: view.leave };
};

const drawComparison = async () => {
  const suite = suiteRuns();
  const asked = state.with.split(",").map((id) => suite.find((run) => run.id === id)).filter(Boolean).slice(0, 3);
  const chosen = asked.length > 1 ? asked : suite.slice(-2);
  const picker = runPickers(suite, chosen.map((run) => run.id), go);
  if (chosen.length < 2) return [picker, el("p", { class: "empty-state" }, "There is one run only. Run the suite again to compare.")];
  const datas = [];
  for (const run of chosen) datas.push(await itemsOf(run));
  const command = `dokimos compare ${chosen[0].id} ${chosen[chosen.length - 1].id}`;
  return [picker, changeLine(datas),
    el("p", { class: "note muted" }, "Whether a change is more than chance is told by ", el("code", null, command), "."),
    el("h2", null, "What changed"), deltaTable(chosen), el("h2", null, "Configuration"), configDifferences(chosen),
    el("h2", null, "Cases"), caseMatrix(datas, chosen, state, actions)];
};

const VIEWS = { summary: ["Summary", drawSummary], run: ["Run", drawRun], compare: ["Compare", drawComparison] };

const heading = () => {
  const select = names.length < 2 ? null : el("select", { "aria-label": "Suite", class: "suite", onchange: () => go({ ...VIEW_DEFAULTS, view: state.view, suite: select.value }) }, names.map((name) => el("option", { value: name }, name)));
  if (select) select.value = suiteName();
  return el("header", { class: "top" }, el("h1", { class: "foreign" }, suiteName()), select,
    el("nav", { "aria-label": "Views" }, Object.entries(VIEWS).map(([name, [label]]) => el("button", { type: "button", "aria-current": name === state.view ? "page" : false, onclick: () => go({ view: name }) }, label))));
};

const unreadable = () => (overview.unreadable.length
  ? el("details", { class: "unreadable" }, el("summary", { class: "muted" }, `${overview.unreadable.length} runs could not be read`), el("ul", null, overview.unreadable.map((text) => el("li", { class: "foreign" }, text))))
  : null);

/** Show the nodes of a view; what holds a field that is being typed into stays where it is. */
const place = (nodes, field) => {
  const bar = field && [...main.children].find((child) => child.contains(field));
  const twin = bar ? nodes.findIndex((node) => node.querySelector(`[data-filter="${field.dataset.filter}"]`)) : -1;
  if (twin < 0) { main.replaceChildren(...nodes); return; }
  for (const child of [...main.children]) if (child !== bar) child.remove();
  bar.before(...nodes.slice(0, twin));
  bar.after(...nodes.slice(twin + 1));
};

const draw = async (field) => {
  const turn = (drawing += 1);
  if (!Object.hasOwn(VIEWS, state.view)) state.view = "summary";
  const drawn = await VIEWS[state.view][1]();
  const { nodes, show, leave: left } = Array.isArray(drawn) ? { nodes: drawn } : drawn;
  if (turn !== drawing) { if (left) left(); return; }
  leave();
  leave = left || (() => {});
  place(nodes.flat(Infinity).filter(Boolean), field);
  top.replaceChildren(heading());
  if (show) show();
};

if (runs.length) {
  host.append(top, main, ...[unreadable()].filter(Boolean));
  window.addEventListener("popstate", () => { state = readView(); draw(); });
  let room = host.clientWidth;
  window.addEventListener("resize", () => {
    if (host.clientWidth === room || state.view !== "summary") return;
    room = host.clientWidth;
    draw();
  });
  draw();
} else {
  host.append(el("h1", null, "No runs yet"), el("p", { class: "empty-state" }, "Run a suite first: dokimos test agent.yaml"), ...[unreadable()].filter(Boolean));
}
