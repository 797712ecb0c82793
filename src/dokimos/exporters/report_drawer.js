// ---- what the drawer shows of one item ----

const SIGNS = { errored: "!", failed: "✗", unjudged: "·", passed: "✓" };
const OUTCOMES = ["errored", "failed", "unjudged", "informational", "passed"];

const outcomeOf = (evaluation) => {
  if (evaluation.error != null) return evaluation.strict ? "errored" : "unjudged";
  return evaluation.success === 1 ? "passed" : evaluation.success === 0 ? "failed" : "unjudged";
};

/** What is expected beside what came out; differences are marked only where an evaluator found it wrong. */
const comparison = (label, expected, actual, verdict, missing = "No such output.") => {
  if (expected == null) return block(label === "output" ? "Output" : label, actual);
  const suffix = label === "output" ? "" : ` ${label}`;
  return sideBySide(
    { title: `Expected${suffix}`, value: expected, hint: "underlined: missing from the output" },
    { title: `Actual${suffix}`, value: actual, hint: "dashed: not expected", missing },
    { mark: verdict === "failed", note: verdict === "passed" ? "It passed as it is." : "Nothing judged it wrong." });
};

const timeline = (calls) => el("ol", { class: "timeline" }, calls.map(({ name, args, result, error }) => el("li", null,
  el("span", { class: "tool" }, name),
  args === "{}" || args == null ? null : folded(args),
  result == null ? null : [el("div", { class: "muted" }, "returned"), folded(result)],
  error == null ? null : [el("div", { class: "muted" }, "failed"), plainText(error, "problem")])));

// ---- conversations ----

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
const turnOutcome = (row) => (row.error != null ? "errored" : row.success === true ? "passed" : row.success === false ? "failed" : "unjudged");
const turnVerdict = (row) => {
  const outcome = turnOutcome(row);
  const score = typeof row.score === "number" ? ` ${fixed(row.score, 2)}` : "";
  return el("li", null, el("span", { class: `sign ${outcome}` }, SIGNS[outcome]), " ",
    el("span", { class: "foreign" }, `${row.name}${score}`),
    row.error ?? row.skipped ?? row.reason ? el("span", { class: "reason muted" }, ` ${row.error ?? row.skipped ?? row.reason}`) : null);
};
const conversation = (turns, truths, evaluations, evaluators) => {
  const rowsOf = (index) => evaluations.flatMap((one) => {
    const rows = (one.metadata && (parsed(one.metadata) || {}).turns) || [];
    return Array.isArray(rows) ? rows.filter((row) => row && row.turn === index).map((row) => ({ ...row, name: evaluators[one.e].name })) : [];
  });
  return [
    el("h3", null, `Conversation (${turns.length} turns)`),
    el("ol", { class: "thread" }, turns.map((turn, index) => {
      const calls = Array.isArray(turn.toolCalls) ? turn.toolCalls.filter((call) => call && typeof call === "object").map(callOf) : [];
      const chunks = uniqueChunks(CONTEXT_KEYS.map((key) => asText(turn[key] ?? null)));
      const rows = rowsOf(index);
      const outcomes = rows.map(turnOutcome);
      const verdict = ["failed", "passed"].find((one) => outcomes.includes(one));
      return el("li", null,
        el("div", { class: "said" }, el("h3", null, `Turn ${index + 1}`), textBox(asText(turn.input))),
        calls.length ? timeline(calls) : null,
        chunkList(chunks, [], null, new Map()),
        turn.error == null ? comparison("output", asText(truths[index] ?? null), asText(turn.output), verdict) : [block("No reply", asText(turn.error), "problem"), turnOrigin(turn.errorDetail)],
        rows.length ? el("ul", { class: "turn-verdicts" }, rows.map(turnVerdict)) : null);
    })),
  ];
};

// ---- what the evaluators said ----

const VERDICT_WORDS = {
  faithfulness: { yes: "✓ supported", no: "✗ contradicted", idk: "? not in the context" },
  hallucination: { yes: "✓ supported", no: "✗ not supported" },
  citation_faithfulness: { yes: "✓ supported", no: "✗ not supported" },
  contextual_recall: { yes: "✓ in the context", no: "✗ missing" },
  contextual_precision: { yes: "✓ relevant", no: "· not relevant" },
  answer_relevancy: { yes: "✓ to the point", no: "✗ beside the point" },
};
const VERDICT_KINDS = { yes: "passed", no: "failed", idk: "unjudged" };
const VERDICT_SIGNS = { yes: "✓ yes", no: "✗ no", idk: "? unsure" };
/** Lists of things that a judge said yes or no to, one by one: claims, statements, chunks. */
const verdictLists = (metadata, kind) => Object.entries(metadata).map(([key, entries]) => {
  if (!Array.isArray(entries) || !entries.length || !entries.every((one) => one && typeof one === "object" && typeof one.verdict === "string")) return null;
  const words = { ...VERDICT_SIGNS, ...VERDICT_WORDS[kind] };
  const thing = (one) => Object.entries(one).find(([name, value]) => name !== "verdict" && name !== "reason" && typeof value === "string")?.[1];
  const good = entries.filter((one) => one.verdict === "yes").length;
  return [
    el("p", { class: "muted verdict-count" }, `${good} of ${entries.length} ${key}: ${(words.yes || "yes").replace(/^\W+/, "")}`),
    el("ol", { class: "verdicts" }, entries.map((one, place) => el("li", null,
      el("span", { class: `sign ${VERDICT_KINDS[one.verdict] || "unjudged"}` }, words[one.verdict] || one.verdict), " ",
      el("span", { class: "foreign" }, oneLine(thing(one) ?? `${place + 1}`, 2000)),
      one.reason ? el("span", { class: "reason muted" }, one.reason) : null))),
  ];
});

const toolCoverage = ({ called, expected }) => {
  if (!Array.isArray(called) || !Array.isArray(expected) || !expected.length) return null;
  const tools = expected.map((name) => {
    const found = called.some((other) => String(other).includes(String(name)));
    return el("li", { class: found ? "passed" : "failed" }, `${found ? "✓" : "✗"} ${name}`);
  });
  const count = tools.filter((one) => one.className === "passed").length;
  return el("ul", { class: "coverage" }, el("li", { class: "muted" }, `${count} of ${expected.length} expected tools called`), tools);
};
/** What an evaluator has kept beside its reason. */
const details = (text, kind) => {
  if (!text) return null;
  const tree = parsed(text);
  const metadata = tree && typeof tree === "object" && !Array.isArray(tree) ? tree : {};
  const whole = el("details", null, el("summary", null, "Details"), plainText(indented(text)));
  return [toolCoverage(metadata), verdictLists(metadata, kind), whole];
};
const located = (error, from) => (from && from.place ? `${error} (${from.place})` : error);
/** The places that an error passed, the innermost last, and the whole traceback when it is asked for. */
const origin = (from) => (from ? [
  from.frames ? plainText(from.frames, "frames") : null,
  from.traceback ? el("details", null, el("summary", { class: "muted" }, "Whole traceback"), plainText(from.traceback)) : null] : null);
const turnOrigin = (detail) => (detail && Array.isArray(detail.frames) ? origin({
  frames: detail.frames.map((frame) => `${frame.file}:${frame.line ?? ""} in ${frame.function ?? ""}  ${frame.source ?? ""}`.trim()).join("\n"),
  traceback: asText(detail.traceback ?? null) }) : null);
const judgement = (one, evaluator) => {
  const outcome = outcomeOf(one);
  const sign = one.skipped != null ? "– skipped" : one.error != null ? (one.strict ? "! error" : "! warning") : one.success < 0 ? "informs" : WORDS[outcome];
  const shade = one.error != null ? "errored" : outcome;
  return el("div", { class: "judgement" },
    el("div", { class: "line" },
      el("span", { class: `sign ${shade}` }, sign),
      el("span", { class: "name" }, evaluator.name),
      el("span", { class: "value" }, one.score === null ? "–" : fixed(one.score, 2)),
      one.label === null ? null : el("span", { class: "label" }, one.label),
      one.threshold === null ? null : el("span", { class: "muted" }, `${evaluator.lower ? "at most" : "at least"} ${fixed(one.threshold, 2)}`)),
    one.reason ? el("div", { class: "reason" }, one.reason) : null,
    one.error != null ? [plainText(one.error, "problem"), origin(one.origin)] : null,
    one.skipped != null ? el("div", { class: "reason muted" }, one.skipped) : null,
    details(one.metadata, evaluator.kind));
};
