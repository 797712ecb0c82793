/** Filters under a name: how they stand in addresses, on the server, and in this browser where it is all there is. */
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

/** A view with where it is kept. */
export interface KeptView extends SavedView {
  /** On the server; null where this browser alone has it. */
  readonly id: string | null;
  /** Whether it may be changed here: others share theirs, too. */
  readonly isOwn: boolean;
  readonly isShared: boolean;
}

const KEY = nameHere("dokimos-views");
const MOST_VIEWS = 200;
export const LONGEST_NAME = 80;
const ANY = null;
const OUTCOMES = ["pass", "fail", "error", "none"];

/** What the filters of each page are called, with their values where those are few: a view may be of another version. */
const KNOWN: Record<Area, { readonly [name: string]: readonly string[] | null }> = {
  runs: { search: ANY, status: ANY, branch: ANY, tag: ANY, sort: ANY, columns: ANY },
  items: { search: ANY, outcome: OUTCOMES, evaluator: ANY, order: ANY, low: ANY, high: ANY, slice: ANY, value: ANY, columns: ANY, rows: ["low", "usual", "high"] },
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
/** Areas that have one page only. */
const ONLY_PAGES: Partial<Record<string, string>> = { traces: "/traces", review: "/review-queue" };
/** The name under which the server keeps the page of a view, beside its filters. */
const PAGE = "page";
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

/** The page on which a view opens: the one that is open where it is of its kind, else that on which it was saved, if any. */
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
  return typeof area === "string" && isArea(area) && typeof name === "string" && name !== "" && isPath(path) && typeof query === "string";
}

const isArea = (area: string): area is Area => Object.hasOwn(KNOWN, area);
const isPath = (path: unknown): path is string => typeof path === "string" && /^\/(?![/\\])/.test(path);

/** A view as the server keeps it: its filters by their names. */
export function toParameters({ area, path, query }: SavedView): Record<string, unknown> {
  const filters = new URLSearchParams(query);
  const values = [...new Set(filters.keys())].map((name) => {
    const all = filters.getAll(name);
    return [name, all.length === 1 ? all[0] : all] as const;
  });
  return Object.fromEntries(ONLY_PAGES[area] === path ? values : [...values, [PAGE, path] as const]);
}

interface StoredView {
  readonly id: string;
  readonly kind: string;
  readonly name: string;
  readonly query: Readonly<Record<string, unknown>>;
  readonly projectName: string | null;
  readonly shared: boolean;
  readonly isOwn: boolean;
}

/** A view of the server, which may have been made through the API; null where no page shows views of its kind. */
export function readStored({ id, kind, name, query: stored, projectName, shared: isShared, isOwn }: StoredView): KeptView | null {
  if (!isArea(kind)) return null;
  const { [PAGE]: page, ...filters } = stored;
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...(projectName !== null && kind in ONLY_PAGES ? { project: projectName } : {}), ...filters })) {
    for (const one of [value].flat()) if (one != null) query.append(key, typeof one === "object" ? JSON.stringify(one) : String(one));
  }
  const path = ONLY_PAGES[kind] ?? (isPath(page) ? page : "");
  return { id, area: kind, name, path, query: query.toString(), isOwn, isShared };
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
