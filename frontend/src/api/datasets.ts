/** What the pages of datasets ask for and change. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { apiPath, change, get, send } from "./client";
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

export const datasetsQuery = (search: string) =>
  queryOptions({
    queryKey: ["datasets", search],
    queryFn: ({ signal }) => get<DatasetSummary[]>("/datasets", { search, limit: 500 }, signal),
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
  readonly version: number;
  readonly latest: number;
  readonly description: string;
  readonly changes: readonly ItemChange[];
}

/** Makes a new version; refused with 409 where somebody has made another one since `latest` was read. */
export const editVersion = ({ name, version, latest, description, changes }: Edit) =>
  change<DatasetVersion>("POST", `${datasetPath(name)}/versions/${version}/edits`, {
    description: description || null,
    changes,
    expectedLatestVersion: latest,
  });
