/** One session as its conversation: each trace is a turn, with what was asked, answered and judged. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { type EvalJob, type Trace, sessionTracesQuery, traceQuery } from "../api/traces";
import { Failure, Loading, State, Text, Time } from "../components/bits";
import { Crumbs } from "../components/shell";
import { count, duration, plural, score, shown } from "../lib/format";
import { NOTHING_PRICED, type Priced, addPriced, costInWords } from "../lib/pricing";
import { outcomeOfJob } from "../lib/spans";

const route = getRouteApi("/sessions/$sessionId");
/** Of a longer session, only these turns ask for their scores: each is a request of its own. */
/** Scores are a request for each turn: those of later turns are read when somebody asks. */
const MOST_SCORED = 30;
const MOST_USERS = 3;

export function SessionPage() {
  const { sessionId } = route.useParams();
  const { project } = route.useSearch();
  const pages = useInfiniteQuery(sessionTracesQuery(sessionId, project));
  if (pages.isPending) return <Loading />;
  const traces = pages.data?.pages.flatMap((page) => page.content) ?? [];
  if (pages.isError && traces.length === 0) return <Failure error={pages.error} retry={() => void pages.refetch()} />;
  const failed = traces.filter((trace) => trace.status === "error").length;
  const users = [...new Set(traces.map((trace) => trace.userId).filter((user) => user !== null))];
  return (
    <>
      <Crumbs title={sessionId}>
        {project !== undefined && <><Link to="/projects/$name" params={{ name: project }}>{shown(project)}</Link><i>/</i></>}
        <Link to="/sessions" search={project === undefined ? {} : { project }}>Sessions</Link><i>/</i>
      </Crumbs>
      <div className="head">
        <div>
          <h1 dir="auto">{shown(sessionId)}</h1>
          <p className="facts">
            <span>{plural(traces.length, "turn")}{pages.hasNextPage ? " so far" : ""}</span>
            {users.slice(0, MOST_USERS).map((user) => <span key={user}>user {shown(user)}</span>)}
            {users.length > MOST_USERS && <span>{plural(users.length - MOST_USERS, "more user", "more users")}</span>}
            {traces[0] !== undefined && <span><Time value={traces[0].createdAt} /></span>}
          </p>
        </div>
        <div className="actions">
          <Link className="btn" to="/traces" search={{ sessionId, ...(project === undefined ? {} : { project }) }}>As a list of traces</Link>
        </div>
      </div>
      {traces.length === 0 ? (
        <State title="This session has no trace"><p>They may have been removed after their time, or belong to another project.</p></State>
      ) : (
        <>
          <p className="verdict">
            {failed > 0 ? <span className="error">! {count(failed)} of {plural(traces.length, "turn")} had an error</span> : <span className="none">– {plural(traces.length, "turn")} without an error</span>}
            <span className="of"> · {sumsOf(traces)}</span>
          </p>
          <section className="panel pad">
            {traces.map((trace, index) => <Turn key={trace.id} trace={trace} number={index + 1} isScored={index < MOST_SCORED} />)}
          </section>
          {pages.hasNextPage && <button type="button" className="btn" disabled={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>Show more turns</button>}
        </>
      )}
    </>
  );
}

function sumsOf(traces: readonly Trace[]): string {
  const measured = traces.filter((trace) => trace.tokensIn !== null || trace.tokensOut !== null);
  if (measured.length === 0) return "no tokens recorded";
  const tokens = measured.reduce((sum, trace) => sum + (trace.tokensIn ?? 0) + (trace.tokensOut ?? 0), 0);
  const sum = measured.reduce<Priced>(addPriced, NOTHING_PRICED);
  if (measured.every((trace) => trace.unpricedCallCount !== null)) return `${count(tokens)} tokens · ${costInWords(sum)}`;
  // Some were stored before calls were counted: of those, only whether there is any cost is known.
  const priced = measured.filter((trace) => trace.costUsd !== null).length;
  return `${count(tokens)} tokens · ${costInWords(sum)}${priced > 0 && priced < measured.length ? ` (${count(priced)}/${count(measured.length)} turns priced)` : ""}`;
}

function Turn({ trace, number, isScored }: { trace: Trace; number: number; isScored: boolean }) {
  const [isAsked, setIsAsked] = useState(false);
  return (
    <article className="turn" aria-label={`Turn ${number}`}>
      <ol className="talk talk-page">
        <li><span className="label">user</span><Text>{trace.inputText ?? ""}</Text></li>
        <li><span className="label">assistant</span>{trace.outputText === null ? <span className="muted">no output recorded</span> : <Text>{trace.outputText}</Text>}</li>
      </ol>
      <p className="facts">
        <span><Link className="link" to="/traces/$traceId" params={{ traceId: trace.id }}>trace {trace.traceId.slice(0, 8)}</Link></span>
        <span><Time value={trace.createdAt} /></span>
        <span>{duration(trace.durationMs)}</span>
        {trace.errorCount > 0 && <span className="error">! {plural(trace.errorCount, "span")} failed</span>}
        {isScored || isAsked ? <Scores trace={trace.id} /> : <button type="button" className="link plain-button" onClick={() => setIsAsked(true)}>Show its scores</button>}
      </p>
    </article>
  );
}

function Scores({ trace }: { trace: string }) {
  const details = useQuery(traceQuery(trace));
  const jobs = (details.data?.evalJobs ?? []) as unknown as readonly EvalJob[];
  return jobs.map((job) => {
    const outcome = outcomeOfJob(job);
    return <span key={job.id} className={outcome}>{outcome === "pass" ? "✓" : outcome === "fail" ? "✗" : outcome === "error" ? "!" : "–"} {shown(job.evaluatorName)} {score(job.score)}</span>;
  });
}
