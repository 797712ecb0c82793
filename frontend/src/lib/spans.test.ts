import { describe, expect, it } from "vitest";
import { readMessages } from "../components/talk";
import { readTexts, saysAnything } from "./address-texts";
import { type EvalJob, type SpanSummary, startOf } from "../api/traces";
import { buildTree, chooseRows, countKindsOfSpans, filterAttributes, idsAbove, isWaiting, outcomeOfJob, retrievedChunks, stepToHit } from "./spans";

const START = 1_795_385_321_930_417_205n;

function span(spanId: string, parentSpanId: string | null, startNano: bigint, more: Partial<SpanSummary> = {}): SpanSummary {
  return {
    id: spanId, spanId, parentSpanId, name: spanId, kind: null, statusCode: null, role: "step", error: null,
    startTimeUnixNano: Number(startNano), endTimeUnixNano: null, startTimeUnixNanoText: String(startNano),
    endTimeUnixNanoText: null, durationMs: 1, tokensIn: null, tokensOut: null, costUsd: null, firstChunkMs: null,
    model: null, inputText: null, outputText: null, ...more,
  };
}

const names = (tree: ReturnType<typeof buildTree>, places: readonly number[]) => places.map((place) => tree.rows[place]?.span.spanId);

describe("buildTree", () => {
  it("puts spans below their parents and keeps nanoseconds apart that a number does not", () => {
    const tree = buildTree([span("root", null, START), span("b", "root", START + 100n), span("b1", "b", START + 101n), span("c", "root", START + 300n)]);

    expect(tree.rows.map((row) => [row.span.spanId, row.depth, row.below])).toEqual([["root", 0, 3], ["b", 1, 1], ["b1", 2, 0], ["c", 1, 0]]);
    expect(tree.rows.map((row) => row.offset)).toEqual([0, 0.0001, 0.000101, 0.0003]);
  });

  it("shows spans whose parent is missing, and those that are each other's parents", () => {
    const tree = buildTree([span("lost", "nowhere", START), span("x", "y", START), span("y", "x", START)]);

    expect(tree.rows.map((row) => [row.span.spanId, row.depth, row.isOrphan])).toEqual([["lost", 0, true], ["x", 0, true], ["y", 1, false]]);
  });

  it("sums the model calls below a span, without what an agent repeats of them", () => {
    const call = (tokensIn: number | null, costUsd: number | null) => ({ role: "model", tokensIn, tokensOut: 1, costUsd });
    const tree = buildTree([
      span("root", null, START), span("agent", "root", START + 1n, { role: "agent", tokensIn: 30, tokensOut: 2 }),
      span("ask", "agent", START + 2n, call(10, 0.5)), span("again", "agent", START + 3n, call(20, null)),
      span("last", "root", START + 4n, call(null, 0.25)), span("look", "root", START + 5n, { role: "tool" }),
    ]);

    const none = { tokensIn: null, tokensOut: null, costUsd: null, pricedCallCount: null, unpricedCallCount: null };
    expect(tree.rows.map((row) => [row.span.spanId, row.usageBelow])).toEqual([
      ["root", { tokensIn: 30, tokensOut: 3, costUsd: 0.75, pricedCallCount: 2, unpricedCallCount: 1 }],
      ["agent", { tokensIn: 30, tokensOut: 2, costUsd: 0.5, pricedCallCount: 1, unpricedCallCount: 1 }],
      ["ask", none], ["again", none], ["last", none], ["look", none],
    ]);
  });

  it("counts no call that has used nothing, such as one that failed, as unpriced", () => {
    const tree = buildTree([
      span("root", null, START), span("ask", "root", START + 1n, { role: "model", tokensIn: 1, costUsd: 0.5 }),
      span("failed", "root", START + 2n, { role: "model", error: "timed out" }),
    ]);

    expect(tree.rows[0]?.usageBelow).toMatchObject({ costUsd: 0.5, pricedCallCount: 1, unpricedCallCount: 0 });
  });

  it("takes a trace that is as deep as it has spans", () => {
    const spans = Array.from({ length: 30_000 }, (_, index) => span(`s${index}`, index === 0 ? null : `s${index - 1}`, START));

    expect(buildTree(spans).rows.at(-1)?.depth).toBe(29_999);
  });
});

describe("chooseRows", () => {
  const tree = buildTree([
    span("root", null, START),
    span("tool", "root", START, { error: "timed out" }),
    span("http", "tool", START, { inputText: "GET /orders" }),
    span("model", "root", START),
  ]);
  const all = { collapsed: new Set<string>(), search: "", onlyFailing: false };

  it("leaves out what is below a collapsed span", () => {
    expect(names(tree, chooseRows(tree, { ...all, collapsed: new Set(["tool"]) }).shown)).toEqual(["root", "tool", "model"]);
  });

  it("shows what is found with all that is above it, and counts only what is found", () => {
    const chosen = chooseRows(tree, { ...all, search: "orders get" });

    expect(names(tree, chosen.shown)).toEqual(["root", "tool", "http"]);
    expect(names(tree, chosen.hits)).toEqual(["http"]);
    expect(names(tree, chooseRows(tree, { ...all, onlyFailing: true }).shown)).toEqual(["root", "tool"]);
  });

  it("finds what the server has found in attributes, and looks only where it is asked to", () => {
    const matches = new Set(["model"]);
    expect(names(tree, chooseRows(tree, { ...all, search: "orders", matches }).hits)).toEqual(["http", "model"]);
    expect(names(tree, chooseRows(tree, { ...all, search: "orders", place: "value", matches }).hits)).toEqual(["model"]);
    expect(names(tree, chooseRows(tree, { ...all, search: "TOOL", place: "name" }).hits)).toEqual(["tool"]);
    expect(names(tree, chooseRows(tree, { ...all, search: "orders", place: "name" }).hits)).toEqual([]);
    expect(names(tree, chooseRows(tree, { ...all, search: "orders", onlyFailing: true, matches }).hits)).toEqual([]);
  });

  it("shows all spans around what is found, and knows what is found below a collapsed one", () => {
    const chosen = chooseRows(tree, { ...all, search: "orders", isWhole: true, collapsed: new Set(["tool"]) });
    expect(names(tree, chosen.shown)).toEqual(["root", "tool", "model"]);
    expect(names(tree, chosen.hits)).toEqual(["http"]);
    expect(idsAbove(tree, chosen.hits[0] ?? 0)).toEqual(["tool", "root"]);
  });

  it("shows the spans of one kind below what they belong to", () => {
    const kinds = buildTree([span("root", null, START), span("ask", "root", START, { role: "llm" }), span("look", "root", START, { role: "tool" })]);

    expect(names(kinds, chooseRows(kinds, { ...all, kind: "llm" }).shown)).toEqual(["root", "ask"]);
    expect(countKindsOfSpans(kinds)).toEqual([["llm", 1], ["step", 1], ["tool", 1]]);
  });
});

describe("stepToHit", () => {
  it("goes on from a hit, from between hits, and around the ends", () => {
    const hits = [2, 5, 9];
    expect([undefined, 2, 3, 9, 12].map((place) => stepToHit(hits, place, 1))).toEqual([2, 5, 5, 2, 2]);
    expect([undefined, 2, 3, 9, 12].map((place) => stepToHit(hits, place, -1))).toEqual([9, 9, 2, 5, 9]);
    expect(stepToHit([], 3, 1)).toBeNull();
  });
});

describe("retrievedChunks", () => {
  it("reads a list in JSON and numbered attributes", () => {
    expect(retrievedChunks({ "gen_ai.retrieval.documents": '[{"id":"a","content":"text","score":0.5}]' })).toEqual([{ id: "a", text: "text", score: 0.5 }]);
    expect(retrievedChunks({ "retrieval.documents.1.document.content": "second", "retrieval.documents.0.document.id": "z" })).toEqual([
      { id: "z", text: "", score: null },
      { id: "2", text: "second", score: null },
    ]);
    expect(retrievedChunks({ "gen_ai.retrieval.documents": "not JSON" })).toEqual([]);
  });
});

describe("results of rules", () => {
  const job = (more: Partial<EvalJob>): EvalJob => ({
    id: "j", spanId: "s", ruleId: "r", evaluatorName: "e", status: "SUCCEEDED", score: 1, success: null, reason: null,
    attemptCount: 1, lastError: null, completedAt: null, ...more,
  });

  it("takes an error for no score, and a job that is tried again for neither", () => {
    expect(outcomeOfJob(job({ success: false, score: 0 }))).toBe("fail");
    expect(outcomeOfJob(job({ status: "FAILED", score: null, lastError: "429" }))).toBe("error");
    expect(outcomeOfJob(job({ status: "PENDING", score: null, lastError: "429" }))).toBe("none");
    expect([job({}), job({ status: "PENDING", score: null }), job({ status: "FAILED", score: null })].map(isWaiting)).toEqual([false, true, false]);
  });
});

describe("readMessages", () => {
  it("keeps calls of tools and the texts of parts", () => {
    const calls = [{ function: { name: "get_order", arguments: '{"id": 1}' } }];

    expect(readMessages([{ role: "assistant", content: null, tool_calls: calls }, { role: "tool", content: [{ type: "text", text: "none" }, "more"] }])).toEqual([
      { who: "assistant", text: "", calls: [{ name: "get_order", arguments: '{"id": 1}' }] },
      { who: "tool", text: "none\nmore", calls: [] },
    ]);
  });
});

describe("addresses", () => {
  it("takes numbers and truths as the texts that they were, and nothing else", () => {
    expect(readTexts({ a: 7, b: true, c: "", d: { e: 1 }, f: "x", g: "y" }, ["a", "b", "c", "d", "f"])).toStrictEqual({ a: "7", b: "true", c: undefined, d: undefined, f: "x" });
    expect([saysAnything(readTexts({ c: "" }, ["c", "x"])), saysAnything(readTexts({ c: "y" }, ["c", "x"]))]).toEqual([false, true]);
  });

  it("knows when a period began", () => {
    expect(startOf("24h", Date.UTC(2026, 10, 28))).toBe("2026-11-27T00:00:00.000Z");
    expect(startOf("never")).toBeNull();
  });
});

it("attributes are found by their names and by what they hold", () => {
  const attributes = { "gen_ai.request.model": "gpt-5", "retrieval.documents": [{ id: "Orders.md" }], "http.status": 504 };
  const find = (text: string) => filterAttributes(attributes, text).map(([name]) => name);
  expect(find("orders")).toEqual(["retrieval.documents"]);
  expect(find(" GEN_AI gpt ")).toEqual(["gen_ai.request.model"]);
  expect(find("504")).toEqual(["http.status"]);
  expect(find("").length).toBe(3);
  expect(find("nothing")).toEqual([]);
});
