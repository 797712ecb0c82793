/** The addresses of the pages with which a server is set up and watched over. */
import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "./lazy-page";
import { rootRoute } from "./root-route";
import { readTexts } from "./lib/address-texts";

/** `edit`: the id of the connection whose form is open, or `new`. */
export type ConnectionsSearch = { readonly [name in "search" | "edit"]?: string };

export const connectionsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/llm-connections",
  validateSearch: (search: Record<string, unknown>): ConnectionsSearch => readTexts(search, ["search", "edit"]),
  component: lazyPage(() => import("./pages/connections"), "ConnectionsPage"),
});

/** `make`: whether the form for a new key is open. */
export type KeysSearch = { readonly [name in "search" | "sort" | "make"]?: string };

export const keysRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/api-keys",
  validateSearch: (search: Record<string, unknown>): KeysSearch => readTexts(search, ["search", "sort", "make"]),
  component: lazyPage(() => import("./pages/api-keys"), "KeysPage"),
});

/** `edit`: the id of the webhook whose form is open, or `new`. `log`: that of the one whose deliveries are shown. */
export type WebhooksSearch = { readonly [name in "edit" | "log" | "status"]?: string };

export const webhooksRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/projects/$name/alerts",
  validateSearch: (search: Record<string, unknown>): WebhooksSearch => readTexts(search, ["edit", "log", "status"]),
  component: lazyPage(() => import("./pages/webhooks"), "WebhooksPage"),
});

export const AUDIT_FILTERS = ["principal", "action", "target", "project", "outcome", "from", "to", "search"] as const;

export type AuditSearch = { readonly [name in (typeof AUDIT_FILTERS)[number]]?: string };

export const auditRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/audit-log",
  validateSearch: (search: Record<string, unknown>): AuditSearch => readTexts(search, AUDIT_FILTERS),
  component: lazyPage(() => import("./pages/audit-log"), "AuditPage"),
});

export const serverSettingsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/settings",
  validateSearch: (search: Record<string, unknown>): { readonly search?: string; readonly all?: string } => readTexts(search, ["search", "all"]),
  component: lazyPage(() => import("./pages/server-settings"), "ServerSettingsPage"),
});

export const projectSettingsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/projects/$name/settings",
  component: lazyPage(() => import("./pages/project-settings"), "ProjectSettingsPage"),
});

/** `period`: such as `7d`. `unit`: that of the chart. */
export type LedgerSearch = { readonly [name in "state" | "job" | "run" | "connection" | "period" | "unit"]?: string };

const CALL_STATES: readonly string[] = ["ANSWERED", "IN_FLIGHT", "UNUSABLE", "FAILED", "LOST", "REPLACED"];
const SPENDING_UNITS: readonly string[] = ["usd", "tokens", "calls"];

export const ledgerRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/projects/$name/judge-calls",
  validateSearch: (search: Record<string, unknown>): LedgerSearch => {
    const { state, unit, ...rest } = readTexts(search, ["state", "job", "run", "connection", "period", "unit"]);
    return {
      ...rest,
      state: CALL_STATES.find((one) => one === state),
      unit: SPENDING_UNITS.find((one) => one === unit),
    } as LedgerSearch;
  },
  component: lazyPage(() => import("./pages/ledger"), "LedgerPage"),
});

export const validityRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/validity",
  component: lazyPage(() => import("./pages/validity"), "ValidityPage"),
});

export const settingsRoutes = [connectionsRoute, keysRoute, webhooksRoute, auditRoute, serverSettingsRoute, projectSettingsRoute, ledgerRoute, validityRoute] as const;
