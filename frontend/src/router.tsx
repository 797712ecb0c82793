/** The addresses of the pages. Every state of a page is in its address, so that a link shows the same. */
import { createRoute, createRouter } from "@tanstack/react-router";
import { lazyPage } from "./lazy-page";
import { Failure, Loading } from "./components/bits";
import { type RunFilter, readRunAhead } from "./api/queries";
import type { QueueFilter } from "./api/reviews";
import { CHANGES, type Change } from "./lib/change-filter";
import type { RowHeight } from "./lib/item-columns";
import type { Show } from "./lib/matrix";
import type { Order, Outcome } from "./lib/outline";
import { BASE_PATH } from "./lib/root";
import { RUN_ORDERS, RUN_STATUSES } from "./lib/runs";
import { queryClient } from "./query-client";
import { rootRoute } from "./root-route";
import { traceRoutes } from "./trace-routes";
import { settingsRoutes } from "./settings-routes";

const text = (value: unknown): string | undefined => {
  const string = typeof value === "number" ? String(value) : value;
  return typeof string === "string" && string !== "" ? string : undefined;
};

const oneOf = <T extends string>(value: unknown, ...choices: readonly T[]): T | undefined => choices.find((choice) => choice === value);

export const homeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  component: lazyPage(() => import("./pages/home"), "HomePage"),
});

export const loginRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/login",
  validateSearch: (search: Record<string, unknown>): { returnTo?: string } => optional({ returnTo: text(search["returnTo"]) }),
  component: lazyPage(() => import("./pages/login"), "LoginPage"),
});

export const projectRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/projects/$name",
  component: lazyPage(() => import("./pages/project"), "ProjectPage"),
});

export interface ExperimentSearch extends RunFilter {
  /** The columns of the table of runs, separated by commas. */
  readonly columns?: string;
  readonly zoom?: "off";
  /** Of a matrix: the parameters of the runs whose trends are shown, their values as JSON. */
  readonly combination?: string;
}

export const experimentRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/experiments/$experimentId",
  validateSearch: (search: Record<string, unknown>): ExperimentSearch =>
    optional({
      search: text(search["search"]),
      status: oneOf(search["status"], ...RUN_STATUSES),
      branch: text(search["branch"]),
      tag: text(search["tag"]),
      sort: oneOf(search["sort"], ...RUN_ORDERS),
      columns: text(search["columns"]),
      zoom: oneOf(search["zoom"], "off"),
      combination: text(search["combination"]),
    }),
  component: lazyPage(() => import("./pages/experiment"), "ExperimentPage"),
});

export interface RunSearch {
  readonly search?: string;
  readonly outcome?: Outcome;
  readonly evaluator?: string;
  readonly order?: Order;
  /** Between which scores of the evaluator by which the items are sorted. */
  readonly low?: number;
  readonly high?: number;
  /** The key of the metadata by which the pass rate is shown, and the value whose items are listed. */
  readonly slice?: string;
  readonly value?: string;
  /** What the rows of items show, separated by commas, and how high they are. */
  readonly columns?: string;
  readonly rows?: RowHeight;
  /** The item that is open, as `ordinal` or `ordinal.repetition`. */
  readonly item?: string;
}

const bound = (value: unknown): number | undefined => (typeof value === "number" && Number.isFinite(value) ? value : undefined);

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
      low: bound(search["low"]),
      high: bound(search["high"]),
      slice: text(search["slice"]),
      value: text(search["value"]),
      columns: text(search["columns"]),
      rows: oneOf(search["rows"], "low", "usual", "high"),
      item: text(search["item"]),
    });
  },
  // Not awaited: the page shows what it waits for.
  loader: ({ params }) => void readRunAhead(queryClient, params.runId),
  component: lazyPage(() => import("./pages/run"), "RunPage"),
});

export interface CompareSearch {
  readonly baselineRunId?: string;
  /** Further runs that are compared with the baseline. */
  readonly also?: readonly string[];
  readonly status?: string;
  /** The key of the metadata by which runs are sliced, and the slice whose items are shown. */
  readonly slice?: string;
  readonly value?: string;
  /** The items that this evaluator, or any, sees changed: how, and by how much its score moved at least. */
  readonly evaluator?: string;
  readonly change?: Change;
  readonly least?: number;
  /** The evaluator whose scores are shown where more than two runs are compared. */
  readonly scores?: string;
  /** The item that is shown side by side. */
  readonly item?: string;
}

const MOST_ALSO = 2;

const notNegative = (value: unknown): number | undefined => {
  const number = bound(value);
  return number !== undefined && number >= 0 ? number : undefined;
};

export const compareRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/experiments/$experimentId/runs/$runId/diff",
  validateSearch: (search: Record<string, unknown>): CompareSearch => {
    const also = [search["also"]].flat().map(text).filter((one) => one !== undefined).slice(0, MOST_ALSO);
    return optional({
      baselineRunId: text(search["baselineRunId"]),
      also: also.length > 0 ? also : undefined,
      status: text(search["status"]),
      slice: text(search["slice"]),
      value: text(search["value"]),
      evaluator: text(search["evaluator"]),
      change: oneOf(search["change"], ...CHANGES),
      least: notNegative(search["least"]),
      scores: text(search["scores"]),
      item: text(search["item"]),
    });
  },
  component: lazyPage(() => import("./pages/compare"), "ComparePage"),
});

export interface MatrixSearch {
  /** The runs, separated by commas; the latest of each combination of parameters where there are none. */
  readonly runs?: string;
  /** The parameter by which columns are grouped, and the one that tells the columns of a group apart. */
  readonly group?: string;
  readonly by?: string;
  readonly show?: Show;
  readonly search?: string;
  /** The evaluator whose scores cells show. */
  readonly scores?: string;
  /** The item that is open, and the run in which it is; on a narrow screen, the run whose column is shown. */
  readonly item?: string;
  readonly column?: string;
}

export const matrixRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/experiments/$experimentId/matrix",
  validateSearch: (search: Record<string, unknown>): MatrixSearch =>
    optional({
      runs: text(search["runs"]),
      group: text(search["group"]),
      by: text(search["by"]),
      show: oneOf(search["show"], "differ", "failed", "errors", "missing"),
      search: text(search["search"]),
      scores: text(search["scores"]),
      item: text(search["item"]),
      column: text(search["column"]),
    }),
  component: lazyPage(() => import("./pages/matrix"), "MatrixPage"),
});

const share = (value: unknown): number | undefined => (Number(value) > 0 && Number(value) <= 1 ? Number(value) : undefined);

export interface ReviewSearch extends QueueFilter {
  /** The item that is shown, by its id. */
  readonly item?: string;
  /** Of so many days the progress of the reviewers is shown. */
  readonly reviewers?: 1 | 7 | 30;
}

export const reviewRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/review-queue",
  validateSearch: (search: Record<string, unknown>): ReviewSearch =>
    optional({
      project: text(search["project"]),
      experimentId: text(search["experimentId"]),
      runId: text(search["runId"]),
      outcome: oneOf(search["outcome"], "failed", "errored"),
      disagree: search["disagree"] === true ? true : undefined,
      near: share(search["near"]),
      sample: share(search["sample"]),
      assigned: oneOf(search["assigned"], "me", "nobody"),
      order: oneOf(search["order"], "oldest"),
      item: text(search["item"]),
      reviewers: ([1, 7, 30] as const).find((days) => days === Number(search["reviewers"])),
    }),
  component: lazyPage(() => import("./pages/review"), "ReviewPage"),
});

const whole = (value: unknown): number | undefined => (Number.isInteger(Number(value)) && Number(value) > 0 ? Number(value) : undefined);

export const datasetsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/datasets",
  validateSearch: (search: Record<string, unknown>): { search?: string; project?: string } =>
    optional({ search: text(search["search"]), project: text(search["project"]) }),
  component: lazyPage(() => import("./pages/datasets"), "DatasetsPage"),
});

export const datasetRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/datasets/$name",
  validateSearch: (search: Record<string, unknown>): { version?: number; search?: string; upload?: boolean } =>
    optional({
      version: whole(search["version"]),
      search: text(search["search"]),
      upload: search["upload"] === true ? true : undefined,
    }),
  component: lazyPage(() => import("./pages/dataset"), "DatasetPage"),
});

export const datasetDiffRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/datasets/$name/diff",
  validateSearch: (search: Record<string, unknown>): { from?: number; to?: number; status?: string; page?: number } =>
    optional({
      from: whole(search["from"]),
      to: whole(search["to"]),
      status: oneOf(search["status"], "ADDED", "CHANGED", "REMOVED"),
      page: whole(search["page"]),
    }),
  component: lazyPage(() => import("./pages/dataset-diff"), "DatasetDiffPage"),
});

/**
 * What an address may say. The router lays this over what the address does say: what is undefined has to be there, or a
 * value that was refused would stand. It is in no address that the router writes.
 */
function optional<T extends Record<string, unknown>>(search: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return search as { [K in keyof T]?: Exclude<T[K], undefined> };
}

export const router = createRouter({
  routeTree: rootRoute.addChildren([
    homeRoute, loginRoute, reviewRoute, datasetsRoute, datasetRoute, datasetDiffRoute, projectRoute, experimentRoute, runRoute,
    compareRoute, matrixRoute, ...traceRoutes, ...settingsRoutes,
  ]),
  basepath: BASE_PATH,
  defaultPendingComponent: Loading,
  defaultErrorComponent: ({ error }) => <Failure error={error} />,
  scrollRestoration: true,
  // Another run is another page: what is typed or ticked on one belongs to it.
  defaultRemountDeps: ({ params }) => params,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
