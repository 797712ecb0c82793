/** Home: the projects with the verdicts of their experiments. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type Project, type Verdict, projectsQuery } from "../api/queries";
import { Failure, Loading, State, Time } from "../components/bits";
import { Crumbs } from "../components/shell";
import { plural, shown } from "../lib/format";

const WORDS: Record<string, readonly [string, string]> = {
  PASSED: ["pass", "✓ passed"],
  FAILED: ["fail", "✗ failed"],
  INCONCLUSIVE: ["none", "– inconclusive"],
  NO_BASELINE: ["none", "– no baseline"],
};

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
          <pre className="text">{`dokimos run evaluation.py --server ${location.origin} --project my-project`}</pre>
        </State>
      ) : (
        projects.data.map((project) => <ProjectSection key={project.id} project={project} />)
      )}
    </>
  );
}

function ProjectSection({ project }: { project: Project }) {
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
      <div className="panel">
        <table>
          <tbody>
            {(project.verdicts ?? []).map((verdict) => <VerdictRow key={verdict.experimentId} verdict={verdict} />)}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function VerdictRow({ verdict }: { verdict: Verdict }) {
  const [name, text] = WORDS[verdict.status] ?? ["none", verdict.status.toLowerCase()];
  return (
    <tr>
      <th scope="row">
        <Link className="link" to="/experiments/$experimentId" params={{ experimentId: verdict.experimentId }}>
          {shown(verdict.experimentName)}
        </Link>
      </th>
      <td><span className={`sign ${name}`}>{text}</span></td>
      <td className="num">
        <Link className="link" to="/runs/$runId" params={{ runId: verdict.runId }}>
          <Time value={verdict.startedAt} />
        </Link>
      </td>
    </tr>
  );
}
