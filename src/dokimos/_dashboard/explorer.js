// ---- one run ----

const factList = (facts) => el("dl", null, Object.entries(facts).map(([label, fact]) => [el("dt", { class: "foreign" }, label), el("dd", { class: "foreign" }, fact)]));

const evaluatorTable = (run, pick) => {
  const [verdicts, errors, skipped] = ["judged", "errors", "skipped"].map((key) => run.evaluators.some((one) => one[key]));
  const heads = ["Mean", verdicts && "Passed", errors && "Errors", skipped && "Skipped"].filter(Boolean);
  return el("div", { class: "scroll" }, el("table", { class: "evaluators" },
  el("thead", null, el("tr", null, ["Metric", "Kind"].map((label) => el("th", { scope: "col" }, label)), heads.map((label) => el("th", { scope: "col", class: "num" }, label)))),
  el("tbody", null, run.evaluators.map((one) => el("tr", null,
    el("th", { scope: "row" }, el("button", { type: "button", class: "link foreign", title: "Show its cases, worst first", onclick: () => pick(one.name) }, one.name),
      el("span", { class: "rule" }, ruleOf(one))),
    el("td", null, one.kind), el("td", { class: "num" }, score(one.mean)),
    verdicts ? el("td", { class: "num" }, one.judged ? `${count(one.passed)}/${count(one.judged)}` : UNKNOWN) : null,
    errors ? el("td", { class: `num${one.errors ? " error" : ""}` }, one.errors ? `${count(one.errors)} !` : UNKNOWN) : null,
    skipped ? el("td", { class: "num" }, one.skipped ? count(one.skipped) : UNKNOWN) : null)))));
};

const configuration = (run) => el("details", { class: "provenance" }, el("summary", null, "Configuration of this run"), factList(run.facts),
  run.evaluators.some((one) => Object.keys(one.parameters).length) ? el("h3", null, "Parameters of its metrics") : null,
  run.evaluators.filter((one) => Object.keys(one.parameters).length).map((one) => [el("h3", { class: "foreign" }, one.name), el("pre", { class: "text", tabindex: "0" }, JSON.stringify(one.parameters, null, 2))]));

const STATUS_WORDS = {
  interrupted: "It was interrupted: the numbers cover what was finished.", stopped: "It was stopped before its end.",
  budget_spent: "Its budget was spent before its end.", endpoint_down: "It stopped: an endpoint was down.", broken: "It broke: every case errored.",
};

const runHead = (run, suite, actions) => {
  const place = suite.indexOf(run);
  const step = (label, other) => el("button", { type: "button", class: "plain-button", disabled: !other, onclick: () => actions.open(other) }, label);
  const words = [["pass", "✓ passed", run.passed], ["fail", "✗ failed", run.failed], ["error", "! errored", run.errored], ["info", "· informational", run.informational], ["none", "– not judged", run.unjudged]];
  const facts = [day(run.started), run.seconds == null ? null : `took ${duration(run.seconds * 1000)}`, run.repeats > 1 ? `${run.repeats} repeats` : null, run.model || null,
    run.version ? `prompt ${run.version}` : null, run.latency == null ? null : `median ${duration(run.latency)}`, `cost ${costText(run)}`, run.judging ? `judge ${run.judging}` : null].filter(Boolean);
  return el("header", { class: "run-head" },
    el("div", { class: "heading" }, el("h2", { class: "foreign mono" }, run.id),
      el("span", { class: "steps" }, step("← older", suite[place - 1]), step("newer →", suite[place + 1]),
        place > 0 ? el("button", { type: "button", class: "plain-button", onclick: () => actions.go({ view: "compare", with: `${suite[place - 1].id},${run.id}` }) }, "Compare with the one before") : null)),
    el("p", { class: "facts foreign" }, facts.join(" · ")),
    STATUS_WORDS[run.status] ? el("p", { class: "status", role: "status" }, el("b", null, "! "), STATUS_WORDS[run.status]) : null,
    el("p", { class: "verdict" }, `${percent(run.rate)} passed `, el("span", { class: "of" }, `(${count(run.passed)}/${count(run.passed + run.failed + run.errored)})`)),
    outcomeBar(run), el("ul", { class: "counts" }, words.filter(([, , number]) => number).map(([kind, word, number]) => el("li", { class: kind }, el("b", null, count(number)), ` ${word}`))),
    run.warnings.length ? el("section", { class: "warnings" }, el("h2", null, "Warnings"), el("ul", null, run.warnings.map((text) => el("li", { class: "foreign" }, text)))) : null,
    Object.keys(run.skipped).length ? el("details", null, el("summary", { class: "muted" }, `${Object.keys(run.skipped).length} cases left out`), factList(run.skipped)) : null);
};
