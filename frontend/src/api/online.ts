/** What the pages of rules and alerts ask the server for. */
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { change, get } from "./client";
import { noteGone } from "../lib/drafts";
import { projectsQuery } from "./queries";
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Rule = Schemas["RuleAnswer"];
export type RuleStats = Schemas["RuleStatsAnswer"];
export type DryRun = Schemas["DryRunAnswer"];
export type BackFill = Schemas["BackFillAnswer"];
export type TraceAlert = Schemas["TraceAlertAnswer"];
export type Firing = Schemas["FiringAnswer"];
export type BackTest = Schemas["BackTestAnswer"];
export type EvidencePoint = Schemas["EvidencePointAnswer"];
export type Mean = Schemas["MeanAnswer"];

const LIVE_MS = 10_000;

/** The id of a project, which routes about rules and alerts need; undefined until it is known, and without a project. */
export function useProjectId(name: string | undefined) {
  const projects = useQuery(projectsQuery);
  return { id: projects.data?.find((one) => one.name === name)?.id, projects };
}

/** The project of a page that shows one at a time: the one that was chosen, or the only one that there is. */
export function useChosenProject(chosen: string | undefined) {
  const all = useQuery(projectsQuery).data;
  const project = chosen ?? (all?.length === 1 ? all[0]?.name : undefined);
  return { project, ...useProjectId(project) };
}

export const rulesQuery = (project: string) =>
  queryOptions({
    queryKey: ["trace-eval-rules", project],
    queryFn: async ({ signal }) => {
      const rules = await get<Rule[]>(`/projects/${project}/trace-eval-rules`, {}, signal);
      noteGone(`rule:${project}:`, rules.map((one) => one.id));
      return rules;
    },
  });

export const ruleStatsQuery = (project: string, rule: string, from: string | null = null, period = "") =>
  queryOptions({
    queryKey: ["rule-stats", project, rule, period],
    queryFn: ({ signal }) => get<RuleStats>(`/projects/${project}/trace-eval-rules/${rule}/stats`, { from }, signal),
    staleTime: 30_000,
  });

export const backFillsQuery = (project: string, rule: string) =>
  queryOptions({
    queryKey: ["back-fills", project, rule],
    queryFn: ({ signal }) => get<BackFill[]>(`/projects/${project}/trace-eval-rules/${rule}/back-fills`, {}, signal),
    refetchInterval: (query) => (query.state.data?.some((one) => one.status === "PENDING") ? LIVE_MS : false),
  });

/** The fields of a rule as they are sent, without those that the server adds. */
export function bodyOf(rule: Rule): Record<string, unknown> {
  const { id: _id, projectId: _project, createdAt: _created, updatedAt: _updated, version: _version, ...fields } = rule;
  return withoutNulls(fields);
}

export function withoutNulls(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

/** What a rule would match of the last week, and what that would cost; nothing is scored. */
export const dryRunQuery = (project: string, body: Record<string, unknown>) =>
  queryOptions({
    queryKey: ["dry-run", project, body],
    queryFn: () => change<DryRun>("POST", `/projects/${project}/trace-eval-rules/dry-run`, body),
    staleTime: 60_000,
    refetchOnWindowFocus: false, // somebody asks for it, by a button
    refetchOnReconnect: false,
  });

export const connectionsQuery = queryOptions({
  queryKey: ["llm-connections"],
  queryFn: ({ signal }) => get<readonly Schemas["ConnectionAnswer"][]>("/llm-connections", {}, signal),
});

/** Replaces a rule, unless somebody else has changed it since that version; with null, whatever it is. */
export const replaceRule = (rule: Rule, body: Record<string, unknown>, version: string | null = rule.version) =>
  change<Rule>("PUT", `/projects/${rule.projectId}/trace-eval-rules/${rule.id}`, body, {}, version);

export const createAlert = (project: string, body: Record<string, unknown>) => change<TraceAlert>("POST", `/projects/${project}/trace-alerts`, body);

/** Replaces an alert, unless somebody else has changed it since that version; with null, whatever it is. */
export const replaceAlert = (alert: TraceAlert, body: Record<string, unknown>, version: string | null = alert.version) =>
  change<TraceAlert>("PUT", `/projects/${alert.projectId}/trace-alerts/${alert.id}`, body, {}, version);

export const deleteAlert = (alert: TraceAlert) => change<void>("DELETE", `/projects/${alert.projectId}/trace-alerts/${alert.id}`);

/** The ids of the firings that nobody has acknowledged. */
const openFirings = (alerts: readonly TraceAlert[]): string[] =>
  alerts.flatMap(({ firing }) => (firing === null || firing.acknowledgedAt !== null ? [] : [firing.id]));

/** A list with what is saved by now, before it is read again: what is shown, and the version of the next change, are of it. */
export const withSaved = <T extends { readonly id: string }>(list: readonly T[] | undefined, saved: T): T[] | undefined =>
  list === undefined ? undefined : list.some((one) => one.id === saved.id) ? list.map((one) => (one.id === saved.id ? saved : one)) : [...list, saved];

export const alertsQuery = (project: string) =>
  queryOptions({
    queryKey: ["trace-alerts", project],
    queryFn: async ({ signal }) => {
      const alerts = await get<TraceAlert[]>(`/projects/${project}/trace-alerts`, {}, signal);
      noteGone(`alert:${project}:`, alerts.map((one) => one.id));
      noteGone(`acknowledge:${project}:`, openFirings(alerts));
      return alerts;
    },
    refetchInterval: LIVE_MS,
  });

export const firingsQuery = (project: string, alert: string) =>
  queryOptions({
    queryKey: ["trace-alerts", project, "firings", alert],
    queryFn: ({ signal }) => get<Firing[]>(`/projects/${project}/trace-alerts/${alert}/firings`, {}, signal),
    refetchInterval: LIVE_MS,
  });

/** How the evidence went since the alert began to watch. */
export const evidenceQuery = (alert: TraceAlert) =>
  queryOptions({
    queryKey: ["trace-alerts", alert.projectId, "evidence", alert.id, alert.observationCount],
    queryFn: ({ signal }) => get<EvidencePoint[]>(`/projects/${alert.projectId}/trace-alerts/${alert.id}/evidence`, {}, signal),
    placeholderData: keepPreviousData,
  });

/** On what an alert would have fired in the last 30 days as it is typed; nothing is stored. */
export const tryAlertQuery = (project: string, body: Record<string, unknown>) =>
  queryOptions({
    queryKey: ["back-test", project, body],
    queryFn: () => change<BackTest>("POST", `/projects/${project}/trace-alerts/back-test`, body),
    staleTime: 60_000,
    refetchOnWindowFocus: false, // somebody asks for it, by a button
    refetchOnReconnect: false,
  });

export const backTestQuery = (alert: TraceAlert) =>
  queryOptions({
    queryKey: ["back-test", alert.id, alert.updatedAt],
    queryFn: ({ signal }) => get<BackTest>(`/projects/${alert.projectId}/trace-alerts/${alert.id}/back-test`, {}, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
