/** What the pages of production ask the server for. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { type TracesSearch, TRACE_FILTERS } from "../trace-routes";
import { type SearchPlace, isWaiting } from "../lib/spans";
import { type Query, get } from "./client";
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Trace = Schemas["TraceAnswer"];
export type TraceDetails = Schemas["TraceDetails"];
export type SpanSummary = Schemas["SpanAnswer"];
export type SpanDetails = Schemas["SpanDetails"];
export type Conversation = Schemas["ConversationAnswer"];
export type TraceReviews = Schemas["TraceReviewsAnswer"];
export type Session = Schemas["dokimos__server___api__traces__trace_session_routes__SessionAnswer"];
export type TraceStats = Schemas["TraceStatsAnswer"];
export type TraceStep = Schemas["TraceStep"];

/** A result of online evaluation, as answers about traces have it. */
export interface EvalJob {
  readonly id: string;
  readonly spanId: string;
  readonly ruleId: string;
  readonly evaluatorName: string;
  readonly status: string;
  readonly score: number | null;
  readonly success: boolean | null;
  readonly reason: string | null;
  readonly attemptCount: number;
  readonly lastError: string | null;
  readonly completedAt: string | null;
}

const LIVE_MS = 3_000;
const LIVE_SIZE = 200;
const PAGE = 100;
const SPANS_PART = 5_000;
const MOST_SPANS = 200_000;
const HOUR_MS = 3_600_000;
const PERIOD_HOURS: Record<string, number> = { "1h": 1, "24h": 24, "7d": 168, "30d": 720 };

/** The beginning of a period that ends now, such as `24h`; null for none. */
export function startOf(period: string | undefined, now = Date.now()): string | null {
  const hours = PERIOD_HOURS[period ?? ""];
  return hours === undefined ? null : new Date(now - hours * HOUR_MS).toISOString();
}

/** The parameters of a list of traces, as its page has them in its address. */
export function readParameters(search: TracesSearch, now = Date.now()): Query {
  const query: Record<string, string | null | undefined> = { project: search.project, sort: search.sort };
  for (const name of TRACE_FILTERS) query[name] = search[name];
  query["from"] ??= startOf(search.period, now);
  return query;
}

const keyOf = ({ live: _live, filters: _filters, ...asked }: TracesSearch) => asked;

export const tracesQuery = (search: TracesSearch) =>
  infiniteQueryOptions({
    queryKey: ["traces", keyOf(search)],
    queryFn: ({ signal, pageParam }) =>
      get<Schemas["TracePageAnswer"]>("/traces", { ...readParameters(search), size: PAGE, after: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.nextAfter,
    placeholderData: keepPreviousData,
  });

/** The newest traces, read again every few seconds: the stream of events does not tell of traces. */
export const liveTracesQuery = (search: TracesSearch) =>
  queryOptions({
    queryKey: ["traces", "live", keyOf(search)],
    queryFn: ({ signal }) => get<Schemas["TracePageAnswer"]>("/traces", { ...readParameters(search), size: LIVE_SIZE }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: LIVE_MS,
  });

export const traceStatsQuery = (project: string, from: string | null, period: string | undefined, to?: string) =>
  queryOptions({
    queryKey: ["trace-stats", project, period ?? from, to],
    queryFn: ({ signal }) =>
      get<TraceStats>(`/projects/${encodeURIComponent(project)}/trace-stats`, { from: from ?? startOf(period), to }, signal),
    placeholderData: keepPreviousData,
    staleTime: 30_000,
  });

export const traceQuery = (trace: string) =>
  queryOptions({
    queryKey: ["trace", trace],
    queryFn: ({ signal }) => get<TraceDetails>(`/traces/${encodeURIComponent(trace)}`, {}, signal),
    // Rules may not be done with it yet; one that is large is not read again for that.
    refetchInterval: ({ state: { data } }) =>
      data !== undefined && !data.spansTruncated && (data.evalJobs as unknown as readonly EvalJob[]).some(isWaiting) ? LIVE_MS : false,
  });

/** All spans of a large trace, in parts; pages show what is there already. */
export const spansQuery = (trace: string) =>
  infiniteQueryOptions({
    queryKey: ["spans", trace],
    queryFn: ({ signal, pageParam }) =>
      get<Schemas["SpanListAnswer"]>(`/traces/${trace}/spans`, { limit: SPANS_PART, after: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last, all) => (all.length * SPANS_PART >= MOST_SPANS ? null : last.nextAfter),
    staleTime: Number.POSITIVE_INFINITY,
  });

export type SpanMatch = Schemas["SpanMatchAnswer"];

/** The spans of a trace in which words occur, in parts, each of which reads some thousands of spans. */
export const spanMatchesQuery = (trace: string, search: string, place: SearchPlace) =>
  infiniteQueryOptions({
    queryKey: ["span-matches", trace, search, place],
    queryFn: ({ signal, pageParam }) =>
      get<Schemas["SpanMatchesAnswer"]>(`/traces/${trace}/span-matches`, { search, in: place, after: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.nextAfter,
    staleTime: 60_000,
  });

export const spanQuery = (trace: string, span: string) =>
  queryOptions({
    queryKey: ["span", trace, span],
    queryFn: ({ signal }) => get<SpanDetails>(`/traces/${trace}/spans/${encodeURIComponent(span)}`, {}, signal),
  });

export const conversationQuery = (trace: string) =>
  queryOptions({
    queryKey: ["conversation", trace],
    queryFn: ({ signal }) => get<Conversation>(`/traces/${trace}/conversation`, {}, signal),
    staleTime: 60_000,
  });

export const reviewsQuery = (trace: string) =>
  queryOptions({
    queryKey: ["trace-reviews", trace],
    queryFn: ({ signal }) => get<TraceReviews>(`/traces/${trace}/reviews`, {}, signal),
  });

export const datasetNamesQuery = queryOptions({
  queryKey: ["dataset-names"],
  queryFn: ({ signal }) => get<readonly Schemas["DatasetAnswer"][]>("/datasets", {}, signal),
});

export const sessionsQuery = (project: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ["sessions", project],
    queryFn: ({ signal, pageParam }) =>
      get<Schemas["SessionPageAnswer"]>("/trace-sessions", { project, limit: PAGE, after: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.nextAfter,
  });

/** The traces of a session, the oldest first, as it went on. */
export const sessionTracesQuery = (session: string, project: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ["session-traces", session, project],
    queryFn: ({ signal, pageParam }) =>
      get<Schemas["TracePageAnswer"]>(
        "/traces",
        { sessionId: session, project, sort: "createdAt,asc", size: PAGE, after: pageParam },
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.nextAfter,
  });
