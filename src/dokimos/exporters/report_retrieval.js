// ---- what was retrieved: each chunk once, and which of the relevant ones were found ----

const CONTEXT_KEYS = ["contexts", "context", "retrieved", "retrievalContext", "retrieved_contexts", "retrievedContexts", "retrieval_context", "retrievedContext", "retrieved_context"];
const RELEVANT_KEYS = ["relevant", "relevantContexts", "relevant_contexts", "expectedContexts"];
const NAMES_OF_CHUNKS = ["id", "id_", "node_id", "source", "doc_id", "docId", "document", "name", "title", "url"];
const TEXTS_OF_CHUNKS = ["text", "content", "page_content", "pageContent", "chunk", "context", "passage"];

const listIn = (value) => {
  const tree = value == null ? null : parsed(value);
  if (Array.isArray(tree)) return tree;
  if (tree && typeof tree === "object") return Object.values(tree).every((gain) => typeof gain === "number") ? Object.keys(tree).filter((key) => tree[key] > 0) : [tree];
  return value == null || !value.trim() ? [] : [value];
};
/** A chunk as it is shown: its name, where it has one, and its text. */
const chunkOf = (value) => {
  if (value === null || typeof value !== "object") return { value, name: null, text: String(value) };
  const first = (keys) => keys.map((key) => value[key]).find((found) => typeof found === "string" || typeof found === "number");
  const text = first(TEXTS_OF_CHUNKS);
  return { value, name: first(NAMES_OF_CHUNKS) ?? value.metadata?.source ?? null, text: text === undefined ? JSON.stringify(value, null, 2) : String(text) };
};
/** How a retrieved chunk is compared with a relevant one; null where only the evaluator's own judge could say. */
const matcherOf = (matching) => {
  const text = (chunk) => (chunk.value !== null && typeof chunk.value === "object" ? JSON.stringify(chunk.value) : String(chunk.value));
  const isDocument = (chunk) => chunk.value !== null && typeof chunk.value === "object";
  /** A retrieved document is the same as its id and as its text. */
  const forms = (chunk, other) => {
    if (!isDocument(chunk) || isDocument(other)) return [text(chunk)];
    const { id, id_, node_id: node, doc_id: doc } = chunk.value;
    return [String(id ?? id_ ?? node ?? doc ?? chunk.text), chunk.text];
  };
  if (matching === undefined || matching === "equality") return (a, b) => forms(a, b).includes(text(b));
  if (matching === "ignore_case") return (a, b) => forms(a, b).some((form) => form.toLowerCase() === text(b).toLowerCase());
  if (matching === "containment") return (a, b) => text(a).includes(text(b)) || text(b).includes(text(a));
  const fields = matching && typeof matching === "object" ? matching.fields || (matching.field ? [matching.field] : null) : null;
  if (!Array.isArray(fields)) return null;
  const read = (chunk, field) => (chunk.value !== null && typeof chunk.value === "object" ? chunk.value[field] : chunk.value);
  return (a, b) => fields.every((field) => JSON.stringify(read(a, field)) === JSON.stringify(read(b, field)));
};

/** The keys of an item that hold what was retrieved and what is relevant, and how they are compared. */
const retrievalKeys = (evaluators, given) => {
  const reads = given.map((e) => evaluators[e].reads || {});
  const own = (name) => reads.map((one) => one[name]).filter((key) => typeof key === "string");
  const matchings = reads.filter((one) => one.retrieves).map((one) => one.matching);
  return {
    retrieved: [...new Set([...own("contexts_key"), ...CONTEXT_KEYS])],
    relevant: [...new Set([...own("expected_key"), ...RELEVANT_KEYS])],
    matches: matcherOf(matchings[0]),
  };
};

/** The retrieved chunks of an item, each once, whichever keys hold them. */
const uniqueChunks = (values) => {
  const found = new Map();
  for (const value of values) {
    for (const one of listIn(value)) {
      const chunk = chunkOf(one);
      if (!found.has(chunk.text + (chunk.name ?? ""))) found.set(chunk.text + (chunk.name ?? ""), chunk);
    }
  }
  return [...found.values()];
};

const MARKS = { found: ["✓ found", "passed"], missed: ["✗ missed", "failed"], other: ["· not relevant", "unjudged"] };
const chunkRow = (chunk, number, [word, kind] = [null, null], reason) => el("li", { class: "chunk" },
  el("div", { class: "line" },
    number ? el("span", { class: "muted" }, `[${number}]`) : null,
    word ? el("span", { class: `sign ${kind}` }, word) : null,
    chunk.name == null ? null : el("span", { class: "id foreign" }, String(chunk.name)),
    reason ? el("span", { class: "muted foreign" }, reason) : null),
  String(chunk.text) === String(chunk.name) ? null : folded(chunk.text));

/**
 * The retrieved chunks, marked by what the relevant ones are or, without those, by a judge's verdicts on each.
 * `judged` maps the text of a chunk to {verdict, reason}.
 */
const chunkList = (retrieved, relevant, matches, judged) => {
  if (!retrieved.length && !relevant.length) return null;
  const marking = relevant.length > 0 && matches !== null;
  const missed = marking ? relevant.filter((wanted) => !retrieved.some((chunk) => matches(chunk, wanted))) : [];
  const unmarked = relevant.length > 0 && !marking;
  const rows = retrieved.map((chunk, place) => {
    if (marking) return chunkRow(chunk, place + 1, relevant.some((wanted) => matches(chunk, wanted)) ? MARKS.found : MARKS.other);
    const said = judged.get(chunk.text);
    return said ? chunkRow(chunk, place + 1, said.verdict === "yes" ? ["✓ relevant", "passed"] : MARKS.other, said.reason) : chunkRow(chunk, place + 1);
  });
  const count = marking ? `${relevant.length - missed.length} of ${relevant.length} relevant found` : `${retrieved.length}`;
  return [
    el("h3", null, `Retrieved (${count})`),
    retrieved.length ? el("ol", { class: "chunks" }, rows) : el("p", { class: "muted" }, "Nothing was retrieved."),
    missed.length ? el("ol", { class: "chunks missed" }, missed.map((chunk) => chunkRow(chunk, 0, MARKS.missed))) : null,
    unmarked ? [el("h3", null, `Relevant (${relevant.length})`), el("ol", { class: "chunks" }, relevant.map((chunk) => chunkRow(chunk, 0)))] : null,
  ];
};
