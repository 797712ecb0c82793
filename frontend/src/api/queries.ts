/** What pages ask the server for, and how long an answer is good. */
import { type QueryClient, infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { noteProjects } from "../lib/drafts";
import { get } from "./client";
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Project = Schemas["ProjectAnswer"];
export type Experiment = Schemas["ExperimentAnswer"];
export type RunSummary = Schemas["RunSummary"];
export type Run = Schemas["RunDetails"];
export type Item = Schemas["ItemAnswer"];
export type EvalResult = Schemas["EvalResultAnswer"];
export type Evaluator = Run["evaluators"][number];
export type OutlineAnswer = Schemas["OutlineAnswer"];
export type ItemAttributesAnswer = Schemas["ItemAttributesAnswer"];
export type Diff = Schemas["DiffAnswer"];
export type DiffSummary = Diff["summary"];
export type Trends = Schemas["TrendsAnswer"];
export type EvaluatorTrend = Schemas["EvaluatorTrend"];
export type Verdict = Schemas["ExperimentVerdict"];
export type ExperimentRun = Schemas["ExperimentRun"];

const LIVE_MS = 2_000;
/** Where the server tells of changes: in case that something was missed. */
const TOLD_MS = 30_000;
const SHORT_MS = 10_000;
const LIVE_STATUSES: readonly string[] = ["PENDING", "RUNNING", "EVALUATING"];

export const isLive = (status: string | undefined): boolean => LIVE_STATUSES.includes(status ?? "");

export const projectsQuery = queryOptions({
  queryKey: ["projects"],
  queryFn: async ({ signal }) => {
    const projects = await get<Project[]>("/projects", {}, signal);
    noteProjects(projects);
    return projects;
  },
});

export const experimentsQuery = (project: string) =>
  queryOptions({
    queryKey: ["experiments", project],
    queryFn: ({ signal }) =>
      get<Experiment[]>(`/projects/${encodeURIComponent(project)}/experiments`, {}, signal),
  });

/** The runs that a trend shows. */
export const RUNS_IN_TREND = 30;

export const trendsQuery = (experiment: string, limit = RUNS_IN_TREND) =>
  queryOptions({
    queryKey: ["trends", experiment, limit],
    queryFn: ({ signal }) => get<Trends>(`/experiments/${experiment}/trends`, { limit }, signal),
    placeholderData: keepPreviousData,
  });

/** The latest runs, as many as one answer has. */
export const RUNS_LISTED = 200;

export const runsQuery = (experiment: string, search = "", isTold = false) =>
  queryOptions({
    queryKey: ["runs", experiment, search],
    queryFn: ({ signal }) => get<RunSummary[]>(`/experiments/${experiment}/runs`, { limit: RUNS_LISTED, search }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: (query) => (query.state.data?.some((run) => isLive(run.status)) ? (isTold ? TOLD_MS : LIVE_MS) : false),
  });

export interface RunFilter {
  readonly search?: string;
  readonly status?: string;
  readonly branch?: string;
  readonly tag?: string;
  readonly sort?: string;
}

const RUNS_PAGE = 100;

/** The runs of an experiment that a filter leaves, a page after the other. */
export const runPagesQuery = (experiment: string, { search, status, branch, tag, sort }: RunFilter, isTold: boolean) =>
  infiniteQueryOptions({
    queryKey: ["runs", experiment, "pages", { search, status, branch, tag, sort }],
    queryFn: ({ signal, pageParam }) =>
      get<RunSummary[]>(`/experiments/${experiment}/runs`, { search, status, branch, tag, sort, limit: RUNS_PAGE, after: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => (last.length < RUNS_PAGE ? null : (last.at(-1)?.id ?? null)),
    placeholderData: keepPreviousData,
    refetchInterval: (query) => (query.state.data?.pages.flat().some((run) => isLive(run.status)) ? (isTold ? TOLD_MS : LIVE_MS) : false),
  });

/** What each evaluator said of the latest runs; asked for again when another run is the latest. */
export const evaluatorTrendsQuery = (experiment: string, latestRun: string, limit = RUNS_IN_TREND) =>
  queryOptions({
    queryKey: ["trends", experiment, "evaluators", latestRun, limit],
    queryFn: ({ signal }) => get<Schemas["EvaluatorTrendsAnswer"]>(`/experiments/${experiment}/evaluator-trends`, { limit }, signal),
    placeholderData: keepPreviousData,
  });

export const runQuery = (run: string, isTold = false) =>
  queryOptions({
    queryKey: ["run", run],
    queryFn: ({ signal }) => get<Run>(`/runs/${run}`, { size: 1 }, signal),
    refetchInterval: (query) => (isLive(query.state.data?.status) ? (isTold ? TOLD_MS : LIVE_MS) : false),
  });

/** The outcome of every item; asked for again whenever the run says that it has more. */
export const outlineQuery = (run: string, version: string, search = "", goesOn = false) =>
  queryOptions({
    queryKey: ["outline", run, search, version],
    queryFn: ({ signal }) => get<OutlineAnswer>(`/runs/${run}/outline`, { search }, signal),
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
    ...(goesOn ? { gcTime: SHORT_MS } : {}),
  });

/** What changes whenever the items of a run do. */
export function versionOf(run: Run): string {
  return [run.status, run.totalItems, run.passedItems, run.judgedCount, run.erroredCount].join(".");
}

/** Read what the page of a run shows first, while the page itself is read. What fails, the page asks for again. */
export async function readRunAhead(queries: QueryClient, runId: string): Promise<void> {
  const run = await queries.ensureQueryData(runQuery(runId)).catch(() => null);
  if (run !== null) await queries.prefetchQuery(outlineQuery(runId, versionOf(run), "", isLive(run.status)));
}

export const itemsQuery = (run: string, ordinals: readonly number[], version: string) =>
  queryOptions({
    queryKey: ["items", run, version, ordinals],
    queryFn: async ({ signal }) =>
      (await get<Run>(`/runs/${run}`, { ordinal: ordinals, size: 500 }, signal)).items.content,
    enabled: ordinals.length > 0,
    staleTime: Number.POSITIVE_INFINITY,
  });

export const itemByIdQuery = (run: string | null, id: string | null) =>
  queryOptions({
    queryKey: ["item", run, id],
    queryFn: async ({ signal }) =>
      (await get<Run>(`/runs/${run}`, { itemId: id, size: 1 }, signal)).items.content[0] ?? null,
    enabled: run !== null && id !== null,
  });

export interface ItemPlace {
  readonly runId: string;
  /** The id of the item, or else its place in the run. */
  readonly itemId?: string;
  readonly ordinal?: number;
  readonly repetition?: number;
}

/** An item of a run with the run. */
export const itemOfRunQuery = ({ runId, itemId, ordinal, repetition }: ItemPlace) =>
  queryOptions({
    queryKey: ["item-of-run", runId, itemId, ordinal, repetition],
    queryFn: async ({ signal }) => {
      const run = await get<Run>(`/runs/${encodeURIComponent(runId)}`, { itemId, ordinal, size: 500 }, signal);
      return { run, item: run.items.content.find((one) => itemId !== undefined || one.repetition === repetition) ?? null };
    },
  });

/** What pairs and slices the items of a run. */
export const itemAttributesQuery = (run: string, version: string) =>
  queryOptions({
    queryKey: ["attributes", run, version],
    queryFn: ({ signal }) => get<ItemAttributesAnswer>(`/runs/${run}/item-attributes`, {}, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });

/** The run that a comparison takes as baseline where nobody named one. */
export const baselineQuery = (experiment: string, candidate: string) =>
  queryOptions({
    queryKey: ["baseline", experiment, candidate],
    queryFn: ({ signal }) =>
      get<Schemas["dokimos__server___api__comparisons__gate_schemas__BaselineAnswer"]>(
        `/experiments/${experiment}/runs/${candidate}/baseline`,
        {},
        signal,
      ),
  });

/** What a comparison of two runs comes to; its cases are paired in the page. */
export const diffQuery = (experiment: string, candidate: string, baseline: string) =>
  queryOptions({
    queryKey: ["diff", experiment, candidate, baseline],
    queryFn: async ({ signal }) =>
      (await get<Diff>(`/experiments/${experiment}/runs/${candidate}/diff`, { baselineRunId: baseline, size: 1 }, signal)).summary,
  });
