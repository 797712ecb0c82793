/** Alerts on traces: how close each is to firing, what was decided when, and what to do about it. */
import { useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { type Firing, type Mean, type TraceAlert, alertBodyOf, alertsQuery, backTestQuery, evidenceQuery, firingsQuery, replaceAlert, useProjectId } from "../api/online";
import { change } from "../api/client";
import { useWrite } from "../api/write";
import { EvidenceOverTime } from "../charts/evidence";
import { LatestInSight } from "../charts/latest";
import { Failure, Loading, State, Time } from "../components/bits";
import { EvidenceChart } from "../components/intervals";
import { NotSaved } from "../components/notices";
import { Crumbs } from "../components/shell";
import { ProjectChoice } from "../components/trace-bits";
import { cost, count, duration, plural, rate, score, shown, time } from "../lib/format";

const route = getRouteApi("/trace-alerts");

export function TraceAlertsPage() {
  const { project, alert } = route.useSearch();
  const navigate = route.useNavigate();
  const { id, projects } = useProjectId(project);
  const alerts = useQuery({ ...alertsQuery(id ?? ""), enabled: id !== undefined });
  const current = alerts.data?.find((one) => one.id === alert);
  return (
    <>
      <Crumbs title={current?.name ?? "Alerts"}>
        {project !== undefined && <><Link to="/projects/$name" params={{ name: project }}>{shown(project)}</Link><i>/</i></>}
        {current !== undefined && <><Link to="/trace-alerts" search={project === undefined ? {} : { project }}>Alerts</Link><i>/</i></>}
      </Crumbs>
      {current !== undefined ? <OneAlert key={current.id} alert={current} isStale={alerts.isError} /> : (
        <>
          <div className="head">
            <div><h1>Alerts on traces</h1><p className="facts"><span>what is watched in production</span></p></div>
            <div className="actions"><ProjectChoice all={false} project={project} onChoose={(name) => void navigate({ search: name === undefined ? {} : { project: name }, replace: true })} /></div>
          </div>
          <section>
            {project === undefined ? <State title="Whose alerts?"><p>Alerts belong to a project. Choose one above.</p></State>
              : projects.isLoadingError ? <Failure error={projects.error} retry={() => void projects.refetch()} />
              : projects.isSuccess && id === undefined ? <State title="This project is not here"><p>It may have been deleted, or its name is another one.</p></State>
              : alerts.isPending ? <Loading />
              : alerts.isLoadingError ? <Failure error={alerts.error} retry={() => void alerts.refetch()} />
              : alert !== undefined ? <State title="This alert is not here" actions={<Link className="btn" to="/trace-alerts" search={{ project }}>Show all alerts</Link>}><p>It may have been deleted.</p></State>
              : <AlertTable alerts={alerts.data} project={project} />}
          </section>
        </>
      )}
    </>
  );
}

const METRICS: Record<TraceAlert["metric"], string> = { SCORE: "score", PASS_RATE: "pass rate", ERROR_RATE: "error rate", LATENCY: "latency", COST: "cost" };

/** A value of what an alert watches, in its unit. */
function valueOf(alert: TraceAlert, value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (alert.over !== null || alert.metric === "PASS_RATE" || alert.metric === "ERROR_RATE") return rate(value);
  return alert.metric === "LATENCY" ? duration(value) : alert.metric === "COST" ? cost(value) : score(value);
}

function meanOf(alert: TraceAlert, mean: Mean | null): string {
  if (mean === null || mean.value === null) return "–";
  const interval = mean.low === null || mean.high === null ? "" : ` (95 % between ${valueOf(alert, mean.low)} and ${valueOf(alert, mean.high)})`;
  return valueOf(alert, mean.value) + interval;
}

/** What is watched, such as `share of traces with a latency above 10.0 s`. */
function watchedBy(alert: TraceAlert): string {
  if (alert.over === null) return METRICS[alert.metric];
  return `share of traces with a ${METRICS[alert.metric]} above ${alert.metric === "LATENCY" ? duration(alert.over) : cost(alert.over)}`;
}

function Status({ alert }: { alert: TraceAlert }) {
  if (!alert.enabled) return <span className="sign none">– paused</span>;
  if (alert.status === "FIRING") return <span className="sign fail">✗ firing</span>;
  if (alert.problem !== null) return <span className="sign error">! hears of nothing</span>;
  return alert.status === "LEARNING" ? <span className="sign none">– learning</span> : <span className="sign pass">✓ watching</span>;
}

function AlertTable({ alerts, project }: { alerts: readonly TraceAlert[]; project: string }) {
  if (alerts.length === 0) {
    return (
      <State title="Nothing is watched in this project">
        <p>An alert tells you of a change in scores, errors, latency or cost. Create one through the API:</p>
        <pre className="text">{`POST /api/v1/projects/{projectId}/trace-alerts\n{ "name": "more errors", "kind": "CHANGE", "metric": "ERROR_RATE",\n  "baseline": { "count": 1000 }, "tolerance": 0.01 }`}</pre>
      </State>
    );
  }
  const order = [...alerts].sort((a, b) => Number(b.status === "FIRING") - Number(a.status === "FIRING"));
  return (
    <div className="panel">
      <table>
        <thead><tr><th>Alert</th><th>Status</th><th className="hide-s">Watches</th><th className="num hide-s">Now</th><th className="num">Evidence</th></tr></thead>
        <tbody>
          {order.map((alert) => (
            <tr key={alert.id}>
              <th scope="row">
                <Link className="link" to="/trace-alerts" search={{ project, alert: alert.id }}>{shown(alert.name)}</Link>
                <span className="sub">{alert.kind === "CHANGE" ? "change" : "limit"}</span>
              </th>
              <td><Status alert={alert} />{alert.firing !== null && <span className="sub">since <Time value={alert.firing.since ?? alert.firing.firedAt} /></span>}</td>
              <td className="hide-s">{watchedBy(alert)}</td>
              <td className="num hide-s">{valueOf(alert, alert.value ?? alert.mean?.value)}<span className="sub">n = {count(alert.observationCount)}</span></td>
              <td className="num">{alert.evidence === null ? "–" : `${score(alert.evidence)} of ${score(alert.needed)}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function OneAlert({ alert, isStale }: { alert: TraceAlert; isStale: boolean }) {
  const write = useWrite<boolean, TraceAlert>({
    what: "The alert",
    send: (enabled) => replaceAlert(alert, { ...alertBodyOf(alert), enabled }),
    keys: () => [["trace-alerts", alert.projectId]],
    notice: (answer) => ({ text: answer.enabled ? "The alert watches again." : "The alert is paused: what comes meanwhile does not count." }),
  });
  return (
    <>
      <div className="head">
        <div>
          <h1>{shown(alert.name)}</h1>
          <p className="facts">
            <span>{alert.kind === "CHANGE" ? "fires at a change" : "fires beyond a limit"}</span>
            <span>{watchedBy(alert)}</span>
            {alert.filter !== null && Object.entries(alert.filter).filter(([, value]) => value !== null).map(([name, value]) => <span key={name}>{name} {shown(String(value))}</span>)}
            <span>watched since <Time value={alert.createdAt} /></span>
          </p>
        </div>
        <div className="actions">
          <button type="button" className="btn" disabled={write.isSaving} onClick={() => write.save(!alert.enabled)}>{alert.enabled ? "Pause" : "Watch again"}</button>
        </div>
      </div>
      {isStale && <p className="callout warn" role="status">! The server does not answer; what is below is from before.</p>}
      <NotSaved write={write} />
      <AlertVerdict alert={alert} />
      {alert.problem !== null && <p className="callout warn"><b>! It hears of nothing.</b> {shown(alert.problem)}</p>}
      {alert.firing !== null && alert.firing.acknowledgedAt === null && <Acknowledge alert={alert} />}
      {alert.evidence !== null && alert.needed !== null && (
        <section>
          <div className="sec"><h2>Evidence for a change</h2><span className="label">each trace moves it up or down; the scale is logarithmic</span></div>
          <div className="panel pad"><EvidenceChart evidence={alert.evidence} needed={alert.needed} fires={alert.status === "FIRING"} /></div>
        </section>
      )}
      {alert.kind === "CHANGE" && alert.evidence !== null && <History alert={alert} />}
      <section className="two">
        <Reading alert={alert} />
        <Decisions alert={alert} />
      </section>
      <BackTesting alert={alert} />
    </>
  );
}

function AlertVerdict({ alert }: { alert: TraceAlert }) {
  const { firing } = alert;
  const now = alert.kind === "THRESHOLD" ? alert.value : (alert.mean?.value ?? null);
  return (
    <>
      <p className="verdict">
        {firing !== null
          ? <><span className="fail">✗ The {watchedBy(alert)} {alert.kind === "THRESHOLD" ? `is beyond ${valueOf(alert, alert.limit)}` : firing.direction === "RISE" ? "rose" : "fell"}</span><span className="of"> · decided {time(firing.firedAt)}, after {plural(firing.observations, "trace")}</span></>
          : !alert.enabled ? <span className="none">– Paused</span>
          : alert.status === "LEARNING" ? <><span className="none">– Learning what is normal</span><span className="of"> · {plural(alert.learnedCount ?? 0, "trace")} so far</span></>
          : <><span className="pass">✓ {alert.kind === "THRESHOLD" ? "Within the limit" : "No change"}</span><span className="of"> · {plural(alert.observationCount, "trace")} seen</span></>}
      </p>
      <p className="sentence" dir="auto">
        {firing !== null ? shown(firing.reason) : now === null ? "Nothing is known of it yet." : `It is ${alert.kind === "THRESHOLD" ? valueOf(alert, now) : meanOf(alert, alert.mean)}${alert.kind === "THRESHOLD" ? `; the limit is ${valueOf(alert, alert.limit)}` : alert.reference === null ? "" : `; it should be ${valueOf(alert, alert.reference)}`}.`}
        {alert.meanSinceFiring !== null && ` Since it fired: ${meanOf(alert, alert.meanSinceFiring)}.`}
      </p>
    </>
  );
}

function Reading({ alert }: { alert: TraceAlert }) {
  return (
    <div>
      <div className="sec"><h2>How to read this</h2></div>
      <ul className="plain-list">
        {alert.kind === "CHANGE" ? (
          <>
            <li>Around 1, the traces fit {alert.reference === null ? "the baseline" : valueOf(alert, alert.reference)}{alert.tolerance > 0 && `, give or take ${valueOf(alert, alert.tolerance)}`}.</li>
            {alert.needed !== null && <li>It fires at {score(alert.needed)}: a false alarm at most {alert.falseAlarmsPerYear === null ? "rarely" : `${score(alert.falseAlarmsPerYear)} times in a year`}.</li>}
            <li>You may look at any time. Looking often does not cause false alarms.</li>
            <li>The alert stays until somebody acknowledges it.</li>
          </>
        ) : (
          <>
            <li>It fires while the mean of {alert.window?.traces != null ? `the last ${plural(alert.window.traces, "trace")}` : `the last ${plural(alert.window?.minutes ?? 0, "minute")}`} is {alert.direction === "DROP" ? "below" : "above"} {valueOf(alert, alert.limit)}.</li>
            <li>A mean moves by chance. The back-test says how often it would have been beyond the limit although nothing changed.</li>
          </>
        )}
        {alert.observedUntil !== null && <li>Observed until <Time value={alert.observedUntil} />.</li>}
      </ul>
    </div>
  );
}

interface Decision {
  readonly at: string;
  readonly sign: string;
  readonly text: string;
  readonly more: string | null;
}

function decisionsOf(alert: TraceAlert, firings: readonly Firing[]): Decision[] {
  const found: Decision[] = firings.flatMap((one) => [
    { at: one.firedAt, sign: "fail", text: "✗ fired", more: one.reason },
    ...(one.acknowledgedAt === null ? [] : [{ at: one.acknowledgedAt, sign: "none", text: `– acknowledged${one.acknowledgedBy === null ? "" : ` by ${one.acknowledgedByName ?? one.acknowledgedBy}`}`, more: one.note }]),
    ...(one.endedAt === null || one.endedAt === one.acknowledgedAt ? [] : [{ at: one.endedAt, sign: "pass", text: "✓ ended", more: null }]),
  ]);
  found.push({ at: alert.createdAt, sign: "none", text: "– the watch began", more: null });
  return found.sort((a, b) => b.at.localeCompare(a.at));
}

/** How the evidence went, with the decisions at their times. */
function History({ alert }: { alert: TraceAlert }) {
  const history = useQuery(evidenceQuery(alert));
  const firings = useQuery(firingsQuery(alert.projectId, alert.id));
  const points = history.data ?? [];
  return (
    <section>
      <div className="sec"><h2>Evidence over time</h2><span className="label">the greatest of each stretch of traces; <span className="fail">dots: it fires</span></span></div>
      {history.isPending ? <Loading />
        : history.isLoadingError ? <Failure error={history.error} retry={() => void history.refetch()} />
        : points.length < 2 ? <p className="muted">There is a line as soon as two traces were seen since this server keeps it.</p>
        : <LatestInSight className="evidence-over-time"><EvidenceOverTime points={points} marks={decisionsOf(alert, firings.data ?? [])} /></LatestInSight>}
    </section>
  );
}

function Decisions({ alert }: { alert: TraceAlert }) {
  const firings = useQuery(firingsQuery(alert.projectId, alert.id));
  return (
    <div>
      <div className="sec"><h2>What was decided when</h2></div>
      {firings.isPending ? <Loading /> : firings.isLoadingError ? <Failure error={firings.error} retry={() => void firings.refetch()} /> : (
        <ol className="decided">
          {decisionsOf(alert, firings.data).map((one, index) => (
            <li key={index}>
              <span className="label"><Time value={one.at} /></span>
              <span dir="auto"><span className={one.sign}>{shown(one.text)}</span>{one.more !== null && one.more !== "" && <>: {shown(one.more)}</>}</span>
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}

function Acknowledge({ alert }: { alert: TraceAlert }) {
  const [note, setNote] = useState("");
  const write = useWrite<"keep" | "new", unknown>({
    what: "The acknowledgement",
    send: (baseline) => change("POST", `/projects/${alert.projectId}/trace-alerts/${alert.id}/acknowledge`, { baseline, ...(note.trim() === "" ? {} : { note: note.trim() }) }),
    keys: () => [["trace-alerts", alert.projectId]],
    notice: () => ({ text: "Acknowledged." }),
    onSaved: () => setNote(""),
  });
  const isChange = alert.kind === "CHANGE";
  return (
    <section className="panel pad make" aria-label="Acknowledge">
      <h2>Acknowledge</h2>
      <label>
        What was it?
        <input className="field" value={note} maxLength={1000} placeholder="A provider was down" onChange={(event) => setNote(event.target.value)} />
      </label>
      <div className="actions">
        <button type="button" className="btn main" disabled={write.isSaving} onClick={() => write.save("keep")}>{isChange ? "Keep the baseline" : "Acknowledge"}</button>
        {isChange && <button type="button" className="btn" disabled={write.isSaving} onClick={() => write.save("new")}>Take a new baseline</button>}
      </div>
      <p className="label">{isChange ? "Keep it where the cause was removed. Take a new one where things are to stay as they are: it is learned from now on." : "It is noted; the alert ends by itself when the limit is kept again."}</p>
      <NotSaved write={write} />
    </section>
  );
}

function BackTesting({ alert }: { alert: TraceAlert }) {
  const [isAsked, setIsAsked] = useState(false);
  const query = useQuery({ ...backTestQuery(alert), enabled: isAsked });
  return (
    <section>
      <div className="sec"><h2>Back-test</h2><span className="label">on what it would have fired in the last 30 days; nothing is stored, nobody is told</span></div>
      {!isAsked ? <button type="button" className="btn" onClick={() => setIsAsked(true)}>Run the back-test</button>
        : query.isPending ? <Loading /> : query.isLoadingError ? <Failure error={query.error} retry={() => void query.refetch()} /> : (
          <>
            <p className="sentence">
              It would have fired {plural(query.data.firingCount, "time")} on {plural(query.data.observationCount, "trace")}.
              {query.data.byChance !== null && ` By chance alone, ${score(query.data.byChance.expected)} times; what is beyond that has a cause.`}
              {!query.data.isComplete && " There are more traces than it looked at."}
            </p>
            {query.data.firings.length > 0 && (
              <div className="panel">
                <table>
                  <thead><tr><th>Fired</th><th>Since</th><th className="num">Before</th><th className="num">After</th><th className="num hide-s">Traces</th></tr></thead>
                  <tbody>
                    {query.data.firings.map((one) => (
                      <tr key={one.firedAt + one.observations}>
                        <td><Time value={one.firedAt} /></td>
                        <td>{one.since === null ? "–" : <Time value={one.since} />}</td>
                        <td className="num">{valueOf(alert, one.before?.value ?? one.limit)}</td>
                        <td className="num">{valueOf(alert, one.after?.value ?? one.value)}</td>
                        <td className="num hide-s">{count(one.observations)}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </>
        )}
    </section>
  );
}
