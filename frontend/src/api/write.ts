/**
 * The one way in which pages change something on the server.
 *
 * What is shown changes at once where `apply` says how, and back where the server refuses; the failure stays with the page
 * until the change is sent again (`resend`) or given up (`reset`), and what was typed stays in the page.
 */
import { type QueryClient, type QueryKey, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { describeFailure } from "../lib/failures";
import { notify } from "../lib/notices";
import { tellTabs } from "../lib/tabs";
import { ApiError } from "./client";
import { sessionQuery } from "./session";

export interface WriteOptions<V, A> {
  /** What is saved, as the subject of a sentence: `The comment`. */
  readonly what: string;
  readonly send: (value: V) => Promise<A>;
  /** Changes of one scope are sent one after another, in their order. */
  readonly scope?: string;
  /** Which answers change: kept to be restored, and asked for again afterwards. */
  readonly keys?: (value: V) => readonly QueryKey[];
  /** Shows the change before the server has answered. */
  readonly apply?: (queries: QueryClient, value: V) => void;
  /** What to say when it is saved, and how to take it back. */
  readonly notice?: (answer: A, value: V) => { readonly text: string; readonly undo?: () => void } | null;
  readonly onSaved?: (answer: A, value: V) => void;
  readonly onFailed?: (error: Error, value: V) => void;
}

export interface Write<V, A> {
  readonly save: (value: V) => void;
  readonly saveAsync: (value: V) => Promise<A>;
  readonly isSaving: boolean;
  readonly error: Error | null;
  /** Why the last change was not saved, in words; null where it was. */
  readonly failure: string | null;
  /** Whether somebody else was faster. */
  readonly isConflict: boolean;
  readonly resend: () => void;
  readonly reset: () => void;
}

export function useWrite<V, A>(options: WriteOptions<V, A>): Write<V, A> {
  const queries = useQueryClient();
  const session = useQuery(sessionQuery);
  const mutation = useMutation<A, Error, V, readonly (readonly [QueryKey, unknown])[]>({
    mutationFn: options.send,
    ...(options.scope === undefined ? {} : { scope: { id: options.scope } }),
    retry: false,
    networkMode: "always", // a browser may think that it is offline while this machine's server answers
    onMutate: async (value) => {
      const keys = options.keys?.(value) ?? [];
      if (options.apply === undefined) return [];
      await Promise.all(keys.map((queryKey) => queries.cancelQueries({ queryKey })));
      const before = keys.flatMap((queryKey) => queries.getQueriesData({ queryKey }));
      options.apply(queries, value);
      return before;
    },
    onError: (error, value, before) => {
      for (const [key, data] of before ?? []) queries.setQueryData(key, data);
      options.onFailed?.(error, value);
    },
    onSuccess: (answer, value) => {
      const said = options.notice?.(answer, value);
      if (said) notify(said.text, said.undo ?? null);
      options.onSaved?.(answer, value);
    },
    onSettled: (_answer, _error, value) => {
      const keys = options.keys?.(value) ?? [];
      for (const queryKey of keys) void queries.invalidateQueries({ queryKey });
      if (keys.length > 0) tellTabs({ kind: "changed", keys });
    },
  });
  const { error, variables } = mutation;
  return {
    save: mutation.mutate,
    saveAsync: mutation.mutateAsync,
    isSaving: mutation.isPending,
    error,
    failure: error === null ? null : describeFailure(error, options.what, session.data?.role),
    isConflict: error instanceof ApiError && (error.status === 409 || error.status === 412),
    resend: () => {
      if (variables !== undefined) mutation.mutate(variables);
    },
    reset: mutation.reset,
  };
}
