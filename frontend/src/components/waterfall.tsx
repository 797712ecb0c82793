/** The spans of a trace on one time axis: rows of one height, of which only those in sight are in the page. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import type { EvalJob, SpanMatch } from "../api/traces";
import { count, cut, duration, plural, shown } from "../lib/format";
import { NOTHING_PRICED, leastCost, unpricedNote } from "../lib/pricing";
import { type KeyLine, useKeyHelp, useKeys } from "../lib/keys";
import { SEARCH_PLACES, type SearchPlace, type SpanRow, type SpanTree, chooseRows, countKindsOfSpans, idsAbove, isUsed, outcomeOfJob, stepToHit } from "../lib/spans";
import type { SpanMatches } from "../lib/use-span-matches";
import { SearchField, State } from "./bits";
import { moveFocus } from "./trace-bits";

const WIDE_ROW = 32;
const NARROW_ROW = 46;
const MOST_INDENT = 14;

interface Props {
  readonly tree: SpanTree;
  readonly results: ReadonlyMap<string, readonly EvalJob[]>;
  readonly search: string;
  readonly onlyFailing: boolean;
  readonly current: string | undefined;
  readonly onSearch: (text: string) => void;
  readonly onOnlyFailing: () => void;
  readonly kind: string | undefined;
  readonly onKind: (kind: string | undefined) => void;
  readonly place: SearchPlace;
  readonly onPlace: (place: SearchPlace) => void;
  /** What the server has found. */
  readonly matches: SpanMatches;
  /** Whether all spans are shown, rather than those that are chosen. */
  readonly isWhole: boolean;
  readonly onWhole: () => void;
  /** The span that is marked, one of those that are found. */
  readonly at: string | undefined;
  readonly onAt: (span: string) => void;
  readonly onOpen: (span: string) => void;
}

const PLACE_WORDS: Record<SearchPlace, string> = { anywhere: "Anywhere", name: "In names", key: "In attribute keys", value: "In attribute values" };
const WATERFALL_KEYS: readonly KeyLine[] = [["j k", "next, previous span"], ["n N", "next, previous hit of the search"], ["← →", "collapse, expand"], ["enter", "open the span"]];

export function Waterfall(props: Props) {
  const { tree, search, onlyFailing, kind, place, matches, isWhole, at } = props;
  const kinds = useMemo(() => countKindsOfSpans(tree), [tree]);
  const [collapsed, setCollapsed] = useState<ReadonlySet<string>>(new Set());
  const found = matches.bySpan;
  const isNarrowed = search !== "" || onlyFailing || kind !== undefined;
  const chosen = useMemo(
    () => chooseRows(tree, { collapsed, search, place, matches: new Set(found.keys()), isWhole: isWhole && isNarrowed, onlyFailing, kind }),
    [tree, collapsed, search, place, found, isWhole, isNarrowed, onlyFailing, kind],
  );
  const [jumps, setJumps] = useState(0);
  const hits = useMemo(() => new Set(chosen.hits), [chosen.hits]);
  const number = at === undefined || !isNarrowed ? -1 : chosen.hits.indexOf(tree.places.get(at) ?? -1);
  const jump = (step: 1 | -1) => {
    const next = isNarrowed ? stepToHit(chosen.hits, at === undefined ? undefined : tree.places.get(at), step) : null;
    const row = next === null ? undefined : tree.rows[next];
    if (next === null || row === undefined) return;
    const above = new Set(idsAbove(tree, next));
    if ([...collapsed].some((id) => above.has(id))) setCollapsed(new Set([...collapsed].filter((id) => !above.has(id))));
    setJumps(jumps + 1);
    props.onAt(row.span.spanId);
  };
  useKeys({ n: () => jump(1), N: () => jump(-1) });
  const fold = (row: SpanRow) => {
    const next = new Set(collapsed);
    if (!next.delete(row.span.spanId)) next.add(row.span.spanId);
    setCollapsed(next);
  };
  const foldAll = () => setCollapsed(collapsed.size > 0 ? new Set() : new Set(tree.rows.filter((row) => row.below > 0 && row.depth > 0).map((row) => row.span.spanId)));
  return (
    <>
      <div className="bar">
        <span
          className="span-search"
          onKeyDown={(event) => {
            if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement)) return;
            event.preventDefault();
            jump(event.shiftKey ? -1 : 1);
          }}
        >
          <SearchField label="Search spans" placeholder="Names, attributes, texts" text={search} onSearch={props.onSearch} />
          <select className="field" aria-label="Where to search" value={place} onChange={(event) => props.onPlace(event.target.value as SearchPlace)}>
            {SEARCH_PLACES.map((one) => <option key={one} value={one}>{PLACE_WORDS[one]}</option>)}
          </select>
        </span>
        <button type="button" className="chip" aria-pressed={onlyFailing} onClick={props.onOnlyFailing}>
          <span className="fail">✗ Failing</span> <b>{count(tree.failedCount)}</b>
        </button>
        {(kinds.length > 1 || kind !== undefined) && (
          <select className="field" aria-label="Kind of span" value={kind ?? ""} onChange={(event) => props.onKind(event.target.value || undefined)}>
            <option value="">All kinds</option>
            {kind !== undefined && !kinds.some(([one]) => one === kind) && <option value={kind}>{shown(kind)} (0)</option>}
            {kinds.map(([one, spans]) => <option key={one} value={one}>{`${shown(one)} (${count(spans)})`}</option>)}
          </select>
        )}
        <button type="button" className="chip" onClick={foldAll}>{collapsed.size > 0 ? "Expand all" : "Collapse all"}</button>
        {isNarrowed && <button type="button" className="chip" aria-pressed={isWhole} onClick={props.onWhole}>Among all spans</button>}
        {isNarrowed && chosen.hits.length > 0 && (
          <span className="hit-steps">
            <button type="button" className="btn" aria-label="Previous hit" onClick={() => jump(-1)}>↑<kbd>N</kbd></button>
            <button type="button" className="btn" aria-label="Next hit" onClick={() => jump(1)}>↓<kbd>n</kbd></button>
          </span>
        )}
        <span className="label" role="status">
          {isNarrowed ? `${number >= 0 ? `${count(number + 1)} · ` : ""}${count(chosen.hits.length)} of ${plural(tree.rows.length, "span")}` : plural(tree.rows.length, "span")}
          {matches.isSearching && ", searching the attributes …"}
        </span>
      </div>
      {matches.error !== null && (
        <p className="callout warn split" role="alert">
          <span><b>! The attributes could not be searched{matches.searched > 0 && ` to the end: ${plural(matches.searched, "span")} were`}.</b> {shown(matches.error.message)}</span>
          <button type="button" className="btn" onClick={matches.again}>Try again</button>
        </p>
      )}
      <div className="panel water">
        {chosen.shown.length === 0
          ? matches.isSearching ? <State title="Searching the attributes …"><p>No name and no text has it so far.</p></State>
            : <State title="No span is found"><p>{onlyFailing ? "No span of this trace fails." : "Another search or kind may find some."}</p></State>
          : <Rows {...props} shown={chosen.shown} hits={isNarrowed ? hits : null} collapsed={collapsed} jumps={jumps} onFold={fold} />}
      </div>
    </>
  );
}

interface RowsProps extends Props {
  readonly shown: readonly number[];
  /** The places of what is chosen; null where nothing narrows the spans. */
  readonly hits: ReadonlySet<number> | null;
  readonly collapsed: ReadonlySet<string>;
  /** How often somebody went to a hit: also to the same one again. */
  readonly jumps: number;
  readonly onFold: (row: SpanRow) => void;
}

function Rows({ jumps, tree, results, shown: places, hits, collapsed, current, onOpen, onFold, matches, at }: RowsProps) {
  const box = useRef<HTMLDivElement>(null);
  const isNarrow = useNarrow();
  const height = isNarrow ? NARROW_ROW : WIDE_ROW;
  const list = useVirtualizer({ count: places.length, getScrollElement: () => box.current, estimateSize: () => height, overscan: 12 });
  useEffect(() => list.measure(), [height, list]);
  const length = tree.length || 1;
  const place = at === undefined ? -1 : places.indexOf(tree.places.get(at) ?? -1);
  // The marked span stays in sight while others are found above it, until somebody looks elsewhere.
  const left = useRef("");
  const stay = `${at} ${jumps}`;
  const leave = () => {
    left.current = stay;
  };
  useEffect(() => {
    if (place >= 0 && left.current !== stay) list.scrollToIndex(place, { align: "center" });
  }, [place, stay, list]);
  const hasUsage = useMemo(() => tree.rows.some(({ span }) => isUsed(span)), [tree]);
  const hasCosts = useMemo(() => tree.rows.some(({ span }) => span.costUsd !== null), [tree]);
  useKeyHelp("In the waterfall", WATERFALL_KEYS);
  const keys = (event: KeyboardEvent) => {
    const row = tree.rows[places[Number((event.target as HTMLElement).closest<HTMLElement>("[data-index]")?.dataset["index"] ?? -1)] ?? -1];
    const isFolded = row !== undefined && collapsed.has(row.span.spanId);
    if (row !== undefined && row.below > 0 && ((event.key === "ArrowLeft" && !isFolded) || (event.key === "ArrowRight" && isFolded))) {
      event.preventDefault();
      onFold(row);
      return;
    }
    leave();
    moveFocus(event, places.length - 1, (index) => list.scrollToIndex(index));
  };
  return (
    <>
      <div className={`water-head${hasUsage ? " has-usage" : ""}`} aria-hidden="true">
        <span>Span</span>
        <span>Kind</span>
        <span className="ticks">
          {[0, 0.25, 0.5, 0.75].map((part) => <span key={part} style={{ left: `${part * 100}%` }}>{duration(length * part)}</span>)}
        </span>
        {hasUsage && <span className="num usage">Tokens, cost</span>}
        <span className="num">Duration</span>
      </div>
      <div className="rows water-rows" ref={box} onKeyDown={keys} onWheel={leave} onPointerDown={leave} onTouchMove={leave}>
        <div style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map((item) => {
            const ordinal = places[item.index] ?? 0;
            const row = tree.rows[ordinal];
            if (row === undefined) return null;
            const { span } = row;
            const isFolded = collapsed.has(span.spanId);
            const isContext = hits !== null && !hits.has(ordinal);
            const match = isContext ? undefined : matches.bySpan.get(span.spanId);
            const style = row.failed ? "fail" : row.depth === 0 ? "first" : "";
            return (
              <div
                key={span.spanId}
                className={`row span-row${hasUsage ? " has-usage" : ""}${current === span.spanId || (hits !== null && at === span.spanId) ? " on" : ""}${isContext ? " dim" : ""}`}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <span className="span-name" style={{ paddingLeft: Math.min(row.depth, MOST_INDENT) * (isNarrow ? 8 : 14) }}>
                  {row.below > 0 ? (
                    <button
                      type="button"
                      className="fold"
                      tabIndex={-1}
                      aria-expanded={!isFolded}
                      aria-label={`${isFolded ? "Expand" : "Collapse"} ${plural(row.below, "span")}`}
                      onClick={() => onFold(row)}
                    >
                      {isFolded ? "▸" : "▾"}
                    </button>
                  ) : <span className="fold" aria-hidden="true" />}
                  <button type="button" data-index={item.index} className={`open${row.failed ? " fail" : ""}${row.depth === 0 ? " first" : ""}`} onClick={() => onOpen(span.spanId)}>
                    {row.failed && "✗ "}{shown(cut(span.name, 120))}{isFolded && ` +${count(row.below)}`}
                  </button>
                  {match !== undefined && match.place !== "name" && <Found match={match} />}
                  <Marks jobs={results.get(span.spanId)} />
                  {row.isOrphan && <span className="tag" title="The span above this one was not sent">parent missing</span>}
                </span>
                <span className="label role">{shown(span.role)}</span>
                <span className="span-bar">
                  {row.offset !== null && (
                    <i
                      className={style}
                      style={{ left: `${Math.min(99.8, (row.offset / length) * 100)}%`, width: `${Math.max(0, Math.min(100 - (row.offset / length) * 100, ((row.duration ?? 0) / length) * 100))}%` }}
                    />
                  )}
                </span>
                {hasUsage && <UsageCell row={row} hasCosts={hasCosts} />}
                <span className="num muted">{duration(row.duration)}</span>
              </div>
            );
          })}
        </div>
      </div>
    </>
  );
}

/** The tokens of a span and what they cost; of one that has none, the sum of the model calls below it. */
function UsageCell({ row: { span, usageBelow }, hasCosts }: { row: SpanRow; hasCosts: boolean }) {
  const isSum = !isUsed(span) && isUsed(usageBelow);
  const { tokensIn, tokensOut } = isSum ? usageBelow : span;
  const priced = isSum ? usageBelow : { ...NOTHING_PRICED, costUsd: span.costUsd };
  const hasTokens = tokensIn !== null || tokensOut !== null;
  const parts = [
    ...(hasTokens ? [count((tokensIn ?? 0) + (tokensOut ?? 0))] : []),
    // An agent has no price of its own; beside calls that have one, a call without says so.
    ...(priced.costUsd !== null || (hasCosts && (isSum ? (priced.unpricedCallCount ?? 0) > 0 : hasTokens && span.role === "model")) ? [leastCost(priced)] : []),
  ];
  const tokens = hasTokens ? `${count(tokensIn ?? 0)} tokens in, ${count(tokensOut ?? 0)} out` : "";
  const facts = [tokens, unpricedNote(priced)].filter(Boolean).join("; ");
  const title = isSum ? ["Model calls below", facts].filter(Boolean).join(": ") : facts;
  return (
    <span className="num muted usage" title={title === "" ? undefined : title}>
      {isSum && "Σ "}{parts.join(" · ")}
    </span>
  );
}

/** Where in a span the words are that are looked for, if not in its name. */
function Found({ match }: { match: SpanMatch }) {
  const text = match.key === null ? match.excerpt : `${match.key}: ${match.excerpt}`;
  return <span className="label found" dir="auto" title={shown(text)}>{shown(cut(text, 80))}</span>;
}

const MOST_MARKS = 3;

/** What rules said of a span, beside its name; all of it stands in the drawer of the span. */
function Marks({ jobs }: { jobs: readonly EvalJob[] | undefined }) {
  if (jobs === undefined) return null;
  return (
    <>
      {jobs.slice(0, MOST_MARKS).map((job) => {
        const outcome = outcomeOfJob(job);
        const sign = outcome === "pass" ? "✓" : outcome === "fail" ? "✗" : outcome === "error" ? "!" : "–";
        return <span key={job.id} className={`label ${outcome}`}>{sign} {shown(cut(job.evaluatorName, 24))}</span>;
      })}
      {jobs.length > MOST_MARKS && <span className="label">+{count(jobs.length - MOST_MARKS)}</span>}
    </>
  );
}

function useNarrow(): boolean {
  const [query] = useState(() => matchMedia("(max-width: 760px)"));
  const [isNarrow, setIsNarrow] = useState(query.matches);
  useEffect(() => {
    const note = () => setIsNarrow(query.matches);
    query.addEventListener("change", note);
    return () => query.removeEventListener("change", note);
  }, [query]);
  return isNarrow;
}
