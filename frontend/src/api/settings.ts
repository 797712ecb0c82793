/** What the pages of connections, keys, webhooks, the audit log and settings ask for and change. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { noteGone } from "../lib/drafts";
import { keepKeyText } from "../lib/key-texts";
import type { AuditSearch } from "../settings-routes";
import { change, get } from "./client";
import type { components } from "./schema";
import { type Session, lastPerson } from "./session";

type Schemas = components["schemas"];
export type Connection = Schemas["ConnectionAnswer"];
export type ConnectionBody = Schemas["ConnectionBody"];
export type ConnectionTest = Schemas["ConnectionTestAnswer"];
export type ApiKey = Schemas["KeyAnswer"];
type CreatedKey = Schemas["CreatedKeyAnswer"];
export type KeyBody = Schemas["CreateKeyBody"];
export type Webhook = Schemas["WebhookAnswer"];
export type WebhookBody = Schemas["WebhookBody"];
export type Delivery = Schemas["DeliveryAnswer"];
export type AuditRow = Schemas["AuditAnswer"];
export type ServerSettings = Schemas["ServerSettingsAnswer"];
export type ProjectSettings = Schemas["ProjectSettingsAnswer"];
export type SettingValues = Schemas["SettingValues"];
export type Member = Schemas["MemberAnswer"];

const PAGE = 100;
const ROLES: readonly string[] = ["NONE", "VIEWER", "EDITOR", "ADMIN"];
const projectPath = (name: string) => `/projects/${encodeURIComponent(name)}`;

/** Whether somebody has a role on the whole server, or in the project; the server decides for each request. */
export function hasRole(session: Session | undefined, role: "EDITOR" | "ADMIN", project?: string): boolean {
  if (session === undefined || !session.needsKey) return true;
  const held = [session.role, ...session.projects.filter((one) => one.project === project).map((one) => one.role)];
  return held.some((one) => ROLES.indexOf(one) >= ROLES.indexOf(role));
}

export const connectionsQuery = (search: string) =>
  queryOptions({
    queryKey: ["llm-connections", search],
    queryFn: async ({ signal }) => {
      const connections = await get<Connection[]>("/llm-connections", { search }, signal);
      if (search === "") noteGone("connection:", connections.map((one) => one.id));
      return connections;
    },
    placeholderData: keepPreviousData,
  });

export const connectionQuery = (id: string) =>
  queryOptions({
    queryKey: ["llm-connections", "one", id],
    queryFn: ({ signal }) => get<Connection>(`/llm-connections/${id}`, {}, signal),
  });

/** With `version`, only where nobody has changed it since. */
export const saveConnection = (id: string | null, body: Partial<ConnectionBody>, version: string | null) =>
  id === null ? change<Connection>("POST", "/llm-connections", body) : change<Connection>("PUT", `/llm-connections/${id}`, body, {}, version);

/** Tries a connection with one tiny request: as it is stored, or as `body` would make it. */
export const tryConnection = (id: string | null, body?: Partial<ConnectionBody>) =>
  change<ConnectionTest>("POST", id === null ? "/llm-connections/test" : `/llm-connections/${id}/test`, body ?? {});

export const deleteConnection = (id: string) => change<void>("DELETE", `/llm-connections/${id}`);

export const keysQuery = (search: string, sort: string) =>
  infiniteQueryOptions({
    queryKey: ["api-keys", search, sort],
    queryFn: ({ pageParam, signal }) => get<ApiKey[]>("/api-keys", { search, sort, limit: PAGE, after: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last: readonly ApiKey[]) => (last.length < PAGE ? null : (last.at(-1)?.id ?? null)),
    placeholderData: keepPreviousData,
  });

export const createKey = (body: Partial<KeyBody>) => keepKeyText(change<CreatedKey>("POST", "/api-keys", body), lastPerson());
export const rotateKey = (id: string, overlapHours: number) => keepKeyText(change<CreatedKey>("POST", `/api-keys/${id}/rotate`, { overlapHours }), lastPerson());
export const enableKey = (id: string, isOn: boolean) => change<ApiKey>("POST", `/api-keys/${id}/${isOn ? "enable" : "disable"}`);
export const deleteKey = (id: string) => change<void>("DELETE", `/api-keys/${id}`);

const webhooksPath = (project: string) => `/projects/${project}/alert-webhooks`;

export const webhooksQuery = (project: string) =>
  queryOptions({
    queryKey: ["webhooks", project],
    queryFn: async ({ signal }) => {
      const webhooks = await get<Webhook[]>(webhooksPath(project), {}, signal);
      noteGone(`webhook:${project}:`, webhooks.map((one) => one.id));
      return webhooks;
    },
  });

export const deliveriesQuery = (project: string, webhook: string, status: string) =>
  infiniteQueryOptions({
    queryKey: ["deliveries", project, webhook, status],
    queryFn: ({ pageParam, signal }) =>
      get<Delivery[]>(`${webhooksPath(project)}/${webhook}/deliveries`, { status, limit: PAGE, after: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last: readonly Delivery[]) => (last.length < PAGE ? null : (last.at(-1)?.id ?? null)),
    placeholderData: keepPreviousData,
  });

export const saveWebhook = (project: string, id: string | null, body: Partial<WebhookBody>, version: string | null) =>
  id === null ? change<Webhook>("POST", webhooksPath(project), body) : change<Webhook>("PUT", `${webhooksPath(project)}/${id}`, body, {}, version);

export const deleteWebhook = (project: string, id: string) => change<void>("DELETE", `${webhooksPath(project)}/${id}`);
export const tryWebhook = (project: string, id: string) => change<Delivery>("POST", `${webhooksPath(project)}/${id}/test`);
export const sendAgain = (project: string, webhook: string, id: string) =>
  change<Delivery>("POST", `${webhooksPath(project)}/${webhook}/deliveries/${id}/redeliver`);

export const auditQuery = (filter: AuditSearch) =>
  infiniteQueryOptions({
    queryKey: ["audit-log", filter],
    queryFn: ({ pageParam, signal }) => get<AuditRow[]>("/audit-log", { ...filter, limit: PAGE, after: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last: readonly AuditRow[]) => (last.length < PAGE ? null : (last.at(-1)?.id ?? null)),
    placeholderData: keepPreviousData,
  });

export const serverSettingsQuery = queryOptions({
  queryKey: ["server-settings"],
  queryFn: ({ signal }) => get<ServerSettings>("/settings", {}, signal),
});

/** What is set for a project; `preview` as if that were set. */
export const projectSettingsQuery = (name: string, preview: { readonly runRetentionDays?: number; readonly keepLatestRuns?: number } = {}) =>
  queryOptions({
    queryKey: ["project-settings", name, preview],
    queryFn: ({ signal }) => get<ProjectSettings>(`${projectPath(name)}/settings`, { ...preview }, signal),
  });

export const saveProjectSettings = (name: string, body: Partial<Schemas["ProjectSettingsBody"]>) =>
  change<ProjectSettings>("PATCH", `${projectPath(name)}/settings`, body);

export const membersQuery = (name: string) =>
  queryOptions({
    queryKey: ["members", name],
    queryFn: ({ signal }) => get<Member[]>(`${projectPath(name)}/members`, {}, signal),
  });

/** The people who have signed in; those who sign in later are not known yet. */
export const usersQuery = queryOptions({
  queryKey: ["users"],
  queryFn: ({ signal }) => get<Schemas["UserAnswer"][]>("/users", { limit: 500 }, signal),
});

export const saveMember = (name: string, id: string, role: string) => change<Member>("PUT", `${projectPath(name)}/members/${id}`, { role });
export const removeMember = (name: string, id: string) => change<void>("DELETE", `${projectPath(name)}/members/${id}`);
