/** The addresses of the pages. Every state of a page is in its address, so that a link shows the same. */
import { createRoute, createRouter } from "@tanstack/react-router";
import { lazy } from "react";
import { Failure, Loading } from "./components/bits";
import type { Order, Outcome } from "./lib/outline";
import { rootRoute } from "./root-route";
import { traceRoutes } from "./trace-routes";

const text = (value: unknown): string | undefined => {
  const string = typeof value === "number" ? String(value) : value;
  return typeof string === "string" && string !== "" ? string : undefined;
};

export const homeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  component: lazy(() => import("./pages/home").then((page) => ({ default: page.HomePage }))),
});

export const loginRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/login",
  validateSearch: (search: Record<string, unknown>): { returnTo?: string } => optional({ returnTo: text(search["returnTo"]) }),
  component: lazy(() => import("./pages/login").then((page) => ({ default: page.LoginPage }))),
});

export const projectRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/projects/$name",
  component: lazy(() => import("./pages/project").then((page) => ({ default: page.ProjectPage }))),
});

export const experimentRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/experiments/$experimentId",
  validateSearch: (search: Record<string, unknown>): { search?: string } => optional({ search: text(search["search"]) }),
  component: lazy(() => import("./pages/experiment").then((page) => ({ default: page.ExperimentPage }))),
});

export interface RunSearch {
  readonly search?: string;
  readonly outcome?: Outcome;
  readonly evaluator?: string;
  readonly order?: Order;
  /** The item that is open, as `ordinal` or `ordinal.repetition`. */
  readonly item?: string;
}

const OUTCOMES: readonly string[] = ["pass", "fail", "error", "none"];

export const runRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs/$runId",
  validateSearch: (search: Record<string, unknown>): RunSearch => {
    const outcome = text(search["outcome"]);
    const order = text(search["order"]);
    const isOrder = order === "ordinal" || order === "slowest" || order?.startsWith("score:");
    return optional({
      search: text(search["search"]),
      outcome: outcome !== undefined && OUTCOMES.includes(outcome) ? (outcome as Outcome) : undefined,
      evaluator: text(search["evaluator"]),
      order: isOrder ? (order as Order) : undefined,
      item: text(search["item"]),
    });
  },
  component: lazy(() => import("./pages/run").then((page) => ({ default: page.RunPage }))),
});

export interface CompareSearch {
  readonly baselineRunId?: string;
  readonly status?: string;
  readonly page?: number;
  /** The case that is shown side by side, by its place in the comparison. */
  readonly item?: string;
}

export const compareRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/experiments/$experimentId/runs/$runId/diff",
  validateSearch: (search: Record<string, unknown>): CompareSearch => {
    const page = Number(search["page"]);
    return optional({
      baselineRunId: text(search["baselineRunId"]),
      status: text(search["status"]),
      page: Number.isInteger(page) && page > 0 ? page : undefined,
      item: text(search["item"]),
    });
  },
  component: lazy(() => import("./pages/compare").then((page) => ({ default: page.ComparePage }))),
});

/** Without what is undefined, which must not stand in the address. */
function optional<T extends Record<string, unknown>>(search: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const kept = Object.entries(search).filter(([, value]) => value !== undefined);
  return Object.fromEntries(kept) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

export const router = createRouter({
  routeTree: rootRoute.addChildren([homeRoute, loginRoute, projectRoute, experimentRoute, runRoute, compareRoute, ...traceRoutes]),
  defaultPendingComponent: Loading,
  defaultErrorComponent: ({ error }) => <Failure error={error} />,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
