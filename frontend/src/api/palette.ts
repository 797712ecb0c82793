/** What the command palette asks the server for: one source for each kind, so that one that fails hides no other. */
import { type InfiniteData, type QueryClient, queryOptions, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useSyncExternalStore } from "react";
import { time } from "../lib/format";
import { type Entry, type EntryKind, readId } from "../lib/palette";
import { ApiError, get } from "./client";
import { type Experiment, type Project, type RunSummary, projectsQuery } from "./queries";
import type { components } from "./schema";

type Schemas = components["schemas"];

const MOST = 6;
/** Experiments and runs are listed by project and by experiment: those with the newest runs are looked through. */
const MOST_PROJECTS = 12;
const MOST_EXPERIMENTS = 12;
const KNOWN_MS = 60_000;
const RUNS = ["runs"];

export interface Source {
  readonly kind: EntryKind;
  readonly what: string;
  readonly read: (text: string, queries: QueryClient, signal: AbortSignal) => Promise<Entry[]>;
}

export const SOURCES: readonly Source[] = [
  { kind: "project", what: "Projects", read: readProjects },
  { kind: "experiment", what: "Experiments", read: readExperiments },
  { kind: "run", what: "Runs", read: readRuns },
  { kind: "dataset", what: "Datasets", read: readDatasets },
  { kind: "trace", what: "Traces", read: readTraces },
];

/** A text that is an id is looked up as one, and nothing else is searched for it. */
export function sourceQuery(source: Source, text: string, queries: QueryClient) {
  const id = readId(text);
  return queryOptions({
    queryKey: ["palette", source.kind, text],
    queryFn: ({ signal }) => source.read(text, queries, signal),
    enabled: text !== "" && (id === null || source.kind === id.kind || source.kind === "dataset"),
    staleTime: 10_000,
    gcTime: 30_000,
    retry: false,
  });
}

export const projectEntry = (project: Pick<Project, "name">): Entry => ({
  kind: "project", key: `project ${project.name}`, label: project.name, href: `/projects/${encodeURIComponent(project.name)}`,
});

async function readProjects(search: string, _queries: QueryClient, signal: AbortSignal): Promise<Entry[]> {
  const found = await get<Project[]>("/projects", { search, limit: MOST }, signal);
  return found.map((project) => ({ ...projectEntry(project), isFound: true }));
}

async function newestProjects(queries: QueryClient): Promise<Project[]> {
  const projects = await queries.fetchQuery({ ...projectsQuery, staleTime: KNOWN_MS });
  return [...projects].sort((a, b) => b.lastActivityAt.localeCompare(a.lastActivityAt)).slice(0, MOST_PROJECTS);
}

const experimentsPath = (project: string) => `/projects/${encodeURIComponent(project)}/experiments`;

async function readExperiments(search: string, queries: QueryClient, signal: AbortSignal): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const project of await newestProjects(queries)) {
    if (signal.aborted || entries.length >= MOST) break;
    const found = await get<Experiment[]>(experimentsPath(project.name), { search, limit: MOST }, signal);
    entries.push(...found.map((one): Entry => ({
      kind: "experiment", key: `experiment ${one.id}`, label: one.name, note: project.name, href: `/experiments/${one.id}`, isFound: true,
    })));
  }
  return entries;
}

export function runEntry(run: Pick<RunSummary, "id" | "name" | "startedAt" | "gitBranch">, note: string): Entry {
  const branch = run.gitBranch == null ? "" : ` · ${run.gitBranch}`;
  return {
    kind: "run", key: `run ${run.id}`, label: run.name ?? `Run of ${time(run.startedAt)}`, note: `${note}${branch}`, also: run.id, href: `/runs/${run.id}`,
  };
}

async function readRuns(search: string, queries: QueryClient, signal: AbortSignal): Promise<Entry[]> {
  const id = readId(search);
  if (id !== null) {
    const run = await orNull(get<Schemas["RunDetails"]>(`/runs/${id.id}`, { size: 1 }, signal));
    return run === null ? [] : [runEntry(run, run.experimentName)];
  }
  const entries: Entry[] = [];
  for (const experiment of await newestExperiments(queries)) {
    if (signal.aborted || entries.length >= MOST) break;
    const found = await get<RunSummary[]>(`/experiments/${experiment.id}/runs`, { search, limit: MOST }, signal);
    entries.push(...found.map((run): Entry => ({ ...runEntry(run, experiment.name), isFound: true })));
  }
  return entries;
}

async function newestExperiments(queries: QueryClient): Promise<Experiment[]> {
  const projects = await newestProjects(queries);
  const lists = await Promise.all(projects.map((project) => queries.fetchQuery({
    queryKey: ["palette", "experiments of", project.name],
    queryFn: ({ signal }) => get<Experiment[]>(experimentsPath(project.name), { limit: MOST_EXPERIMENTS }, signal),
    staleTime: KNOWN_MS,
  })));
  const begun = (one: Experiment) => one.latestRun?.startedAt ?? "";
  return lists.flat().filter((one) => one.latestRun != null).sort((a, b) => begun(b).localeCompare(begun(a))).slice(0, MOST_EXPERIMENTS);
}

async function readDatasets(search: string, _queries: QueryClient, signal: AbortSignal): Promise<Entry[]> {
  const found = await get<Schemas["DatasetSummaryAnswer"][]>("/datasets", { search, limit: MOST }, signal);
  return found.map((one) => ({
    kind: "dataset", key: `dataset ${one.name}`, label: one.name, href: `/datasets/${encodeURIComponent(one.name)}`, isFound: true,
  }));
}

/** A trace by its id; texts are searched in the page of traces, which has room for what is found. */
async function readTraces(text: string, _queries: QueryClient, signal: AbortSignal): Promise<Entry[]> {
  const id = readId(text)?.id;
  if (id === undefined) return [];
  const spans = await orNull(get<Schemas["SpanListAnswer"]>(`/traces/${id}/spans`, { limit: 1 }, signal));
  return spans === null ? [] : [{ kind: "trace", key: `trace ${id}`, label: id, note: spans.content[0]?.name ?? "", href: `/traces/${id}` }];
}

async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Runs that pages have read, as they read them. */
export function useKnownRuns(): Entry[] {
  const queries = useQueryClient();
  const cache = queries.getQueryCache();
  const readAt = useSyncExternalStore(
    useCallback((listener: () => void) => cache.subscribe(listener), [cache]),
    () => Math.max(0, ...cache.findAll({ queryKey: RUNS }).map((query) => query.state.dataUpdatedAt)),
  );
  return useMemo(() => knownRuns(queries), [queries, readAt]);
}

function knownRuns(queries: QueryClient): Entry[] {
  const answers = queries.getQueriesData<RunSummary[] | InfiniteData<RunSummary[]>>({ queryKey: RUNS });
  const runs = answers.flatMap(([, answer]) => (answer === undefined ? [] : Array.isArray(answer) ? answer : answer.pages.flat()));
  return [...new Map(runs.map((run) => [run.id, run])).values()].map((run) => runEntry(run, ""));
}
