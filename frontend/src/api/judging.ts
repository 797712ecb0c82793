/** Judge jobs of a run, what people said of it, and the changes that are made to a run. */
import { queryOptions } from "@tanstack/react-query";
import { change, get } from "./client";
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Job = Schemas["JobAnswer"];
export type CorrectedRates = Schemas["CorrectedRatesAnswer"];

const JOB_LOOK_MS = 5_000;
const OPEN: readonly string[] = ["PENDING", "CLAIMED", "PAUSED"];

export const isOpenJob = (job: Job): boolean => OPEN.includes(job.status);

export const jobsQuery = (run: string) =>
  queryOptions({
    queryKey: ["jobs", run],
    queryFn: ({ signal }) => get<Job[]>(`/runs/${run}/judge-jobs`, {}, signal),
    refetchInterval: (query) => (query.state.data?.some(isOpenJob) ? JOB_LOOK_MS : false),
  });

export const correctedRatesQuery = (run: string) =>
  queryOptions({
    queryKey: ["corrected", run],
    queryFn: ({ signal }) => get<CorrectedRates>(`/runs/${run}/corrected-rates`, {}, signal),
  });

export interface NewJob {
  readonly connectionId: string;
  readonly evaluatorName: string;
  readonly criteria: string;
  readonly evaluationParams: readonly string[];
  readonly minScore: number;
  readonly maxScore: number;
  readonly threshold: number | null;
}

export const addJob = (run: string) => (job: NewJob) => change<Job>("POST", `/runs/${run}/judge-jobs`, job);

export type JobAction = "pause" | "resume" | "cancel" | "retry" | "delete";

export const changeJob = (run: string) => ({ job, action }: { readonly job: Job; readonly action: JobAction }) =>
  action === "delete"
    ? change<unknown>("DELETE", `/runs/${run}/judge-jobs/${job.id}`)
    : change<unknown>("POST", `/runs/${run}/judge-jobs/${job.id}/${action}`);

export interface RunDescription {
  readonly name?: string | null;
  readonly notes?: string | null;
  readonly tags?: readonly string[];
}

export const describeRun = (run: string) => (description: RunDescription) =>
  change<unknown>("PATCH", `/runs/${run}/description`, description);

export const pinBaseline = (experiment: string) => (run: string | null) =>
  change<unknown>("PUT", `/experiments/${experiment}/baseline`, { runId: run });
