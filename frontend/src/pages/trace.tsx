/** A trace: what rules and people say of it, then its spans on one time axis, or what was said. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useEffect, useMemo } from "react";
import { apiPath } from "../api/client";
import { type EvalJob, type TraceDetails, spansQuery, traceQuery } from "../api/traces";
import { AgentGraph } from "../components/agent-graph";
import { Failure, Loading, Time } from "../components/bits";
import { Crumbs } from "../components/shell";
import { SpanDrawer } from "../components/span-drawer";
import { Talk } from "../components/talk";
import { MakeItem, TraceReview } from "../components/trace-actions";
import { Judgement } from "../components/trace-bits";
import { TraceItems } from "../components/trace-items";
import { Waterfall } from "../components/waterfall";
import { buildGraph } from "../lib/agent-graph";
import { count, cut, duration, plural, shown } from "../lib/format";
import { costInWords } from "../lib/pricing";
import { SEARCH_PLACES, buildTree, bySpan, isWaiting, outcomeOfJob } from "../lib/spans";
import { useSpanMatches } from "../lib/use-span-matches";
import type { TraceSearch } from "../trace-routes";

const route = getRouteApi("/traces/$traceId");

export function TracePage() {
  const { traceId } = route.useParams();
  const trace = useQuery(traceQuery(traceId));
  if (trace.isPending) return <Loading />;
  if (trace.isLoadingError) return <Failure error={trace.error} retry={() => void trace.refetch()} />;
  return <Body trace={trace.data} />;
}

const VIEWS = { waterfall: "Waterfall", talk: "Conversation", graph: "Graph" } as const;

function Body({ trace }: { trace: TraceDetails }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: { [name in keyof TraceSearch]?: string | undefined }, replace = true) => {
    void navigate({
      search: (old) => Object.fromEntries(Object.entries({ ...old, ...next }).filter(([, one]) => one !== undefined && one !== "")),
      replace,
      resetScroll: false,
    });
  };
  const jobs = trace.evalJobs as unknown as readonly EvalJob[];
  const results = useMemo(() => bySpan(jobs), [jobs]);
  const { spans, failure, isReading } = useSpans(trace);
  const tree = useMemo(() => buildTree(spans, new Set(jobs.filter((job) => job.success === false).map((job) => job.spanId))), [spans, jobs]);
  const step = (by: number) => {
    const place = tree.places.get(search.span ?? "");
    const next = tree.rows[(place ?? 0) + by];
    if (next !== undefined) change({ span: next.span.spanId });
  };
  const place = SEARCH_PLACES.find((one) => one === search.in) ?? "anywhere";
  const matches = useSpanMatches(trace.id, search.search ?? "", place);
  const making = search.make;
  const graph = useMemo(() => buildGraph(tree), [tree]);
  const hasGraph = graph.nodes.length > 1;
  const show = search.show === "talk" || (search.show === "graph" && hasGraph) ? search.show : "waterfall";
  return (
    <>
      <Head trace={trace} search={search} isMaking={making !== undefined} onMake={() => change({ make: "trace", span: undefined })} />
      <VerdictLine trace={trace} jobs={jobs} />
      {making !== undefined && making !== "" && (
        <MakeItem
          key={making}
          traceId={trace.id}
          spanId={making === "trace" ? undefined : making}
          answer={trace.outputText}
          onClose={() => change({ make: undefined })}
        />
      )}
      <section>
        <div className="sec">
          <h2>{VIEWS[show]}</h2>
          <span className="bar right">
            {(["waterfall", "talk", "graph"] as const).map((view) => (view !== "graph" || hasGraph) && (
              <button key={view} type="button" className="chip" aria-pressed={show === view} onClick={() => change({ show: view === "waterfall" ? undefined : view })}>
                {VIEWS[view]}
              </button>
            ))}
          </span>
        </div>
        {show === "talk" && <div className="panel pad"><Talk trace={trace.id} /></div>}
        {show === "graph" && <AgentGraph graph={graph} onShow={(kind, name) => change({ show: undefined, kind, search: name, in: "name", at: undefined }, false)} />}
        {show === "waterfall" && (
          <Waterfall
            tree={tree}
            results={results}
            search={search.search ?? ""}
            onlyFailing={search.only === "failing"}
            kind={search.kind}
            onKind={(kind) => change({ kind })}
            current={search.span}
            onSearch={(text) => change({ search: text, at: undefined })}
            place={place}
            onPlace={(next) => change({ in: next === "anywhere" ? undefined : next, at: undefined })}
            matches={matches}
            isWhole={search.among === "all"}
            onWhole={() => change({ among: search.among === "all" ? undefined : "all" })}
            at={search.at}
            onAt={(at) => change({ at, ...(search.span === undefined ? {} : { span: at }) })}
            onOnlyFailing={() => change({ only: search.only === "failing" ? undefined : "failing" })}
            onOpen={(span) => change({ span }, search.span !== undefined)}
          />
        )}
        {isReading && show !== "talk" && <p className="progress-note" role="status">{count(spans.length)} of {plural(trace.spanCount, "span")} read …</p>}
        {failure !== null && <p className="callout warn" role="alert">! Only {count(spans.length)} of {plural(trace.spanCount, "span")} could be read. {failure}</p>}
        {!isReading && failure === null && spans.length < trace.spanCount && (
          <p className="callout">The first {plural(spans.length, "span")} of {count(trace.spanCount)} are shown; the download has all.</p>
        )}
      </section>
      {jobs.length > 0 && (
        <section>
          <div className="sec"><h2>Online evaluators</h2><span className="label">{plural(jobs.length, "result")}</span></div>
          <div className="panel pad">
            {jobs.slice(0, 50).map((job) => (
              <Judgement key={job.id} job={job}>
                <button type="button" className="btn bare" onClick={() => change({ span: job.spanId }, false)}>
                  span {shown(cut(tree.rows[tree.places.get(job.spanId) ?? -1]?.span.name ?? job.spanId, 60))}
                </button>
              </Judgement>
            ))}
            {jobs.length > 50 && <p className="label">{count(jobs.length - 50)} more stand at their spans.</p>}
          </div>
        </section>
      )}
      <TraceReview traceId={trace.id} />
      {search.span !== undefined && search.span !== "" && (
        <SpanDrawer
          trace={trace.id}
          spanId={search.span}
          start={trace.startTimeUnixNanoText}
          onClose={() => change({ span: undefined })}
          onMake={() => change({ make: search.span, span: undefined })}
          onStep={step}
          filter={search.attribute ?? ""}
          onFilter={(attribute) => change({ attribute })}
        />
      )}
    </>
  );
}

/** The spans of a trace: those that came with it, or of a large one all, as they are read. */
function useSpans(trace: TraceDetails) {
  const isLarge = trace.spansTruncated;
  const parts = useInfiniteQuery({ ...spansQuery(trace.id), enabled: isLarge });
  const { hasNextPage, isFetching, isError, fetchNextPage } = parts;
  useEffect(() => {
    if (isLarge && hasNextPage && !isFetching && !isError) void fetchNextPage();
  }, [isLarge, hasNextPage, isFetching, isError, fetchNextPage]);
  const spans = useMemo(
    () => (isLarge && parts.data !== undefined ? parts.data.pages.flatMap((page) => page.content) : trace.spans),
    [isLarge, parts.data, trace.spans],
  );
  const failure = isLarge && isError ? String(parts.error instanceof Error ? parts.error.message : parts.error) : null;
  return { spans, failure, isReading: isLarge && failure === null && (isFetching || hasNextPage) };
}

interface HeadProps {
  readonly trace: TraceDetails;
  readonly search: TraceSearch;
  readonly isMaking: boolean;
  readonly onMake: () => void;
}

function Head({ trace, search, isMaking, onMake }: HeadProps) {
  const title = cut(trace.inputText ?? trace.rootSpanName ?? trace.traceId, 140);
  return (
    <>
      <Crumbs title={trace.traceId.slice(0, 8)}>
        {trace.projectName !== null && (
          <><Link to="/projects/$name" params={{ name: trace.projectName }}>{shown(trace.projectName)}</Link><i>/</i></>
        )}
        <Link to="/traces" search={trace.projectName === null ? {} : { project: trace.projectName }}>Traces</Link>
        <i>/</i>
      </Crumbs>
      <div className="head">
        <div>
          <h1 dir="auto">{shown(title)}</h1>
          <p className="facts">
            <span className="mono">{shown(trace.traceId)}</span>
            {trace.rootSpanName !== null && <span>{shown(cut(trace.rootSpanName, 60))}</span>}
            <span>{plural(trace.spanCount, "span")}</span>
            <span><Time value={trace.createdAt} /></span>
            {trace.sessionId !== null && (
              <span>
                session{" "}
                <Link className="link" to="/sessions/$sessionId" params={{ sessionId: trace.sessionId }} search={trace.projectName === null ? {} : { project: trace.projectName }}>
                  {shown(cut(trace.sessionId, 60))}
                </Link>
              </span>
            )}
            <TraceItems trace={trace} run={search.run} item={search.item} />
            {trace.userId !== null && <span>user {shown(cut(trace.userId, 60))}</span>}
            {trace.expiresAt !== null && <span>deleted on <Time value={trace.expiresAt} /></span>}
          </p>
        </div>
        <div className="actions">
          <a className="btn" href={apiPath(`/traces/${trace.id}/otlp`, { format: "json" })} download={`${trace.traceId}.json`}>Download</a>
          {!isMaking && <button type="button" className="btn main" onClick={onMake}>Make dataset item</button>}
        </div>
      </div>
    </>
  );
}

function VerdictLine({ trace, jobs }: { trace: TraceDetails; jobs: readonly EvalJob[] }) {
  const outcomes = jobs.map(outcomeOfJob);
  const of = (wanted: string) => outcomes.filter((one) => one === wanted).length;
  const [failed, errored, waiting] = [of("fail"), of("error"), jobs.filter(isWaiting).length];
  const facts = [
    duration(trace.durationMs),
    trace.tokensIn === null && trace.tokensOut === null ? "no tokens recorded" : `${count((trace.tokensIn ?? 0) + (trace.tokensOut ?? 0))} tokens`,
    ...(trace.tokensIn === null && trace.tokensOut === null ? [] : [costInWords(trace)]),
  ].join(" · ");
  const worst = jobs.find((job) => job.success === false);
  return (
    <>
      <p className="verdict">
        {trace.errorCount > 0 ? <span className="error">! {plural(trace.errorCount, "span")} failed</span>
          : failed > 0 ? <span className="fail">✗ {count(failed)} of {plural(jobs.length, "online result")} failed</span>
          : jobs.length > 0 && failed + errored + waiting === 0 ? <span className="pass">✓ {plural(jobs.length, "online result")} without a failure</span>
          : <span className="none">– No errors, not judged</span>}
        <span className="of"> · {facts}</span>
      </p>
      <p className="sentence muted" dir="auto">
        {trace.errorCount > 0 && failed > 0 && `${count(failed)} of ${plural(jobs.length, "online result")} failed. `}
        {worst !== undefined && shown(cut(`${worst.evaluatorName}: ${worst.reason ?? "failed"}`, 300))}
        {errored > 0 && ` ${count(errored)} could not be scored.`}
        {waiting > 0 && ` ${count(waiting)} not scored yet.`}
      </p>
    </>
  );
}
