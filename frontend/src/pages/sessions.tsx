/** Sessions: what belongs together, the one with the newest trace first. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { type Session, sessionsQuery } from "../api/traces";
import { Failure, Loading, State, Time } from "../components/bits";
import { ProjectChoice } from "../components/trace-bits";
import { Crumbs } from "../components/shell";
import { count, cut, duration, plural, shown } from "../lib/format";
import { leastCost, unpricedNote } from "../lib/pricing";

const route = getRouteApi("/sessions");

export function SessionsPage() {
  const { project } = route.useSearch();
  const navigate = route.useNavigate();
  const pages = useInfiniteQuery(sessionsQuery(project));
  const sessions = pages.data?.pages.flatMap((page) => page.content) ?? [];
  return (
    <>
      <Crumbs title="Sessions">
        {project !== undefined && <><Link to="/projects/$name" params={{ name: project }}>{shown(project)}</Link><i>/</i></>}
      </Crumbs>
      <div className="head">
        <div><h1>Sessions</h1></div>
        <div className="actions">
          <ProjectChoice project={project} onChoose={(name) => void navigate({ search: name === undefined ? {} : { project: name }, replace: true })} />
        </div>
      </div>
      <section>
        {pages.isPending ? <Loading /> : pages.isError && sessions.length === 0 ? <Failure error={pages.error} retry={() => void pages.refetch()} /> : sessions.length === 0 ? (
          <State title="No session is here yet"><p>Traces whose spans have the attribute session.id or gen_ai.conversation.id belong to one.</p></State>
        ) : (
          <div className="panel">
            <table>
              <thead>
                <tr>
                  <th>Session</th><th className="num">Traces</th><th className="num">Errors</th><th className="num hide-s">Duration</th>
                  <th className="num hide-s">Tokens</th><th className="num hide-s">Cost</th><th className="num hide-s">Newest trace</th>
                </tr>
              </thead>
              <tbody>{sessions.map((one) => <SessionRow key={`${one.projectId} ${one.sessionId}`} session={one} />)}</tbody>
            </table>
            <div className="foot-row">
              <span>{plural(sessions.length, "session")}{pages.hasNextPage ? " so far" : ""}</span>
              {pages.hasNextPage && <button type="button" className="btn bare" disabled={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>Show more</button>}
            </div>
          </div>
        )}
      </section>
    </>
  );
}

function SessionRow({ session }: { session: Session }) {
  const hasTokens = session.tokensIn !== null || session.tokensOut !== null;
  const lasted = session.firstTime === null || session.lastTime === null ? null : Date.parse(session.lastTime) - Date.parse(session.firstTime);
  return (
    <tr>
      <th scope="row">
        <Link className="link" to="/sessions/$sessionId" params={{ sessionId: session.sessionId }} search={session.projectName === null ? {} : { project: session.projectName }}>
          {shown(cut(session.sessionId, 80))}
        </Link>
        <span className="sub">{shown(session.projectName ?? "no project")}</span>
      </th>
      <td className="num">{count(session.traceCount)}</td>
      <td className="num">{session.errorCount > 0 ? <span className="error">{count(session.errorCount)} !</span> : "–"}</td>
      <td className="num hide-s">{duration(lasted)}</td>
      <td className="num hide-s">{hasTokens ? count((session.tokensIn ?? 0) + (session.tokensOut ?? 0)) : "–"}</td>
      <td className="num hide-s">{hasTokens ? leastCost(session) : "–"}{unpricedNote(session) !== "" && <span className="sub">{unpricedNote(session)}</span>}</td>
      <td className="num hide-s"><Time value={session.createdAt} /></td>
    </tr>
  );
}
