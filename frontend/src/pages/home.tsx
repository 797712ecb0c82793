/** Home: what needs attention, and the projects with their experiments: what the gate said last, and how the latest run did. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { alertsQuery } from "../api/online";
import { type ExperimentRun, type Project, type Verdict, isLive, projectsQuery } from "../api/queries";
import { waitingQuery } from "../api/reviews";
import { Failure, Loading, PassRate, State, Time } from "../components/bits";
import { Crumbs } from "../components/shell";
import { count, plural, shown } from "../lib/format";
import { serverAddress } from "../lib/root";
import { sayStatus } from "../lib/runs";

const WORDS: Record<Verdict["status"], readonly [string, string]> = {
  PASS: ["pass", "✓ passed"],
  FAIL: ["fail", "✗ failed"],
  NO_BASELINE: ["none", "– no baseline"],
};
/** Of more projects than these it is not asked what needs attention: each is a request. */
const MOST_ASKED = 20;
/** Of more experiments than these, the page of the project has the others. */
const MOST_EXPERIMENTS = 10;

export function HomePage() {
  const projects = useQuery(projectsQuery);
  if (projects.isPending) return <Loading />;
  if (projects.isLoadingError) return <Failure error={projects.error} retry={() => void projects.refetch()} />;
  return (
    <>
      <Crumbs title="Home" />
      <div className="head"><h1>Projects</h1></div>
      {projects.data.length === 0 ? (
        <State title="No run is here yet">
          <p>Send one to this server, and it appears here:</p>
          <pre className="text">{`dokimos run evaluation.py --server ${serverAddress()} --project my-project`}</pre>
        </State>
      ) : (
        <>
          <Attention projects={projects.data} />
          {projects.data.map((project) => <ProjectSection key={project.id} project={project} />)}
        </>
      )}
    </>
  );
}

/** What somebody should look at: failed gates, alerts that fire, items that wait for a person. */
function Attention({ projects }: { projects: readonly Project[] }) {
  const queue = useQuery(waitingQuery);
  const alerts = useQueries({ queries: projects.slice(0, MOST_ASKED).map((project) => ({ ...alertsQuery(project.id), refetchInterval: false as const, staleTime: 60_000 })) });
  const failed = projects.flatMap((project) => (project.verdicts ?? []).filter((one) => one.status === "FAIL").map((one) => ({ project, one })));
  const firing = alerts.flatMap((answer, index) =>
    (answer.data ?? []).filter((one) => one.status === "FIRING").map((one) => ({ project: projects[index], one })),
  );
  const waiting = queue.data?.totalElements ?? 0;
  const unasked = projects.length - alerts.length;
  if (failed.length + firing.length + waiting === 0) return null;
  return (
    <section>
      <div className="sec"><h2>Needs attention</h2></div>
      <ul className="attention">
        {failed.map(({ project, one }) => (
          <li key={one.runId}>
            <span className="sign fail">✗ gate failed</span>{" "}
            <Link className="link" to="/experiments/$experimentId/runs/$runId/diff" params={{ experimentId: one.experimentId, runId: one.runId }}>{shown(one.experimentName)}</Link>
            <span className="label">{shown(project.name)} · <Time value={one.startedAt} /></span>
          </li>
        ))}
        {firing.map(({ project, one }) => (
          <li key={one.id}>
            <span className="sign fail">✗ alert</span>{" "}
            <Link className="link" to="/trace-alerts" search={{ ...(project === undefined ? {} : { project: project.name }), alert: one.id }}>{shown(one.name)}</Link>
            <span className="label">{shown(project?.name ?? "")}</span>
          </li>
        ))}
        {waiting > 0 && (
          <li>
            <span className="sign none">· review</span>{" "}
            <Link className="link" to="/review-queue">{queue.data?.totalIsExact === false && "at least "}{plural(waiting, "item")} {waiting === 1 ? "waits" : "wait"} for a verdict</Link>
          </li>
        )}
      </ul>
      {unasked > 0 && <p className="label">Alerts are looked up here for {count(alerts.length)} of {count(projects.length)} projects; each other one has them on its page.</p>}
    </section>
  );
}

function ProjectSection({ project }: { project: Project }) {
  const runs = project.latestRuns ?? [];
  const verdicts = new Map((project.verdicts ?? []).map((verdict) => [verdict.experimentId, verdict]));
  return (
    <section>
      <div className="sec">
        <h2>
          <Link className="link" to="/projects/$name" params={{ name: project.name }}>{shown(project.name)}</Link>
        </h2>
        <span className="label">
          {plural(project.experimentCount, "experiment")} · {plural(project.runCount ?? 0, "run")}
        </span>
      </div>
      {runs.length === 0 ? <p className="label">{project.experimentCount === 0 ? "It has no experiment yet." : "Its experiments have no run."}</p> : (
        <div className="panel">
          <table className="verdicts">
            <thead>
              <tr><th>Experiment</th><th>Gate</th><th className="num">Pass rate</th><th className="num hide-s">Latest run</th></tr>
            </thead>
            <tbody>
              {runs.slice(0, MOST_EXPERIMENTS).map((run) => <ExperimentRow key={run.experimentId} run={run} verdict={verdicts.get(run.experimentId)} />)}
            </tbody>
          </table>
          {project.experimentCount > Math.min(runs.length, MOST_EXPERIMENTS) && (
            <p className="foot-row">
              <span>{runs.length > MOST_EXPERIMENTS ? `The ${MOST_EXPERIMENTS} with the newest runs` : "Those with runs"}</span>
              <Link className="link" to="/projects/$name" params={{ name: project.name }}>All {count(project.experimentCount)} experiments</Link>
            </p>
          )}
        </div>
      )}
    </section>
  );
}

/** The latest run of an experiment, and what the gate said last, which may have been of an earlier run. */
function ExperimentRow({ run, verdict }: { run: ExperimentRun; verdict: Verdict | undefined }) {
  return (
    <tr>
      <th scope="row">
        <Link className="link" to="/experiments/$experimentId" params={{ experimentId: run.experimentId }}>
          {shown(run.experimentName)}
        </Link>
      </th>
      <td><GateSign run={run} verdict={verdict} /></td>
      <td className="num"><PassRate run={run} /></td>
      <td className="num hide-s">
        <Link className="link" to="/runs/$runId" params={{ runId: run.runId }}>
          <Time value={run.startedAt} />
        </Link>
        {run.status !== "SUCCESS" && <span className="sub">{sayStatus(run.status)}</span>}
      </td>
    </tr>
  );
}

function GateSign({ run, verdict }: { run: ExperimentRun; verdict: Verdict | undefined }) {
  if (verdict === undefined) {
    return <span className="sign none" title="The gate gives its verdict on runs that have succeeded or failed">{isLive(run.status) ? "· running" : "– no verdict"}</span>;
  }
  const [name, text] = WORDS[verdict.status];
  return (
    <>
      <span className={`sign ${name}`}>{text}</span>
      {verdict.runId !== run.runId && (
        <span className="sub">of <Link className="link" to="/runs/$runId" params={{ runId: verdict.runId }}>an earlier run</Link></span>
      )}
    </>
  );
}
