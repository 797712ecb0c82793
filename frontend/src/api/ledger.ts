/** The ledger of judging: the calls that judge jobs have made, what they cost, and the budgets that hold them. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { LedgerSearch } from "../settings-routes";
import { type Query, get } from "./client";
import type { components } from "./schema";
import { startOf } from "./traces";

type Schemas = components["schemas"];
export type JudgeCall = Schemas["JudgeCallAnswer"];
export type CallTotals = Schemas["JudgeCallTotals"];
export type Budgets = Schemas["JudgeBudgetsAnswer"];
export type SpendingDay = Schemas["SpendingDayAnswer"];

const PAGE = 100;
const LIVE_MS = 5_000;
const projectPath = (name: string) => `/projects/${encodeURIComponent(name)}`;

export type CallFilter = Omit<LedgerSearch, "unit">;

/** What an address asks for, as the API takes it. */
function parametersOf({ job, run, connection, state, period }: CallFilter): Query {
  return { jobId: job, runId: run, connectionId: connection, state, from: startOf(period) };
}

export const callsQuery = (project: string, filter: CallFilter) =>
  infiniteQueryOptions({
    queryKey: ["judge-calls", project, filter],
    queryFn: ({ pageParam, signal }) =>
      get<JudgeCall[]>(`${projectPath(project)}/judge-calls`, { ...parametersOf(filter), limit: PAGE, after: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last: readonly JudgeCall[]) => (last.length < PAGE ? null : (last.at(-1)?.id ?? null)),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state: { data } }) => (data?.pages[0]?.some((one) => one.state === "IN_FLIGHT") ? LIVE_MS : false),
  });

export const callTotalsQuery = (project: string, filter: CallFilter) =>
  queryOptions({
    queryKey: ["judge-calls", project, "totals", filter],
    queryFn: ({ signal }) => get<CallTotals>(`${projectPath(project)}/judge-calls/totals`, parametersOf(filter), signal),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state: { data } }) => ((data?.inFlight ?? 0) > 0 ? LIVE_MS : false),
  });

export const budgetsQuery = (project: string, days: number) =>
  queryOptions({
    queryKey: ["judge-budgets", project, days],
    queryFn: ({ signal }) => get<Budgets>(`${projectPath(project)}/judge-budgets`, { days }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state: { data } }) => (data?.jobs.some((job) => job.reservedCalls > 0) ? LIVE_MS : false),
  });
