/** What the server finds in the spans of a trace, part by part, a moment after the last key. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { type SpanMatch, spanMatchesQuery } from "../api/traces";
import type { SearchPlace } from "./spans";

const PAUSE_MS = 250;
/** A single letter is in nearly all spans. */
const FEWEST_LETTERS = 2;

export interface SpanMatches {
  readonly bySpan: ReadonlyMap<string, SpanMatch>;
  /** How many spans were looked at. */
  readonly searched: number;
  readonly isSearching: boolean;
  readonly error: Error | null;
  readonly again: () => void;
}

export function useSpanMatches(trace: string, search: string, place: SearchPlace): SpanMatches {
  const wanted = search.trim().slice(0, 500);
  const asked = useLater(wanted);
  const isWorthIt = asked.length >= FEWEST_LETTERS;
  const query = useInfiniteQuery({ ...spanMatchesQuery(trace, asked, place), enabled: isWorthIt });
  const { data, hasNextPage, isFetching, isError, fetchNextPage } = query;
  useEffect(() => {
    if (isWorthIt && hasNextPage && !isFetching && !isError) void fetchNextPage();
  }, [isWorthIt, hasNextPage, isFetching, isError, fetchNextPage]);
  // What was found for another text is not what is looked for.
  const parts = asked === wanted && isWorthIt ? data?.pages : undefined;
  const bySpan = useMemo(() => new Map((parts ?? []).flatMap((part) => part.content.map((one) => [one.spanId, one] as const))), [parts]);
  return {
    bySpan,
    searched: (parts ?? []).reduce((sum, part) => sum + part.searchedCount, 0),
    isSearching: wanted.length >= FEWEST_LETTERS && (asked !== wanted || (!isError && (isFetching || hasNextPage || data === undefined))),
    error: isWorthIt && isError ? query.error : null,
    again: () => void (data === undefined ? query.refetch() : fetchNextPage()),
  };
}

/** A text as it was a moment ago, once it rests; at first as it is. */
function useLater(text: string): string {
  const [later, setLater] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setLater(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return later;
}
