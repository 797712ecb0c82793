/** Saved views: on the server for whoever is signed in, or for all where it is open; else in this browser alone. */
import { type QueryClient, queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { cut } from "../lib/format";
import { type KeptView, type SavedView, addView, changeViews, readStored, removeView, savedViews, toParameters } from "../lib/saved-views";
import { useStore } from "../lib/store";
import { change, get } from "./client";
import type { components } from "./schema";
import { sessionQuery } from "./session";
import { type Write, useWrite } from "./write";

type ViewAnswer = components["schemas"]["ViewAnswer"];

const viewsQuery = queryOptions({
  queryKey: ["views"],
  queryFn: ({ signal }) => get<ViewAnswer[]>("/views", {}, signal),
  staleTime: 60_000,
  select: (rows) => rows.flatMap((row) => readStored(row) ?? []),
});

export interface KeptViews {
  /** One's own on the server first, then those of this browser, then those that others share. */
  readonly views: readonly KeptView[];
  readonly isOnServer: boolean;
  /** Why those of the server are not among them; null where they are, or are still read. */
  readonly failure: string | null;
}

export function useKeptViews(): KeptViews {
  const session = useQuery(sessionQuery).data;
  const isOnServer = session !== undefined && (!session.needsKey || session.isAuthenticated);
  const stored = useQuery({ ...viewsQuery, enabled: isOnServer });
  const local = useStore(savedViews);
  return useMemo(() => {
    const own = stored.data?.filter((view) => view.isOwn) ?? [];
    const shared = stored.data?.filter((view) => !view.isOwn) ?? [];
    const here = local.map((view): KeptView => ({ ...view, id: null, isOwn: true, isShared: false }));
    return { views: isOnServer ? [...own, ...here, ...shared] : here, isOnServer, failure: stored.error?.message ?? null };
  }, [isOnServer, stored.data, stored.error, local]);
}

/** One change of views, and what to say of it. */
export interface ViewChange {
  readonly send: (queries: QueryClient) => Promise<unknown>;
  readonly notice?: { readonly text: string; readonly undo?: () => void };
  readonly onSaved?: () => void;
}

export function useViewChanges(): Write<ViewChange, unknown> {
  const queries = useQueryClient();
  return useWrite<ViewChange, unknown>({
    what: "The view",
    scope: "views",
    send: (one) => one.send(queries),
    keys: () => [viewsQuery.queryKey],
    notice: (_, one) => one.notice ?? null,
    onSaved: (_, one) => one.onSaved?.(),
  });
}

/** Changes those of this browser. */
function changeHere(edit: (views: readonly SavedView[]) => readonly SavedView[]): void {
  const fault = changeViews(edit);
  if (fault !== null) throw new Error(fault);
}

const create = (view: SavedView, isShared = false) =>
  change<ViewAnswer>("POST", "/views", { kind: view.area, name: view.name, query: toParameters(view), projectName: null, shared: isShared });

/** Keeps a view: in the place of `old`, if there is one of its name. */
export async function keepView(view: SavedView, old: KeptView | undefined, isOnServer: boolean): Promise<void> {
  if (old?.id != null) await change("PATCH", `/views/${old.id}`, { query: toParameters(view) });
  else if (isOnServer && old === undefined) await create(view);
  else changeHere((all) => addView(all, bare(view)));
}

export async function renameView(view: KeptView, name: string): Promise<void> {
  if (view.id !== null) await change("PATCH", `/views/${view.id}`, { name });
  else changeHere((all) => all.map((one) => (one.area === view.area && one.name === view.name ? { ...one, name } : one)));
}

export async function deleteView(view: KeptView): Promise<void> {
  if (view.id !== null) await change("DELETE", `/views/${view.id}`);
  else changeHere((all) => removeView(all, view));
}

/** Puts back what was deleted. */
export async function restoreView(view: KeptView): Promise<void> {
  if (view.id !== null) await create(view, view.isShared);
  else changeHere((all) => addView(all, bare(view)));
}

export const shareView = (view: KeptView, isShared: boolean) => change("PATCH", `/views/${view.id}`, { shared: isShared });

/**
 * Moves views of this browser to the server. One that is there already, with the same filters, is not made twice; one
 * whose name has other filters there stays here.
 */
export async function moveViews(queries: QueryClient, views: readonly KeptView[]): Promise<void> {
  const stored = (await queries.fetchQuery({ ...viewsQuery, staleTime: 0 })).flatMap((row) => readStored(row) ?? []).filter((one) => one.isOwn);
  const left: string[] = [];
  for (const view of views) {
    const same = stored.find((one) => one.area === view.area && one.name === view.name);
    if (same !== undefined && same.query !== view.query) left.push(view.name);
    else {
      if (same === undefined) await create(view);
      changeHere((all) => removeView(all, view));
    }
  }
  if (left.length > 0) throw new Error(`“${cut(left.join("”, “"), 80)}” has other filters on the server. Rename it here, then move it.`);
}

const bare = ({ area, name, path, query }: SavedView): SavedView => ({ area, name, path, query });
