/** Traces of production: what came when, and each of them, the newest first. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";
import { type Trace, liveTracesQuery, traceStatsQuery, tracesQuery } from "../api/traces";
import { Failure, Loading, SearchField, Sign, State, Time } from "../components/bits";
import { SavedViews } from "../components/saved-views";
import { PERIODS, ProjectChoice, TraceHistogram, moveFocus } from "../components/trace-bits";
import { Crumbs } from "../components/shell";
import { useActions } from "../lib/actions";
import { count, cut, duration, plural, shown, time } from "../lib/format";
import { leastCost, unpricedNote } from "../lib/pricing";
import { LIST_KEYS, useKeyHelp } from "../lib/keys";
import { serverAddress } from "../lib/root";
import { TRACE_FILTERS, type TraceFilterName, type TracesSearch } from "../trace-routes";

const route = getRouteApi("/traces");
const ROW = 58;

type Change = (next: { [name in keyof TracesSearch]?: string | undefined }) => void;

export function TracesPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change: Change = (next) => {
    void navigate({
      search: (old) => Object.fromEntries(Object.entries({ ...old, ...next }).filter(([, one]) => one !== undefined && one !== "")),
      replace: true,
      resetScroll: false,
    });
  };
  const isLive = search.live === "true";
  const toggleLive = () => change({ live: isLive ? undefined : "true", sort: undefined });
  useActions([{ label: isLive ? "Stop live tail" : "Live tail", run: toggleLive }]);
  return (
    <>
      <Crumbs title="Traces">
        {search.project !== undefined && (
          <><Link to="/projects/$name" params={{ name: search.project }}>{shown(search.project)}</Link><i>/</i></>
        )}
      </Crumbs>
      <div className="head">
        <div><h1>Traces</h1></div>
        <div className="actions">
          <button
            type="button"
            className="btn"
            aria-pressed={isLive}
            onClick={toggleLive}
          >
            {isLive ? "Stop live tail" : "Live tail"}
          </button>
        </div>
      </div>
      <Traffic search={search} change={change} />
      <section>
        <Controls search={search} change={change} />
        {search.live === "true" ? <LiveList search={search} /> : <PagedList search={search} />}
      </section>
    </>
  );
}

function Traffic({ search, change }: { search: TracesSearch; change: Change }) {
  const project = search.project ?? "";
  const period = search.period ?? "7d";
  const from = search.from ?? null;
  const stats = useQuery({ ...traceStatsQuery(project, from, from === null ? period : undefined, search.to), enabled: project !== "" });
  if (project === "" || stats.data === undefined) return null;
  const { total, steps, stepHours } = stats.data;
  return (
    <section>
      <div className="sec">
        <h2>{plural(total.traceCount, "trace")}</h2>
        <span className="label">
          all of the project by the {stepHours === 1 ? "hour" : "day"}, filters aside; <span className="fail">full: with an error</span> ({count(total.errorCount)})
        </span>
      </div>
      <div className="panel pad">
        <TraceHistogram steps={steps} stepHours={stepHours} onChoose={(start, end) => change({ from: start, to: end, period: undefined, live: undefined })} />
      </div>
    </section>
  );
}

const SORTS: readonly (readonly [string, string])[] = [
  ["", "Newest first"], ["createdAt,asc", "Oldest first"], ["startTime,desc", "Latest start first"],
  ["duration,desc", "Slowest first"], ["cost,desc", "Most costly first"], ["tokens,desc", "Most tokens first"], ["score,asc", "Lowest score first"],
];
const OF_ONE_PROJECT: readonly string[] = ["duration,desc", "cost,desc", "tokens,desc", "score,asc"];
const LABELS: Record<TraceFilterName, string> = {
  from: "from", to: "to", status: "status", search: "search", minDurationMs: "at least ms", maxDurationMs: "at most ms",
  minCostUsd: "at least $", maxCostUsd: "at most $", minTokens: "at least tokens", maxTokens: "at most tokens",
  sessionId: "session", userId: "user", rootName: "name", model: "model", evaluator: "evaluator",
  minScore: "score at least", maxScore: "score at most", result: "result", attribute: "attribute key=value",
};
const MORE: readonly TraceFilterName[] = [
  "rootName", "sessionId", "userId", "model", "attribute", "minDurationMs", "maxDurationMs", "minCostUsd", "minTokens", "evaluator", "minScore", "maxScore",
];
const NUMBERS: readonly string[] = ["minDurationMs", "maxDurationMs", "minCostUsd", "minTokens", "minScore", "maxScore"];

function Controls({ search, change }: { search: TracesSearch; change: Change }) {
  const isOpen = search.filters === "open";
  const chosen = TRACE_FILTERS.filter((name) => search[name] !== undefined && name !== "search" && name !== "status" && name !== "result");
  const can = (sort: string) => !OF_ONE_PROJECT.includes(sort) || (search.project !== undefined && (sort !== "score,asc" || search.evaluator !== undefined));
  const toggle = (name: "status" | "result", value: string) => change({ [name]: search[name] === value ? undefined : value });
  return (
    <>
      <div className="bar">
        <SearchField
          label="Search traces"
          placeholder="Search in names, inputs, outputs and errors"
          text={search.search ?? ""}
          onSearch={(text) => change({ search: text })}
        />
        <ProjectChoice project={search.project} onChoose={(project) => change({ project, ...(project === undefined ? { sort: undefined } : {}) })} />
        <select
          className="field"
          aria-label="Period"
          value={search.from !== undefined || search.to !== undefined ? "own" : (search.period ?? "")}
          onChange={(event) => change({ period: event.target.value, from: undefined, to: undefined })}
        >
          <option value="">At any time</option>
          {PERIODS.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
          {(search.from !== undefined || search.to !== undefined) && <option value="own">As chosen below</option>}
        </select>
        {search.live !== "true" && (
          <select className="field" aria-label="Order" value={search.sort ?? ""} onChange={(event) => change({ sort: event.target.value })}>
            {SORTS.filter(([value]) => can(value) || value === search.sort).map(([value, label]) => <option key={value} value={value}>{label}</option>)}
          </select>
        )}
      </div>
      <div className="bar" role="group" aria-label="Filters">
        <button type="button" className="chip" aria-pressed={search.status === "error"} onClick={() => toggle("status", "error")}><span className="error">! With an error</span></button>
        <button type="button" className="chip" aria-pressed={search.status === "ok"} onClick={() => toggle("status", "ok")}>Without an error</button>
        <button type="button" className="chip" aria-pressed={search.result === "failed"} onClick={() => toggle("result", "failed")}><span className="fail">✗ Failed a rule</span></button>
        <button type="button" className="chip" aria-pressed={search.result === "error"} onClick={() => toggle("result", "error")}>Not scored</button>
        {chosen.map((name) => (
          <button key={name} type="button" className="chip" aria-label={`Remove the filter ${LABELS[name]}`} onClick={() => change({ [name]: undefined })}>
            {LABELS[name]} <b className="cut short">{name === "from" || name === "to" ? time(search[name] ?? "") : shown(search[name] ?? "")}</b> ×
          </button>
        ))}
        <button type="button" className="chip" aria-expanded={isOpen} onClick={() => change({ filters: isOpen ? undefined : "open" })}>
          {isOpen ? "Fewer filters" : "More filters"}
        </button>
      </div>
      {isOpen && (
        <form
          className="panel pad filter-grid"
          onSubmit={(event) => {
            event.preventDefault();
            const data = new FormData(event.currentTarget);
            change(Object.fromEntries(MORE.map((name) => [name, String(data.get(name) ?? "").trim() || undefined])));
          }}
        >
          {MORE.map((name) => (
            <label key={`${name} ${search[name] ?? ""}`}>
              <span className="label">{LABELS[name]}</span>
              <input className="field" name={name} defaultValue={search[name] ?? ""} {...(NUMBERS.includes(name) ? { type: "number", step: "any" } : {})} />
            </label>
          ))}
          <button type="submit" className="btn main">Filter</button>
        </form>
      )}
      <SavedViews area="traces" />
    </>
  );
}

function PagedList({ search }: { search: TracesSearch }) {
  const pages = useInfiniteQuery(tracesQuery(search));
  const traces = useMemo(() => pages.data?.pages.flatMap((page) => page.content) ?? [], [pages.data]);
  if (pages.isPending) return <Loading />;
  if (pages.isError && traces.length === 0) return <Failure error={pages.error} retry={() => void pages.refetch()} />;
  const first = pages.data?.pages[0];
  if (traces.length === 0 && !pages.hasNextPage) return <Nothing search={search} />;
  return (
    <>
      <p className="label spaced" role="status">
        {first?.totalIsExact ? `${count(traces.length)} of ${plural(first.totalElements, "trace")}` : `${count(traces.length)}${pages.hasNextPage ? "+" : ""} found`}
        {pages.isPlaceholderData && " · looking …"}
      </p>
      <div className="panel">
        <TraceRows traces={traces} search={search} onEnd={pages.hasNextPage && !pages.isFetchingNextPage ? () => void pages.fetchNextPage() : null} />
        <div className="foot-row">
          <span>{pages.isFetchingNextPage ? "Reading more …" : pages.hasNextPage ? "" : "That is all."}</span>
          {pages.hasNextPage && (
            <button type="button" className="btn bare" disabled={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
              Look further back
            </button>
          )}
        </div>
      </div>
    </>
  );
}

function LiveList({ search }: { search: TracesSearch }) {
  const page = useQuery(liveTracesQuery(search));
  if (page.isPending) return <Loading />;
  if (page.data === undefined) return <Failure error={page.error} retry={() => void page.refetch()} />;
  return (
    <>
      <p className="label spaced" role="status">
        {page.isError
          ? <span className="error">! The server does not answer; what is below is from before.</span>
          : <><span className="live-dot" aria-hidden="true" /> Live: the newest {count(page.data.content.length)}, read again every 3 s</>}
      </p>
      <div className="panel">
        {page.data.content.length === 0
          ? <State title="Nothing has come yet"><p>Traces appear here as they come.</p></State>
          : <TraceRows traces={page.data.content} search={search} onEnd={null} />}
      </div>
    </>
  );
}

function Nothing({ search }: { search: TracesSearch }) {
  const isFiltered = TRACE_FILTERS.some((name) => search[name] !== undefined) || search.period !== undefined;
  return isFiltered ? (
    <State title="No trace is found"><p>Other filters, a longer period or another search may find some.</p></State>
  ) : (
    <State title="No trace is here yet">
      <p>Point an exporter of OpenTelemetry at this server, and traces appear here:</p>
      <pre className="text">{`OTEL_EXPORTER_OTLP_ENDPOINT=${serverAddress()}\nOTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf\nOTEL_RESOURCE_ATTRIBUTES=dokimos.project=my-llm-app`}</pre>
    </State>
  );
}

function TraceRows({ traces, search, onEnd }: { traces: readonly Trace[]; search: TracesSearch; onEnd: (() => void) | null }) {
  const box = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({ count: traces.length, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 8 });
  useKeyHelp("In the list of traces", LIST_KEYS);
  const rows = list.getVirtualItems();
  const isNearEnd = (rows.at(-1)?.index ?? 0) > traces.length - 20;
  useEffect(() => {
    // What is below the last row is only read by whoever scrolls there.
    if (isNearEnd && onEnd !== null && (box.current?.scrollTop ?? 0) > 0) onEnd();
  }, [isNearEnd, onEnd]);
  return (
    <div className="rows" ref={box} onKeyDown={(event) => moveFocus(event, traces.length - 1, (index) => list.scrollToIndex(index))}>
      <div style={{ height: list.getTotalSize() }}>
        {rows.map((row) => {
          const trace = traces[row.index];
          if (trace === undefined) return null;
          return (
            <Link
              key={trace.id}
              to="/traces/$traceId"
              params={{ traceId: trace.id }}
              data-index={row.index}
              className="row trace-row"
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <TraceLine trace={trace} isShared={search.project === undefined} />
            </Link>
          );
        })}
      </div>
    </div>
  );
}

function TraceLine({ trace, isShared }: { trace: Trace; isShared: boolean }) {
  return (
    <>
      {trace.status === "error" ? <Sign outcome="error" /> : <span className="sign none">· ok</span>}
      <span className="cell">
        <span className="cut" dir="auto">
          <b>{shown(cut(trace.rootSpanName ?? "(no name)", 80))}</b> {shown(cut(trace.inputText ?? "", 200))}
        </span>
        <span className="cut muted" dir="auto">{trace.outputText === null ? "no output recorded" : shown(cut(trace.outputText, 240))}</span>
      </span>
      <span className="num hide-s">
        {duration(trace.durationMs)}
        <span className="sub">{plural(trace.spanCount, "span")}</span>
      </span>
      <span className="num hide-s" title={unpricedNote(trace) || undefined}>
        {trace.tokensIn === null && trace.tokensOut === null ? "–" : leastCost(trace)}
        <span className="sub">{trace.tokensIn === null && trace.tokensOut === null ? "no tokens" : `${count((trace.tokensIn ?? 0) + (trace.tokensOut ?? 0))} tokens`}</span>
      </span>
      <span className="num hide-s">
        <Time value={trace.createdAt} />
        <span className="sub cut">{shown((isShared ? trace.projectName : trace.userId) ?? "–")}</span>
      </span>
    </>
  );
}
