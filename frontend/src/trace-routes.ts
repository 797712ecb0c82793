/** The addresses of the pages of production: traces, sessions, rules, alerts, the dashboard of a project. */
import { createRoute } from "@tanstack/react-router";
import { traceQuery } from "./api/traces";
import { lazyPage } from "./lazy-page";
import { queryClient } from "./query-client";
import { rootRoute } from "./root-route";
import { readTexts } from "./lib/address-texts";

export const TRACE_FILTERS = [
  "from", "to", "status", "search", "minDurationMs", "maxDurationMs", "minCostUsd", "maxCostUsd", "minTokens", "maxTokens",
  "sessionId", "userId", "rootName", "model", "evaluator", "minScore", "maxScore", "result", "attribute",
] as const;

export type TraceFilterName = (typeof TRACE_FILTERS)[number];

export type TracesSearch = { readonly [name in TraceFilterName | "project" | "period" | "sort" | "live" | "filters"]?: string };

export const tracesRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/traces",
  validateSearch: (search: Record<string, unknown>): TracesSearch =>
    readTexts(search, [...TRACE_FILTERS, "project", "period", "sort", "live", "filters"]),
  component: lazyPage(() => import("./pages/traces"), "TracesPage"),
});

const TRACE_STATES = ["span", "show", "search", "only", "kind", "make", "run", "item", "attribute", "in", "among", "at"] as const;

/** `run`, `item`: the item of a run from which the trace was opened. `span`: the one that is open. `show`: `talk` for the conversation, `graph` for who called whom. `only`: `failing` spans. `kind`: of the spans that are shown. `attribute`: the text by which those of a span are filtered. `in`: where `search` looks. `among`: `all` spans are shown, not only those that are found. `at`: the span that is marked, one of those that are found. */
export type TraceSearch = { readonly [name in (typeof TRACE_STATES)[number]]?: string };

/** The states of a trace with the ids of spans in small letters, as the server has them. */
function readTraceSearch(search: Record<string, unknown>): TraceSearch {
  const texts = readTexts(search, TRACE_STATES);
  const ids = (["span", "at", "make"] as const).flatMap((name) => (texts[name] === undefined ? [] : [[name, texts[name].toLowerCase()] as const]));
  return { ...texts, ...Object.fromEntries(ids) };
}

export const traceRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/traces/$traceId",
  // Ids are written with small letters by the server, and with capital ones by some tools.
  params: { parse: ({ traceId }) => ({ traceId: traceId.toLowerCase() }), stringify: ({ traceId }) => ({ traceId }) },
  validateSearch: readTraceSearch,
  // Not awaited: the page shows what it waits for, and asks again for what failed.
  loader: ({ params }) => void queryClient.ensureQueryData(traceQuery(params.traceId)).catch(() => null),
  component: lazyPage(() => import("./pages/trace"), "TracePage"),
});

export const sessionsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sessions",
  validateSearch: (search: Record<string, unknown>): { readonly project?: string } => readTexts(search, ["project"]),
  component: lazyPage(() => import("./pages/sessions"), "SessionsPage"),
});

export const sessionRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sessions/$sessionId",
  validateSearch: (search: Record<string, unknown>): { readonly project?: string } => readTexts(search, ["project"]),
  component: lazyPage(() => import("./pages/session"), "SessionPage"),
});

export const rulesRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/trace-eval-rules",
  validateSearch: (search: Record<string, unknown>): { readonly project?: string; readonly rule?: string; readonly edit?: string } => readTexts(search, ["project", "rule", "edit"]),
  component: lazyPage(() => import("./pages/rules"), "RulesPage"),
});

export const alertsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/trace-alerts",
  validateSearch: (search: Record<string, unknown>): { readonly project?: string; readonly alert?: string; readonly edit?: string } => readTexts(search, ["project", "alert", "edit"]),
  component: lazyPage(() => import("./pages/trace-alerts"), "TraceAlertsPage"),
});

export const dashboardRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/projects/$name/dashboard",
  validateSearch: (search: Record<string, unknown>): { readonly period?: string } => readTexts(search, ["period"]),
  component: lazyPage(() => import("./pages/dashboard"), "DashboardPage"),
});

export const traceRoutes = [tracesRoute, traceRoute, sessionsRoute, sessionRoute, rulesRoute, alertsRoute, dashboardRoute] as const;
