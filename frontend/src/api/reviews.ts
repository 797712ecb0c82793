/** What the review queue asks for and changes. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { noteWhether } from "../lib/drafts";
import { readUnseen } from "../lib/queue-pages";
import { draftsOfRun } from "../lib/review-drafts";
import { tellTabs } from "../lib/tabs";
import { noteVerdict } from "../lib/verdicts";
import { ApiError, change, get } from "./client";
import type { components } from "./schema";

type Schemas = components["schemas"];
export type QueuePage = Schemas["QueuePage"];
export type QueueItem = Schemas["QueueRowAnswer"];
export type Review = Schemas["ReviewAnswer"];
export type ReviewBody = Pick<Schemas["ReviewBody"], "verdict" | "overriddenExpectedOutput" | "note" | "labels">;
export type Label = Schemas["LabelAnswer"];
export type Instructions = Schemas["InstructionsAnswer"];
export type Alignment = Schemas["AlignmentAnswer"];

const PAGE = 50;
const CLAIM_SECONDS = 900;
export const HEARTBEAT_MS = 300_000;

/** Which items wait, and in which order; as it stands in the address. */
export interface QueueFilter {
  readonly project?: string;
  readonly experimentId?: string;
  readonly runId?: string;
  readonly outcome?: "failed" | "errored";
  readonly disagree?: boolean;
  readonly near?: number;
  readonly sample?: number;
  readonly assigned?: "me" | "nobody";
  readonly order?: "oldest";
}

/** Where the next page begins: behind an item, or with those of the ranked queue that were not shown yet. */
type Place = { readonly after: string } | { readonly shown: readonly string[] };

function toQuery(filter: QueueFilter) {
  const { project, order, ...rest } = filter;
  return { ...rest, projectName: project, sort: order === "oldest" ? "createdAt" : "informative" };
}

/** The queue in pages; never asked for again by itself, so that it does not move below the reader. */
export const queueQuery = (filter: QueueFilter) =>
  infiniteQueryOptions({
    queryKey: ["review-queue", filter],
    queryFn: ({ pageParam, signal }) => {
      const read = (place: { readonly after: string } | { readonly page: number }) =>
        get<QueuePage>("/review-queue", { ...toQuery(filter), size: PAGE, ...place }, signal);
      if (filter.order === "oldest") return read("after" in pageParam ? pageParam : { page: 0 });
      return "after" in pageParam ? read(pageParam) : readUnseen((page) => read({ page }), pageParam.shown);
    },
    initialPageParam: { shown: [] } as Place,
    getNextPageParam: (last: QueuePage, pages: readonly QueuePage[]): Place | null => {
      const end = last.content.at(-1);
      if (last.last || end === undefined) return null;
      return filter.order === "oldest" ? { after: end.itemId } : { shown: pages.flatMap((page) => page.content.map((one) => one.itemId)) };
    },
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });

/** What each reviewer has done lately, in the project, experiment or run that the queue is about. */
export const progressQuery = ({ project, experimentId, runId }: QueueFilter, days: number) =>
  queryOptions({
    queryKey: ["review-queue", "progress", project, experimentId, runId, days],
    queryFn: ({ signal }) =>
      get<Schemas["ReviewProgressAnswer"]>("/review-queue/progress", { projectName: project, experimentId, runId, days }, signal),
    placeholderData: keepPreviousData,
    staleTime: 10_000,
    refetchInterval: 30_000,
  });

/** How many items wait for a person, whatever they are. */
export const waitingQuery = queryOptions({
  queryKey: ["review-queue", "waiting"],
  queryFn: ({ signal }) => get<QueuePage>("/review-queue", { size: 1 }, signal),
  staleTime: 30_000,
});

/** An item of a run, wherever it is reviewed. */
export type ItemPlace = Pick<QueueItem, "runId" | "itemId">;

/** Which of the runs, about whose items something is typed, are still there: nothing is lost with the drafts about the others. */
export const typedRunsQuery = (runs: readonly string[]) =>
  queryOptions({
    queryKey: ["typed-runs", ...runs],
    queryFn: ({ signal }) =>
      Promise.all(runs.map(async (run) => {
        const isThere = await get(`/runs/${run}`, { size: 1 }, signal).then(() => true, (error: unknown) => {
          if (error instanceof ApiError && error.status === 404) return false;
          throw error;
        });
        noteWhether(isThere, draftsOfRun(run));
        return isThere;
      })),
    enabled: runs.length > 0,
    staleTime: 10_000,
    refetchInterval: 60_000,
  });

const itemPath = (item: ItemPlace) => `/runs/${item.runId}/items/${item.itemId}`;

export const readReviews = (item: ItemPlace, signal?: AbortSignal) => get<Review[]>(`${itemPath(item)}/reviews`, {}, signal);

export const reviewsQuery = (item: ItemPlace) =>
  queryOptions({
    queryKey: ["reviews", item.itemId],
    queryFn: ({ signal }) => readReviews(item, signal),
    staleTime: 30_000,
  });

export const labelsQuery = (project: string) =>
  queryOptions({
    queryKey: ["label-schemas", project],
    queryFn: ({ signal }) => get<Label[]>(`/projects/${encodeURIComponent(project)}/label-schemas`, {}, signal),
    staleTime: 300_000,
  });

const instructionsPath = (project: string) => `/projects/${encodeURIComponent(project)}/review-instructions`;

export const instructionsQuery = (project: string) =>
  queryOptions({
    queryKey: ["review-instructions", project],
    queryFn: ({ signal }) => get<Instructions>(instructionsPath(project), {}, signal),
    staleTime: 60_000,
  });

/** With `version`, only where nobody has changed them since. */
export const saveInstructions = (project: string, text: string, version: string | null) =>
  change<Instructions>("PUT", instructionsPath(project), { text }, {}, version);

export const alignmentQuery = (run: string) =>
  queryOptions({
    queryKey: ["alignment", run],
    queryFn: ({ signal }) => get<Alignment>(`/runs/${run}/alignment`, {}, signal),
    staleTime: 30_000,
  });

export async function giveReview(item: ItemPlace, body: ReviewBody): Promise<Review> {
  const review = await change<Review>("PUT", `${itemPath(item)}/review`, body);
  tellReview(item, review.verdict);
  return review;
}

export async function undoReview(item: ItemPlace): Promise<{ review: Review | null }> {
  const answer = await change<{ review: Review | null }>("POST", `${itemPath(item)}/review/undo`);
  tellReview(item, answer.review?.verdict ?? null);
  return answer;
}

/** Tells queues that were read before what the person has said about an item, those of other tabs too. */
export function tellReview({ runId: run, itemId: item }: ItemPlace, verdict: Review["verdict"] | null): void {
  noteVerdict({ item, verdict });
  tellTabs({ kind: "reviewed", run, item, verdict });
}

/** Figures that a verdict changes, beside what is said of the item itself. */
export const countsOfReviews = (run: string) => [["alignment", run], ["corrected", run], ["review-queue", "progress"], ["review-queue", "waiting"]] as const;

/** Queues whose items are others as soon as somebody claims one. */
export const ASSIGNED_QUEUES = [["review-queue", { assigned: "me" }], ["review-queue", { assigned: "nobody" }], ["review-queue", "progress"]] as const;

export const claimItems = (filter: QueueFilter, count: number) => {
  const { sort, ...chosen } = toQuery(filter);
  return change<Schemas["ClaimedAnswer"]>("POST", "/review-queue/claim", {
    ...Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== undefined)),
    order: sort,
    count,
    seconds: CLAIM_SECONDS,
  });
};

export const extendClaims = () => change<Schemas["HeldAnswer"]>("POST", "/review-queue/heartbeat", { seconds: CLAIM_SECONDS });

export const releaseClaims = () => change<Schemas["ReleasedAnswer"]>("POST", "/review-queue/release", {});

export interface Promotion {
  readonly datasetName: string;
  readonly itemId: string;
  readonly expected: Readonly<Record<string, unknown>> | null;
}

/** Puts an item into a dataset, and makes the dataset if its name is new. */
export async function promoteItem({ datasetName, itemId, expected }: Promotion) {
  const found = await get<Schemas["DatasetSummaryAnswer"][]>("/datasets", { search: datasetName, limit: 500 });
  if (!found.some((one) => one.name === datasetName)) await change("POST", "/datasets", { name: datasetName });
  return change<Schemas["VersionAnswer"]>("POST", "/datasets/promote", {
    datasetName,
    items: [{ itemResultId: itemId, ...(expected === null ? {} : { overriddenExpectedOutput: expected }) }],
  });
}
