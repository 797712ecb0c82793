/** Alerts on traces: how close each is to firing, what was decided when, and what to do about it. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { type Firing, type TraceAlert, alertsQuery, backTestQuery, deleteAlert, evidenceQuery, firingsQuery, replaceAlert, useChosenProject, withSaved } from "../api/online";
import { change } from "../api/client";
import { sessionQuery } from "../api/session";
import { hasRole } from "../api/settings";
import { useWrite } from "../api/write";
import { EvidenceOverTime } from "../charts/evidence";
import { LatestInSight } from "../charts/latest";
import { AlertForm } from "../components/alert-form";
import { BackTesting } from "../components/back-test";
import { Failure, Loading, State, Time } from "../components/bits";
import { EvidenceChart } from "../components/intervals";
import { NotSaved } from "../components/notices";
import { Confirm, RoleNeeded, sayRefusal } from "../components/settings-bits";
import { Crumbs } from "../components/shell";
import { ProjectChoice } from "../components/trace-bits";
import { alertBodyOf, meanOf, sayLowerBounds, sayTimes, valueOf, watchedBy } from "../lib/alerts";
import { dropDraft, keepDraft, useDraft } from "../lib/drafts";
import { count, plural, score, shown, time } from "../lib/format";
import "../styles/settings.css";

const route = getRouteApi("/trace-alerts");

export function TraceAlertsPage() {
  const { project: chosen, alert, edit } = route.useSearch();
  const navigate = route.useNavigate();
  const { project, id, projects } = useChosenProject(chosen);
  const alerts = useQuery({ ...alertsQuery(id ?? ""), enabled: id !== undefined });
  const session = useQuery(sessionQuery).data;
  const mayChange = hasRole(session, "EDITOR", project);
  const current = alerts.data?.find((one) => one.id === alert);
  const open = (one: string | undefined, isEdited = false) =>
    void navigate({ search: { ...(project === undefined ? {} : { project }), ...(one === undefined ? {} : { alert: one }), ...(isEdited ? { edit: "true" } : {}) } });
  const make = mayChange ? <button type="button" className="btn main" onClick={() => open(undefined, true)}>New alert</button> : undefined;
  return (
    <>
      <Crumbs title={current?.name ?? "Alerts"}>
        {project !== undefined && <><Link to="/projects/$name" params={{ name: project }}>{shown(project)}</Link><i>/</i></>}
        {current !== undefined && <><Link to="/trace-alerts" search={project === undefined ? {} : { project }}>Alerts</Link><i>/</i></>}
      </Crumbs>
      {edit === "true" && mayChange && project !== undefined && id !== undefined && alerts.data !== undefined && (alert === undefined || current !== undefined) ? (
        <AlertForm key={`${id}:${current?.id ?? "new"}`} project={id} projectName={project} alert={current} onSaved={open} onCancel={() => open(alert)} />
      ) : current !== undefined ? (
        <>
          {!mayChange && <RoleNeeded session={session} role="editor" what="Changing alerts" />}
          <OneAlert key={current.id} alert={current} mayChange={mayChange} isStale={alerts.isError} onEdit={() => open(current.id, true)} onDeleted={() => open(undefined)} />
        </>
      ) : (
        <>
          <div className="head">
            <div><h1>Alerts on traces</h1><p className="facts"><span>what is watched in production</span></p></div>
            <div className="actions"><ProjectChoice all={false} project={project} onChoose={(name) => void navigate({ search: name === undefined ? {} : { project: name }, replace: true })} />
              {id !== undefined && alerts.data !== undefined && alerts.data.length > 0 && make}
            </div>
          </div>
          {id !== undefined && !mayChange && <RoleNeeded session={session} role="editor" what="Making alerts" />}
          <section>
            {projects.isPending ? <Loading />
              : project === undefined && projects.isSuccess ? <State title="Choose a project"><p>Alerts belong to a project. Choose one above.</p></State>
              : project === undefined || projects.isLoadingError ? <Failure error={projects.error} retry={() => void projects.refetch()} />
              : projects.isSuccess && id === undefined ? <State title="This project is not here"><p>It may have been deleted, or its name is another one.</p></State>
              : alerts.isPending ? <Loading />
              : alerts.isLoadingError ? <Failure error={alerts.error} retry={() => void alerts.refetch()} />
              : alert !== undefined ? <State title="This alert is not here" actions={<button type="button" className="btn" onClick={() => open(undefined)}>Show all alerts</button>}><p>It may have been deleted.</p></State>
              : <AlertTable alerts={alerts.data} project={project} make={make} />}
          </section>
        </>
      )}
    </>
  );
}

function Status({ alert }: { alert: TraceAlert }) {
  if (!alert.enabled) return <span className="sign none">– paused</span>;
  if (alert.status === "FIRING") return <span className="sign fail">✗ firing</span>;
  if (alert.problem !== null) return <span className="sign error">! {alert.needsRestart ? "its rule was changed" : "hears of nothing"}</span>;
  return alert.status === "LEARNING" ? <span className="sign none">– learning</span> : <span className="sign pass">✓ watching</span>;
}

function AlertTable({ alerts, project, make }: { alerts: readonly TraceAlert[]; project: string; make: ReactNode }) {
  if (alerts.length === 0) {
    return (
      <State title="Nothing is watched in this project" actions={make}>
        <p>An alert tells you of a change in scores, errors, latency or cost, or of a limit that is crossed. Before it is saved, it says how often that would have been in the last 30 days.</p>
      </State>
    );
  }
  const order = [...alerts].sort((a, b) => Number(b.status === "FIRING") - Number(a.status === "FIRING"));
  return (
    <div className="panel">
      <table>
        <thead><tr><th>Alert</th><th>Status</th><th className="hide-s">Metric</th><th className="num hide-s">Now</th><th className="num">Evidence</th></tr></thead>
        <tbody>
          {order.map((alert) => (
            <tr key={alert.id}>
              <th scope="row">
                <Link className="link" to="/trace-alerts" search={{ project, alert: alert.id }}>{shown(alert.name)}</Link>
                <span className="sub">{alert.kind === "CHANGE" ? "change" : "limit"}</span>
              </th>
              <td><Status alert={alert} />{alert.firing !== null && <span className="sub">since <Time value={alert.firing.since ?? alert.firing.firedAt} /></span>}</td>
              <td className="hide-s">{watchedBy(alert)}</td>
              <td className="num hide-s">{valueOf(alert, alert.value ?? alert.mean?.value)}<span className="sub">n = {count(alert.observationCount)}{alert.lowerBoundCount > 0 && `, ${count(alert.lowerBoundCount)} of them lower bounds`}</span></td>
              <td className="num">{alert.evidence === null ? "–" : `${score(alert.evidence)} of ${score(alert.needed)}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface OneAlertProps {
  readonly alert: TraceAlert;
  readonly mayChange: boolean;
  readonly isStale: boolean;
  readonly onEdit: () => void;
  readonly onDeleted: () => void;
}

function OneAlert({ alert, mayChange, isStale, onEdit, onDeleted }: OneAlertProps) {
  const queries = useQueryClient();
  const removal = useWrite<null, unknown>({
    what: "The deletion",
    send: () => deleteAlert(alert),
    keys: () => [["trace-alerts", alert.projectId]],
    notice: () => ({ text: `The alert ${alert.name} is deleted, with its history.` }),
    onSaved: () => {
      dropDraft(`alert:${alert.projectId}:${alert.id}`);
      if (alert.firing !== null) dropDraft(acknowledgeKey(alert, alert.firing));
      onDeleted();
    },
  });
  const keep = (saved: TraceAlert) => queries.setQueryData(alertsQuery(alert.projectId).queryKey, (list) => withSaved(list, saved));
  const restart = useWrite<null, TraceAlert>({
    what: "The alert",
    send: () => replaceAlert(alert, { ...alertBodyOf(alert), restart: true }),
    keys: () => [["trace-alerts", alert.projectId]],
    notice: () => ({ text: "The alert has begun anew, with what its rule says now." }),
    onSaved: keep,
  });
  const write = useWrite<boolean, TraceAlert>({
    what: "The alert",
    send: (enabled) => replaceAlert(alert, { ...alertBodyOf(alert), enabled }),
    onSaved: keep,
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
        {mayChange && (
          <div className="actions">
            <button type="button" className="btn" disabled={write.isSaving} onClick={() => write.save(!alert.enabled)}>{alert.enabled ? "Pause" : "Watch again"}</button>
            <button type="button" className="btn" onClick={onEdit}>Edit</button>
            <Confirm label="Delete …" question="Delete it with all that it has seen?" action="Delete" isBusy={removal.isSaving} onConfirm={() => removal.save(null)} />
          </div>
        )}
      </div>
      {isStale && <p className="callout warn" role="status">! The server does not answer; what is below is from before.</p>}
      <NotSaved write={write} />
      <NotSaved write={removal} again="Delete again" />
      <AlertVerdict alert={alert} />
      {alert.problem !== null && (
        <div className="callout warn split">
          <span><b>! {alert.needsRestart ? "Its rule was changed." : "It hears of nothing."}</b> {shown(alert.problem)}</span>
          {mayChange && alert.needsRestart && <Confirm label="Begin anew …" question="Forget what it has seen, and begin with the rule as it is now?" action="Begin anew" isBusy={restart.isSaving} onConfirm={() => restart.save(null)} />}
        </div>
      )}
      <NotSaved write={sayRefusal(restart, "The alert")} />
      {alert.firing !== null && alert.firing.acknowledgedAt === null && mayChange && <Acknowledge alert={alert} firing={alert.firing} />}
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
      <OwnBackTest alert={alert} />
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
        {firing === null && alert.lowerBoundCount > 0 && ` ${sayLowerBounds(alert.lowerBoundCount)}`}
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
            {alert.needed !== null && <li>It fires at {score(alert.needed)}: a false alarm at most {alert.falseAlarmsPerYear === null ? "rarely" : `${sayTimes(alert.falseAlarmsPerYear)} in a year`}.</li>}
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
      <div className="sec"><h2>History</h2></div>
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

const acknowledgeKey = (alert: TraceAlert, firing: Firing): string => `acknowledge:${alert.projectId}:${firing.id}`;

function Acknowledge({ alert, firing }: { alert: TraceAlert; firing: Firing }) {
  const key = acknowledgeKey(alert, firing);
  const note = useDraft<string>(key) ?? "";
  const write = useWrite<"keep" | "new", unknown>({
    what: "The acknowledgement",
    send: (baseline) => change("POST", `/projects/${alert.projectId}/trace-alerts/${alert.id}/acknowledge`, { baseline, ...(note.trim() === "" ? {} : { note: note.trim() }) }),
    keys: () => [["trace-alerts", alert.projectId]],
    notice: () => ({ text: "Acknowledged." }),
    onSaved: () => dropDraft(key),
  });
  const isChange = alert.kind === "CHANGE";
  const hasBaseline = alert.baseline !== null;
  return (
    <section className="panel pad make" aria-label="Acknowledge">
      <h2>Acknowledge</h2>
      <label>
        What was it?
        <input className="field" value={note} maxLength={1000} placeholder="A provider was down" onChange={({ target }) => (target.value === "" ? dropDraft(key) : keepDraft(key, target.value))} />
      </label>
      <div className="actions">
        <button type="button" className="btn main" disabled={write.isSaving} onClick={() => write.save("keep")}>{hasBaseline ? "Keep the baseline" : isChange ? "Watch again" : "Acknowledge"}</button>
        {hasBaseline && <button type="button" className="btn" disabled={write.isSaving} onClick={() => write.save("new")}>Take a new baseline</button>}
      </div>
      <p className="label">{hasBaseline ? "Keep it where the cause was removed. Take a new one where things are to stay as they are: it is learned from now on." : isChange ? "It is held against the same value as before. Where things are to stay as they are, edit that value." : "It is noted; the alert ends by itself when the limit is kept again."}</p>
      <NotSaved write={sayRefusal(write, "The acknowledgement")} />
    </section>
  );
}

function OwnBackTest({ alert }: { alert: TraceAlert }) {
  const [isAsked, setIsAsked] = useState(false);
  const query = useQuery({ ...backTestQuery(alert), enabled: isAsked });
  return (
    <section>
      <div className="sec"><h2>Back-test</h2><span className="label">on what it would have fired in the last 30 days; nothing is stored, nobody is told</span></div>
      <BackTesting query={query} isCurrent={isAsked} label="Run the back-test" watched={alert} onAsk={() => (isAsked ? void query.refetch() : setIsAsked(true))} />
    </section>
  );
}
