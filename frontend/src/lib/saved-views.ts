/** Filters under a name, kept in this browser alone. */
import { nameHere } from "./root";
import { makeStore } from "./store";

export type Area = "runs" | "items" | "traces" | "review";

export interface SavedView {
  readonly area: Area;
  readonly name: string;
  /** The page on which it was saved. */
  readonly path: string;
  /** The filters as they stand in an address, without `?`. */
  readonly query: string;
}

const KEY = nameHere("dokimos-views");
const MOST_VIEWS = 200;
export const LONGEST_NAME = 80;
const ANY = null;
const OUTCOMES = ["pass", "fail", "error", "none"];

/** What the filters of each page are called, with their values where those are few: a view may be of another version. */
const KNOWN: Record<Area, { readonly [name: string]: readonly string[] | null }> = {
  runs: { search: ANY, status: ANY, branch: ANY, tag: ANY, sort: ANY, columns: ANY },
  items: { search: ANY, outcome: OUTCOMES, evaluator: ANY, order: ANY },
  traces: {
    search: ANY, project: ANY, period: ["1h", "24h", "7d", "30d"], live: ["true"], filters: ["open"], from: ANY, to: ANY, status: ["ok", "error"],
    sort: ["createdAt,asc", "startTime,desc", "duration,desc", "cost,desc", "tokens,desc", "score,asc"],
    minDurationMs: ANY, maxDurationMs: ANY, minCostUsd: ANY, maxCostUsd: ANY, minTokens: ANY, maxTokens: ANY, sessionId: ANY, userId: ANY,
    rootName: ANY, model: ANY, evaluator: ANY, minScore: ANY, maxScore: ANY, result: ["failed", "error", "passed"], attribute: ANY,
  },
  review: {
    project: ANY, experimentId: ANY, runId: ANY, outcome: ["failed", "errored"], disagree: ["true"], near: ANY, sample: ANY,
    assigned: ["me", "nobody"], order: ["oldest"],
  },
};
const PAGES: Record<Area, RegExp> = {
  runs: /^\/experiments\/[^/]+$/, items: /^\/runs\/[^/]+$/, traces: /^\/traces$/, review: /^\/review-queue$/,
};
/** What is open on a page, which is not a filter. */
const OPEN: readonly string[] = ["item", "zoom"];

export interface ReadQuery {
  readonly query: string;
  /** The names of what this version does not understand. */
  readonly unknown: readonly string[];
}

/** The filters of an area in the part of an address behind `?`. */
export function readFilters(area: Area, search: string): ReadQuery {
  const kept = new URLSearchParams();
  const unknown: string[] = [];
  for (const [name, value] of new URLSearchParams(search)) {
    if (OPEN.includes(name)) continue;
    const values = Object.hasOwn(KNOWN[area], name) ? KNOWN[area][name] : undefined;
    if (values === undefined || (values !== null && !values.includes(bareText(value)))) unknown.push(name);
    else kept.append(name, value);
  }
  kept.sort();
  return { query: kept.toString(), unknown };
}

/** The router writes a text in quotes that it would else read as something else, such as `true`. */
const bareText = (value: string): string => /^"(.*)"$/.exec(value)?.[1] ?? value;

/** The page on which a view opens: the one that is open where it is of its kind, else that on which it was saved. */
export function pathOf(view: SavedView, pathname: string): string {
  return PAGES[view.area].test(pathname) ? pathname : view.path;
}

/** The views in a text that this or another version has stored; what is not one is left out. */
export function parseViews(text: string | null): SavedView[] {
  try {
    const stored: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(stored) ? stored.filter(isView).slice(0, MOST_VIEWS) : [];
  } catch {
    return [];
  }
}

function isView(value: unknown): value is SavedView {
  if (typeof value !== "object" || value === null) return false;
  const { area, name, path, query } = value as Record<string, unknown>;
  const isPath = typeof path === "string" && /^\/(?![/\\])/.test(path);
  return typeof area === "string" && Object.hasOwn(KNOWN, area) && typeof name === "string" && name !== "" && isPath && typeof query === "string";
}

/** With a view, in the place of the one with its name. */
export function addView(views: readonly SavedView[], view: SavedView): SavedView[] {
  return [...removeView(views, view), view];
}

export function removeView(views: readonly SavedView[], view: Pick<SavedView, "area" | "name">): SavedView[] {
  return views.filter((one) => one.area !== view.area || one.name !== view.name);
}

export const savedViews = makeStore<readonly SavedView[]>([]);

/** Reads what this browser keeps, now and whenever another tab changes it. */
export function followViews(): () => void {
  const load = () => savedViews.set(parseViews(readStorage()));
  const listen = (event: StorageEvent) => {
    if (event.key === KEY || event.key === null) load();
  };
  load();
  window.addEventListener("storage", listen);
  return () => window.removeEventListener("storage", listen);
}

/** Changes what is kept, on top of what other tabs have kept; returns why it could not be, or null. */
export function changeViews(change: (views: readonly SavedView[]) => readonly SavedView[]): string | null {
  const next = change(parseViews(readStorage()));
  if (next.length > MOST_VIEWS) return `This browser keeps ${MOST_VIEWS} views at most; delete one first.`;
  try {
    localStorage.setItem(KEY, JSON.stringify(next));
  } catch (error) {
    const isFull = error instanceof DOMException && error.name === "QuotaExceededError";
    return isFull
      ? "The storage of this browser is full. Nothing was saved; delete views, or data of this site."
      : "This browser lets this site store nothing. Nothing was saved; the address itself can be bookmarked.";
  }
  savedViews.set(next);
  return null;
}

function readStorage(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
