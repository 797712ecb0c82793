const CHANGES = ["regressed", "improved", "unchanged", "added", "removed"];
const CHANGE_WORDS = { regressed: "✗ regressed", improved: "✓ improved", unchanged: "= same", added: "+ added", removed: "− removed" };
const CHANGE_KINDS = { regressed: "failed", improved: "passed", unchanged: "unjudged", added: "unjudged", removed: "unjudged" };
const MAX_SCORE_COLUMNS = 4;

/** An item that moved on a metric which did not change for sure is not called the same. */
const wordOf = (item) => (item.change === "unchanged" && item.moved ? "~ no clear change" : CHANGE_WORDS[item.change]);
const share = (value) => (value == null ? "–" : value === 1 ? "✓" : value === 0 ? "✗" : `${fixed(value * 100, 0)} %`);
const score = (value) => (value == null ? "–" : fixed(value, 2));

/** The items of two runs with search, filters and a drawer in which both sides stand next to each other. */
const comparisonView = (data, address) => {
  const text = (position) => (position < 0 ? null : data.strings[position]);
  const side = (packed) => packed && { passed: packed[0], output: text(packed[1]), errors: packed[2].map(([name, error]) => [text(name), text(error)]) };
  const worsening = (e, delta) => (data.evaluators[e].lower ? delta : -delta);
  const items = data.items.map(([key, index, change, sides, flip, counts, input, expected, scores]) => {
    const evaluations = scores.map(([e, before, now, reasonBefore, reasonNow]) => ({
      e, before, now, reasonBefore: text(reasonBefore), reasonNow: text(reasonNow),
      worse: before == null || now == null ? 0 : worsening(e, now - before),
    }));
    return {
      key, index, change: CHANGES[change], before: side(sides[0]), now: side(sides[1]), flip: flip === 1, counts: counts === 1,
      input: text(input) || "", expected: text(expected), evaluations, tags: [],
      by: new Map(evaluations.map((one) => [one.e, one])),
      moved: flip === 1 || evaluations.some((one) => one.worse !== 0),
      worst: Math.max(0, ...evaluations.map((one) => one.worse)), best: Math.max(0, ...evaluations.map((one) => -one.worse)), haystack: null,
    };
  });
  const differs = (item) => item.before && item.now && item.before.output !== item.now.output;
  const errored = (item) => Boolean((item.now && item.now.errors.length) || (item.before && item.before.errors.length));

  const haystack = (item) => {
    item.haystack ??= [item.key, item.input, item.expected, ...[item.before, item.now].filter(Boolean).flatMap((one) => [one.output, ...one.errors.flat()]),
      ...item.evaluations.flatMap((one) => [one.reasonBefore, one.reasonNow])].filter(Boolean).join("\n").toLowerCase();
    return item.haystack;
  };
  const is = (change) => (item) => item.change === change;
  const chips = () => [
    ["all", "All", () => true],
    ...(data.decides ? [["counts", "✗ Counts for the verdict", (item) => item.counts]] : []),
    ["regressed", "✗ Regressed", is("regressed")],
    ["improved", "✓ Improved", is("improved")],
    ["unchanged", "No clear change", is("unchanged")],
    ...["added", "removed"].filter((kind) => items.some(is(kind))).map((kind) => [kind, CHANGE_WORDS[kind], is(kind)]),
    ["flipped", "Verdict flipped", (item) => item.flip],
    ...(items.some(differs) ? [["answers", "≠ Other answer", differs]] : []),
    ...(items.some(errored) ? [["errors", "! Errors", errored]] : []),
  ];
  const size = (item) => (item.change === "improved" ? item.best : item.worst);
  const compare = (state) => {
    const e = state.sort.startsWith("score.") ? data.evaluators.findIndex((one) => one.name === state.sort.slice(6)) : -1;
    if (state.sort === "item") return (a, b, sign) => sign * (a.index - b.index);
    if (e >= 0) {
      return (a, b, sign) => {
        const [x, y] = [a.by.get(e), b.by.get(e)];
        return !x || !y ? !x - !y : sign * (y.worse - x.worse);
      };
    }
    return (a, b, sign) => sign * (Number(b.counts) - Number(a.counts) || CHANGES.indexOf(a.change) - CHANGES.indexOf(b.change) ||
      Number(b.flip) - Number(a.flip) || size(b) - size(a));
  };

  // ---- the list ----

  /** Where there are many evaluators, those that changed most. */
  const columns = (() => {
    const moved = data.evaluators.map(() => 0);
    const given = data.evaluators.map(() => 0);
    for (const item of items) for (const one of item.evaluations) { moved[one.e] += Math.abs(one.worse); given[one.e] += 1; }
    return data.evaluators.map((_, e) => e).filter((e) => given[e]).sort((a, b) => moved[b] - moved[a] || a - b).slice(0, MAX_SCORE_COLUMNS).sort((a, b) => a - b);
  })();
  const arrow = (one) => {
    if (!one.worse) return null;
    const up = one.now > one.before;
    return el("span", { class: one.worse > 0 ? "regressed" : "improved" }, ` ${up ? "▴" : "▾"} ${fixed(Math.abs(one.now - one.before), 2)}`);
  };
  const cell = (item, e) => {
    const one = item.by.get(e);
    if (!one) return el("td", { class: "num score muted" }, "–");
    if (one.before != null && one.before === one.now) return el("td", { class: "num score muted" }, score(one.now));
    return el("td", { class: "num score" }, `${score(one.before)} → ${score(one.now)}`, arrow(one));
  };
  const line = (label, value) => el("span", { class: "excerpt said-line" }, el("span", { class: "label" }, label), " ", el("span", { class: "foreign" }, value == null ? "–" : oneLine(value, 300)));
  const outputs = (item) => {
    const [before, now] = [item.before?.output, item.now?.output];
    if (before == null && now == null) return null;
    return before === now ? line("both", now) : [item.before && before != null ? line("was", before) : null, item.now ? line("now", now) : null];
  };
  const scoreLine = (item) => {
    const moved = item.evaluations.filter((one) => one.worse || one.before == null || one.now == null).slice(0, 3);
    return el("span", { class: "narrow-scores" }, (moved.length ? moved : item.evaluations.slice(0, 3)).map((one) =>
      el("span", null, `${oneLine(data.evaluators[one.e].name, 24)} ${one.before === one.now ? score(one.now) : `${score(one.before)} → ${score(one.now)}`}`, arrow(one))));
  };
  const row = (item) => el("tr", null,
    el("td", null, el("span", { class: `sign ${CHANGE_KINDS[item.change]}` }, wordOf(item)),
      el("span", { class: "tail plain-tail" }, `${share(item.before ? item.before.passed : null)} → ${share(item.now ? item.now.passed : null)}`),
      item.counts ? el("span", { class: "tail" }, "✗ counts") : null),
    el("td", { class: "item" }, el("button", { class: "open", type: "button", "aria-label": `Open ${item.key}, ${item.change}` },
      el("span", { class: "excerpt question" }, el("span", { class: "id foreign" }, item.key), " ", el("span", { class: "foreign" }, oneLine(item.input, 300))),
      outputs(item), scoreLine(item))),
    columns.map((e) => cell(item, e)));
  const head = (state, column) => [column("Change", "worst"), column("Item", "item"),
    ...columns.map((e) => column(data.evaluators[e].name, `score.${data.evaluators[e].name}`, "num score"))];

  // ---- the drawer ----

  const reasons = (one) => {
    if (one.reasonBefore === one.reasonNow) return one.reasonNow || "";
    return [one.reasonNow || "", one.reasonBefore ? el("div", { class: "muted" }, `was: ${one.reasonBefore}`) : null];
  };
  const scores = (item) => el("div", { class: "scroll" }, el("table", { class: "scores" },
    el("thead", null, el("tr", null, el("th", { scope: "col" }, "Evaluator"), ["Baseline", "Candidate", "Change"].map((label) => el("th", { scope: "col", class: "num" }, label)))),
    item.evaluations.map((one) => el("tbody", null,
      el("tr", null, el("th", { scope: "row", class: "foreign" }, data.evaluators[one.e].name),
        el("td", { class: "num" }, score(one.before)), el("td", { class: "num" }, score(one.now)), el("td", { class: "num" }, arrow(one) || "–")),
      one.reasonBefore || one.reasonNow ? el("tr", { class: "reasons" }, el("td", { colspan: "4", class: "foreign" }, reasons(one))) : null))));
  const errors = (label, one) => (one ? one.errors : []).map(([name, error]) => block(`${label}${name ? `: ${name}` : ""}`, error, "problem"));
  const bothOutputs = (item) => {
    const [before, now] = [item.before?.output ?? null, item.now?.output ?? null];
    if (before === null && now === null) return el("p", { class: "muted" }, "The outputs were not kept.");
    if (before === now) return block("Output, the same on both sides", now);
    return sideBySide({ title: "Baseline output", value: before, hint: "underlined: only here", missing: item.before ? "Not kept: a baseline file holds no outputs." : "Not in the baseline." },
      { title: "Candidate output", value: now, hint: "dashed: only here", missing: item.now ? "No output." : "Not in the candidate." }, { mark: true });
  };
  const drawer = (item) => ({ sign: CHANGE_KINDS[item.change], word: wordOf(item), parts: [
    el("p", { class: "metrics" }, `passed ${share(item.before ? item.before.passed : null)} → ${share(item.now ? item.now.passed : null)}`,
      item.flip ? ", the verdict flipped" : "", item.counts ? " · counts for the verdict of the gate" : ""),
    item.input ? block("Input", item.input) : null,
    item.expected == null ? null : block("Expected", item.expected),
    bothOutputs(item),
    item.evaluations.length ? [el("h3", null, "Scores"), scores(item)] : null,
    errors("Baseline error", item.before), errors("Candidate error", item.now),
  ] });

  return listView({
    items, address, haystack, chips, compare, head, row, drawer, className: "changes",
    placeholder: "Search input, outputs, reasons …", chipsLabel: "Filter by change",
  });
};

if (document.getElementById("app")) {
  attach(comparisonView(JSON.parse(document.getElementById("data").textContent), fragmentAddress));
}
