/** What the pages of datasets ask for and change. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { ApiError, apiPath, change, get, send } from "./client";
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Dataset = Schemas["DatasetAnswer"];
export type DatasetSummary = Schemas["DatasetSummaryAnswer"];
export type DatasetVersion = Schemas["VersionAnswer"];
export type DatasetItem = Schemas["DatasetItemAnswer"];
export type DatasetDiff = Schemas["DatasetDiffAnswer"];
export type DatasetCase = Schemas["DatasetCase"];

export const ITEMS_IN_BLOCK = 100;
const datasetPath = (name: string) => `/datasets/${encodeURIComponent(name)}`;

/** As many as one answer of the server has. */
export const MOST_DATASETS = 500;

export const datasetsQuery = (search: string) =>
  queryOptions({
    queryKey: ["datasets", search],
    queryFn: ({ signal }) => get<DatasetSummary[]>("/datasets", { search, limit: MOST_DATASETS }, signal),
    placeholderData: keepPreviousData,
  });

export const datasetQuery = (name: string) =>
  queryOptions({
    queryKey: ["dataset", name],
    queryFn: ({ signal }) => get<Dataset>(datasetPath(name), {}, signal),
  });

/** A block of the items of a version, which never change. */
export const datasetItemsQuery = (name: string, version: number, search: string, block: number) =>
  queryOptions({
    queryKey: ["dataset-items", name, version, search, block],
    queryFn: ({ signal }) =>
      get<Schemas["DatasetItemPage"]>(
        `${datasetPath(name)}/versions/${version}/items`,
        { search, page: block, size: ITEMS_IN_BLOCK },
        signal,
      ),
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: keepPreviousData,
  });

export const datasetDiffQuery = (name: string, from: number, to: number, status: string, page: number) =>
  queryOptions({
    queryKey: ["dataset-diff", name, from, to, status, page],
    queryFn: ({ signal }) =>
      get<DatasetDiff>(`${datasetPath(name)}/diff`, { from, to, status, page, size: 50 }, signal),
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: keepPreviousData,
  });

export interface Upload {
  readonly name: string;
  readonly file: Blob;
  readonly type: string;
  readonly description: string;
}

export const uploadVersion = ({ name, file, type, description }: Upload) =>
  send<DatasetVersion>("POST", apiPath(`${datasetPath(name)}/versions`, { description }), file, undefined, type);

export const createDataset = (body: { name: string; description: string | null }) =>
  change<DatasetSummary>("POST", "/datasets", body);

export type ItemChange = Schemas["ItemChangeBody"];

export interface Edit {
  readonly name: string;
  /** The version that is changed, and the latest one that is known; null before the first. */
  readonly version: number | null;
  readonly latest: number | null;
  readonly description: string;
  readonly changes: readonly ItemChange[];
}

/** Makes a new version; refused with 409 where somebody has made another one since `latest` was read. */
export async function editVersion({ name, version, latest, description, changes }: Edit): Promise<DatasetVersion> {
  const path = `${datasetPath(name)}/versions`;
  const said = description || null;
  if (version === null) {
    const now = await get<Dataset>(datasetPath(name), { limit: 1 });
    if (now.latestVersion !== null) throw new ApiError(409, `Version ${now.latestVersion} came first.`);
    return change<DatasetVersion>("POST", path, { description: said, items: changes.map(({ op: _, ...item }) => item) });
  }
  return change<DatasetVersion>("POST", `${path}/${version}/edits`, { description: said, changes, expectedLatestVersion: latest });
}

/** The names of the datasets of a project: those that its runs use, or that it was given. */
export const projectDatasetsQuery = (project: string | undefined) =>
  queryOptions({
    queryKey: ["project-datasets", project],
    queryFn: async ({ signal }) => {
      const path = `/projects/${encodeURIComponent(project ?? "")}/datasets`;
      const rows = await get<Schemas["ProjectDatasetAnswer"][]>(path, { limit: 500 }, signal);
      return rows.map((row) => row.name);
    },
    enabled: project !== undefined,
  });

const RUNS_IN_PAGE = 50;
export type DatasetRun = Schemas["DatasetRunAnswer"];

/** The runs that used a dataset, or one version of it, the newest first. */
export const datasetRunsQuery = (name: string, version: string | null, isWanted: boolean) =>
  infiniteQueryOptions({
    queryKey: ["dataset-runs", name, version],
    enabled: isWanted,
    queryFn: ({ pageParam, signal }) =>
      get<DatasetRun[]>(`${datasetPath(name)}/runs`, { datasetVersionId: version, limit: RUNS_IN_PAGE, after: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last: readonly DatasetRun[]) => (last.length < RUNS_IN_PAGE ? null : (last.at(-1)?.id ?? null)),
    placeholderData: keepPreviousData,
    staleTime: 60_000,
  });

export const exportAddress = (name: string, version: number, format: string) =>
  apiPath(`${datasetPath(name)}/versions/${version}/export`, { format });
