import { expect, test } from "vitest";
import type { SpanSummary } from "../api/traces";
import { BOX, buildGraph, layOut } from "./agent-graph";
import { buildTree } from "./spans";

function makeSpan(spanId: string, parentSpanId: string | null, role: string, name: string, more: Partial<SpanSummary> = {}): SpanSummary {
  return {
    startTimeUnixNano: null, endTimeUnixNano: null, startTimeUnixNanoText: null, endTimeUnixNanoText: null, durationMs: 10, tokensIn: null,
    tokensOut: null, costUsd: null, firstChunkMs: null, model: null, inputText: null, outputText: null, id: spanId, spanId, parentSpanId, name,
    kind: null, statusCode: null, role, error: null, ...more,
  };
}

const build = (...spans: SpanSummary[]) => buildGraph(buildTree(spans));

test("calls are counted between agents, tools and models, through the steps between them", () => {
  const graph = build(
    makeSpan("1", null, "agent", "invoke_agent support"),
    makeSpan("2", "1", "model", "chat", { model: "gpt-5" }),
    makeSpan("3", "2", "model", "POST", { model: "gpt-5" }), // the same call, recorded twice
    makeSpan("4", "1", "step", "workflow"),
    makeSpan("5", "4", "tool", "execute_tool search", { error: "timed out", durationMs: 30 }),
    makeSpan("6", "4", "tool", "execute_tool search"),
  );
  expect(graph.nodes.map(({ id, calls, depth }) => [id, calls, depth])).toEqual([["agent support", 1, 0], ["model gpt-5", 1, 1], ["tool search", 2, 1]]);
  expect(graph.edges.find((edge) => edge.to === "tool search")).toEqual({ from: "agent support", to: "tool search", calls: 2, failed: 1, time: 40 });
});

test("what nobody called begins at a start, and what calls itself or in a circle has one place", () => {
  const graph = build(
    makeSpan("1", null, "agent", "a"), makeSpan("2", "1", "agent", "b"), makeSpan("3", "2", "agent", "a"), makeSpan("4", "3", "agent", "a"),
    makeSpan("5", null, "model", "m"),
  );
  expect(graph.nodes.map(({ name, depth }) => [name, depth])).toEqual([["start", 0], ["a", 1], ["b", 2], ["m", 1]]);
  expect(graph.edges.map(({ from, to }) => `${from} > ${to}`)).toContain("agent a > agent a");
});

test("no two nodes stand on each other, and of many the most called are drawn", () => {
  const tools = Array.from({ length: 60 }, (_, index) => makeSpan(`t${index}`, "1", "tool", `tool ${index}`));
  const { boxes, left, width, height } = layOut(build(makeSpan("1", null, "agent", "a"), ...tools));
  expect([boxes.length, left]).toEqual([40, 21]);
  expect(new Set(boxes.map(({ x, y }) => `${x} ${y}`)).size).toBe(40);
  expect(boxes.every(({ x, y }) => x + BOX.width <= width && y + BOX.height <= height)).toBe(true);
});

test("a trace without agents, tools and models has no graph", () => {
  expect(build(makeSpan("1", null, "other", "GET /")).edges).toEqual([]);
});
