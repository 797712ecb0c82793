/** A project: its experiments with their latest runs. */
import { useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { experimentsQuery } from "../api/queries";
import { Failure, Loading, PassRate, State, Time } from "../components/bits";
import { Crumbs } from "../components/shell";
import { useActions } from "../lib/actions";
import { count, plural, shown } from "../lib/format";
import { sayStatus } from "../lib/runs";

const route = getRouteApi("/projects/$name");

export function ProjectPage() {
  const { name } = route.useParams();
  const experiments = useQuery(experimentsQuery(name));
  const own = `/projects/${encodeURIComponent(name)}`;
  useActions([
    { label: "Dashboard of this project", href: `${own}/dashboard` },
    { label: "Traces of this project", href: `/traces?${new URLSearchParams({ project: name })}` },
    { label: "Alert webhooks of this project", href: `${own}/alerts` },
    { label: "Settings of this project", href: `${own}/settings` },
  ]);
  if (experiments.isPending) return <Loading />;
  if (experiments.isLoadingError) return <Failure error={experiments.error} retry={() => void experiments.refetch()} />;
  return (
    <>
      <Crumbs title={name} />
      <div className="head">
        <div>
          <h1>{shown(name)}</h1>
          <p className="facts"><span>{plural(experiments.data.length, "experiment")}</span></p>
        </div>
        <div className="actions">
          <Link className="btn" to="/projects/$name/dashboard" params={{ name }}>Dashboard</Link>
          <Link className="btn" to="/traces" search={{ project: name }}>Traces</Link>
          <Link className="btn" to="/projects/$name/judge-calls" params={{ name }}>Judge calls</Link>
          <Link className="btn" to="/projects/$name/alerts" params={{ name }}>Alert webhooks</Link>
          <Link className="btn" to="/projects/$name/settings" params={{ name }}>Settings</Link>
        </div>
      </div>
      <section>
        <div className="sec"><h2>Experiments</h2></div>
        <div className="panel">
          {experiments.data.length === 0 ? (
            <State title="This project has no experiment"><p>The first run that is sent to it makes one.</p></State>
          ) : (
            <table>
              <thead>
                <tr>
                  <th>Experiment</th>
                  <th>Latest run</th>
                  <th className="hide-s">Status</th>
                  <th className="num">Pass rate</th>
                  <th className="num hide-s">Runs</th>
                </tr>
              </thead>
              <tbody>
                {experiments.data.map((experiment) => (
                  <tr key={experiment.id}>
                    <th scope="row">
                      <Link className="link" to="/experiments/$experimentId" params={{ experimentId: experiment.id }}>
                        {shown(experiment.name)}
                      </Link>
                    </th>
                    <td>
                      {experiment.latestRun != null && (
                        <Link className="link" to="/runs/$runId" params={{ runId: experiment.latestRun.runId }}>
                          <Time value={experiment.latestRun.startedAt} />
                        </Link>
                      )}
                    </td>
                    <td className="hide-s">{experiment.latestRun == null ? "–" : sayStatus(experiment.latestRun.status)}</td>
                    <td className="num">{experiment.latestRun == null ? "–" : <PassRate run={experiment.latestRun} />}</td>
                    <td className="num hide-s">{count(experiment.runCount ?? 0)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </div>
      </section>
    </>
  );
}
