/** The spans of a trace on one time axis: rows of one height, of which only those in sight are in the page. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import type { EvalJob, SpanSummary } from "../api/traces";
import { cost, count, cut, duration, plural, shown } from "../lib/format";
import { type KeyLine, useKeyHelp } from "../lib/keys";
import { type SpanRow, type SpanTree, chooseRows, countKindsOfSpans, outcomeOfJob } from "../lib/spans";
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
  readonly onOpen: (span: string) => void;
}

const WATERFALL_KEYS: readonly KeyLine[] = [["j k", "next, previous span"], ["← →", "collapse, expand"], ["enter", "open the span"]];

export function Waterfall(props: Props) {
  const { tree, search, onlyFailing, kind } = props;
  const kinds = useMemo(() => countKindsOfSpans(tree), [tree]);
  const [collapsed, setCollapsed] = useState<ReadonlySet<string>>(new Set());
  const chosen = useMemo(() => chooseRows(tree, { collapsed, search, onlyFailing, kind }), [tree, collapsed, search, onlyFailing, kind]);
  const isNarrowed = search !== "" || onlyFailing || kind !== undefined;
  const fold = (row: SpanRow) => {
    const next = new Set(collapsed);
    if (!next.delete(row.span.spanId)) next.add(row.span.spanId);
    setCollapsed(next);
  };
  const foldAll = () => setCollapsed(collapsed.size > 0 ? new Set() : new Set(tree.rows.filter((row) => row.below > 0 && row.depth > 0).map((row) => row.span.spanId)));
  return (
    <>
      <div className="bar">
        <SearchField label="Search spans" placeholder="Search in spans" text={search} onSearch={props.onSearch} />
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
        <span className="label" role="status">{isNarrowed ? `${count(chosen.found)} of ${plural(tree.rows.length, "span")}` : plural(tree.rows.length, "span")}</span>
      </div>
      <div className="panel water">
        {chosen.shown.length === 0
          ? <State title="No span is found"><p>{onlyFailing ? "No span of this trace fails." : "Another search or kind may find some."}</p></State>
          : <Rows {...props} shown={chosen.shown} collapsed={collapsed} onFold={fold} />}
      </div>
    </>
  );
}

interface RowsProps extends Props {
  readonly shown: readonly number[];
  readonly collapsed: ReadonlySet<string>;
  readonly onFold: (row: SpanRow) => void;
}

function Rows({ tree, results, shown: places, collapsed, current, onOpen, onFold, search, onlyFailing, kind }: RowsProps) {
  const box = useRef<HTMLDivElement>(null);
  const isNarrow = useNarrow();
  const height = isNarrow ? NARROW_ROW : WIDE_ROW;
  const list = useVirtualizer({ count: places.length, getScrollElement: () => box.current, estimateSize: () => height, overscan: 12 });
  useEffect(() => list.measure(), [height, list]);
  const length = tree.length || 1;
  const isNarrowed = search !== "" || onlyFailing || kind !== undefined;
  const hasUsage = useMemo(() => tree.rows.some(({ span }) => usage(span) !== ""), [tree]);
  useKeyHelp("In the waterfall", WATERFALL_KEYS);
  const keys = (event: KeyboardEvent) => {
    const row = tree.rows[places[Number((event.target as HTMLElement).closest<HTMLElement>("[data-index]")?.dataset["index"] ?? -1)] ?? -1];
    const isFolded = row !== undefined && collapsed.has(row.span.spanId);
    if (row !== undefined && row.below > 0 && ((event.key === "ArrowLeft" && !isFolded) || (event.key === "ArrowRight" && isFolded))) {
      event.preventDefault();
      onFold(row);
      return;
    }
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
      <div className="rows water-rows" ref={box} onKeyDown={keys}>
        <div style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map((item) => {
            const row = tree.rows[places[item.index] ?? 0];
            if (row === undefined) return null;
            const { span } = row;
            const isFolded = collapsed.has(span.spanId);
            const isContext = isNarrowed && ((onlyFailing && !row.failed) || (kind !== undefined && span.role !== kind));
            const style = row.failed ? "fail" : row.depth === 0 ? "first" : "";
            return (
              <div
                key={span.spanId}
                className={`row span-row${hasUsage ? " has-usage" : ""}${current === span.spanId ? " on" : ""}${isContext ? " dim" : ""}`}
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
                {hasUsage && <span className="num muted usage" title={describeUsage(span)}>{usage(span)}</span>}
                <span className="num muted">{duration(row.duration)}</span>
              </div>
            );
          })}
        </div>
      </div>
    </>
  );
}

/** The tokens of a span and what they cost: its own, without those of the spans below. */
function usage({ tokensIn, tokensOut, costUsd }: SpanSummary): string {
  const tokens = tokensIn === null && tokensOut === null ? [] : [count((tokensIn ?? 0) + (tokensOut ?? 0))];
  return [...tokens, ...(costUsd === null ? [] : [cost(costUsd)])].join(" · ");
}

function describeUsage({ tokensIn, tokensOut }: SpanSummary): string | undefined {
  return tokensIn === null && tokensOut === null ? undefined : `${count(tokensIn ?? 0)} tokens in, ${count(tokensOut ?? 0)} out`;
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
