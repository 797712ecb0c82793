/** Makes an alert on traces or changes one; says before it is saved on what it would have fired. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type MouseEvent, type ReactNode, useState } from "react";
import { type TraceAlert, alertsQuery, createAlert, replaceAlert, rulesQuery, tryAlertQuery, withSaved } from "../api/online";
import { sessionQuery } from "../api/session";
import { webhooksQuery } from "../api/settings";
import { useWrite } from "../api/write";
import {
  type AlertDraft, METRICS, NEW_ALERT, beginsAnew, boundUnitOf, calledBy, faultOf, hasNoLargest, isOfRule, readAlert, spanOf, unitOf, withKind, withMetric, withShare, writeAlert,
} from "../lib/alerts";
import { useKeptForm } from "../lib/drafts";
import { plural, shown } from "../lib/format";
import { BackTesting } from "./back-test";
import { Choice, type FieldProps, MoreFields, Note, TextField, reportFaults } from "./form-fields";
import { NotSaved } from "./notices";
import { KeptNote, isOvertaken, sayOvertaken } from "./settings-bits";

interface Props {
  /** The id of the project, and its name. */
  readonly project: string;
  readonly projectName: string;
  readonly alert: TraceAlert | undefined;
  /** Whether something was typed meanwhile, which is not saved. */
  readonly onSaved: (alert: string, isLeft: boolean) => void;
  readonly onCancel: () => void;
}

type TextName = "name" | "over" | "model" | "rootName" | "userId" | "count" | "from" | "to" | "reference" | "tolerance" | "importance" | "limit" | "window";

/** Parts of the form: what is typed, how it changes, and a field for each text of it. */
interface PartProps {
  readonly draft: AlertDraft;
  readonly change: (next: Partial<AlertDraft>) => void;
  readonly text: (label: string, name: TextName, more?: Partial<FieldProps>) => ReactNode;
}

export function AlertForm({ project, projectName, alert, onSaved, onCancel }: Props) {
  const queries = useQueryClient();
  const form = useKeptForm<AlertDraft>(draftKey(project, alert?.id), () => (alert === undefined ? NEW_ALERT : readAlert(alert)), alert?.version ?? null);
  const { fields: draft } = form;
  const body = readBody(draft, alert);
  const write = useWrite<{ readonly value: Record<string, unknown>; readonly version: string | null; readonly fields: AlertDraft }, TraceAlert>({
    what: "The alert",
    send: ({ value, version }) => (alert === undefined ? createAlert(project, value) : replaceAlert(alert, value, version)),
    keys: () => [["trace-alerts", project]],
    notice: (saved) => ({ text: `The alert ${saved.name} is saved.` }),
    onSaved: (saved, sent) => {
      queries.setQueryData(alertsQuery(project).queryKey, (list) => withSaved(list, saved));
      const stored = { fields: readAlert(saved), opened: saved.version };
      form.finish({ sent: sent.fields, stored, key: draftKey(project, saved.id) }, (isLeft) => onSaved(saved.id, isLeft));
    },
  });
  const save = (version: string | null) => {
    if (body !== null) write.save({ value: body, version, fields: draft });
  };
  const change = (next: Partial<AlertDraft>) => form.set({ ...draft, ...next });
  const text = (label: string, name: TextName, more: Partial<FieldProps> = {}) => <TextField label={label} name={name} value={draft[name]} onChange={(value) => change({ [name]: value })} {...more} />;
  const part: PartProps = { draft, change, text };
  return (
    <>
      <div className="head"><div><h1>{alert === undefined ? "New alert" : `Edit ${shown(alert.name)}`}</h1></div></div>
      <form
        className="rule-form"
        onSubmit={(event) => {
          event.preventDefault();
          save(form.opened);
        }}
      >
        <KeptNote form={form} />
        <Watched {...part} project={project} projectName={projectName} />
        <fieldset className="beside">
          <legend>Condition</legend>
          <Choice label="Detection method" value={draft.kind} onChange={(kind) => form.set(withKind(draft, kind === "THRESHOLD" ? "THRESHOLD" : "CHANGE"))} options={[["CHANGE", "change detection: few false alarms"], ["THRESHOLD", "fixed limit: also fires by chance"]]} />
          {draft.kind === "CHANGE" ? <OfChange {...part} projectName={projectName} /> : <OfThreshold {...part} />}
        </fieldset>
        <Told {...part} alert={alert} project={project} projectName={projectName} />
        <div className="wide">
          {alert !== undefined && body !== null && beginsAnew(body, alert) && (
            <p className="callout warn"><b>! It begins anew.</b> With another thing to watch, the alert forgets what it has seen{alert.firing === null ? "" : ", and what it fires on ends"}.</p>
          )}
          <AlertPreview project={project} alert={alert} draft={draft} body={body} />
          <NotSaved
            write={sayOvertaken(write, "The alert", () => save(null))}
            again={isOvertaken(write) ? "Save mine over it" : "Save again"}
            submits={!isOvertaken(write)}
          />
          <div className="actions spaced">
            <button type="submit" className="btn main" disabled={write.isSaving}>{write.isSaving ? "Saving …" : alert === undefined ? "Create the alert" : "Save the alert"}</button>
            <button type="button" className="btn" onClick={() => form.giveUp(onCancel)}>Cancel</button>
          </div>
        </div>
      </form>
    </>
  );
}

const draftKey = (project: string, alert: string | undefined): string => `alert:${project}:${alert ?? "new"}`;

/** What would be sent; null as long as a number is missing. */
function readBody(draft: AlertDraft, alert: TraceAlert | undefined): Record<string, unknown> | null {
  try {
    return writeAlert(draft, alert);
  } catch {
    return null;
  }
}

type Metric = TraceAlert["metric"];
const WATCHES: readonly (readonly [Metric, string])[] = [
  ["ERROR_RATE", "error rate of traces"], ["LATENCY", "latency of traces"], ["COST", "cost of traces"],
  ["SCORE", "scores of a rule"], ["PASS_RATE", "pass rate of a rule"],
];

function Watched({ draft, change, text, project, projectName }: PartProps & { readonly project: string; readonly projectName: string }) {
  const rules = useQuery(rulesQuery(project));
  const isKnown = rules.data?.some((one) => one.id === draft.ruleId) ?? true;
  const bound = boundUnitOf(draft.metric).label;
  return (
    <fieldset>
      <legend>Metric</legend>
      {text("Name of the alert", "name", { required: true })}
      <Choice label="Metric" value={draft.metric} onChange={(metric) => change(withMetric(draft, metric as Metric))} options={WATCHES} />
      {isOfRule(draft.metric) ? (
        <label>
          Rule
          <select className="field" aria-label="Rule" required value={draft.ruleId} onChange={({ target }) => change({ ruleId: target.value })}>
            <option value="">Choose a rule</option>
            {!isKnown && draft.ruleId !== "" && <option value={draft.ruleId}>a rule that was deleted</option>}
            {rules.data?.map((one) => <option key={one.id} value={one.id}>{shown(one.name)}{one.enabled ? "" : " (off)"}</option>)}
          </select>
          {rules.data?.length === 0 && <Note>No rule scores the traces of this project. <Link className="link" to="/trace-eval-rules" search={{ project: projectName, edit: "true" }}>Make one</Link></Note>}
          {rules.isError && <Note>The rules could not be read.</Note>}
        </label>
      ) : (
        <>
          {hasNoLargest(draft.metric) && (
            <Choice label="Statistic" value={draft.isShare ? "share" : "value"} onChange={(value) => change(withShare(draft, value === "share"))} options={[["value", draft.kind === "CHANGE" ? "typical value" : "mean"], ["share", "share of traces above a value"]]} />
          )}
          {hasNoLargest(draft.metric) && !draft.isShare && draft.kind === "CHANGE" && <Note>One extreme trace counts as no more than a high one.</Note>}
          {draft.isShare && text(`Traces above${bound}`, "over", { type: "number", min: 0, required: true })}
          <MoreFields label="Filter traces" isOpen={[draft.model, draft.rootName, draft.userId].some((one) => one !== "")}>
            <div className="fields">
              {text("Name of the root span", "rootName")}
              {text("Model", "model")}
              {text("User", "userId")}
              <Note>Each exactly as traces have it. Empty: all.</Note>
            </div>
          </MoreFields>
        </>
      )}
    </fieldset>
  );
}

function OfChange({ draft, change, text, projectName }: PartProps & { readonly projectName: string }) {
  const unit = unitOf(draft).label;
  return (
    <>
      <Choice label="Direction" value={draft.direction} onChange={(direction) => change({ direction: direction as AlertDraft["direction"] })} options={[["RISE", "increase"], ["DROP", "decrease"], ["BOTH", "increase or decrease"]]} />
      <Choice label="Baseline" value={draft.against} onChange={(against) => change({ against: against as AlertDraft["against"] })} options={[["count", "the next traces"], ["period", "the traces of a period"], ["value", "a fixed value"]]} />
      {draft.against === "count" && text("Traces in the baseline", "count", { type: "number", min: 30, max: 10_000, step: 1, required: true, note: "It is frozen after them. The more, the smaller the changes that are found." })}
      {draft.against === "period" && (
        <>
          <div className="two-fields">
            {text("From", "from", { type: "datetime-local", required: true })}
            {text("To", "to", { type: "datetime-local", required: true })}
          </div>
          <Note>In your zone; it may be in the past. With fewer than 30 traces, it goes on until there are 30.</Note>
        </>
      )}
      {draft.against === "value" && text(`Value${unit}`, "reference", { type: "number", required: true, ...spanOf(draft, "reference"), fault: faultOf(draft, "reference") })}
      {text(`Tolerance${unit}`, "tolerance", { type: "number", ...spanOf(draft, "tolerance"), note: "Smaller changes are never reported. 0: any change counts." })}
      {text("Weight among the project’s alerts", "importance", { type: "number", min: 0.01, max: 100, required: true })}
      <Note>
        All change alerts of a project share its false alarms in a year, by their weights. How many these are is one of
        its <Link className="link" to="/projects/$name/settings" params={{ name: projectName }}>settings</Link>.
      </Note>
    </>
  );
}

function OfThreshold({ draft, change, text }: PartProps) {
  const ofTraces = draft.windowOf === "traces";
  return (
    <>
      <Choice label="Direction" value={draft.direction} onChange={(direction) => change({ direction: direction as AlertDraft["direction"] })} options={[["RISE", "the mean is above the limit"], ["DROP", "the mean is below the limit"]]} />
      {text(`Limit${unitOf(draft).label}`, "limit", { type: "number", required: true, ...spanOf(draft, "limit"), fault: faultOf(draft, "limit") })}
      <div className="two-fields">
        <Choice label="Evaluation window" value={draft.windowOf} onChange={(value) => change({ windowOf: value === "minutes" ? "minutes" : "traces", window: value === "minutes" ? "60" : NEW_ALERT.window })} options={[["traces", "the last traces"], ["minutes", "the last minutes"]]} />
        {text(ofTraces ? "How many traces" : "How many minutes", "window", { type: "number", min: 1, max: ofTraces ? 1_000 : 10_080, step: 1, required: true })}
      </div>
      <Note>A mean moves by chance, and a limit close to it is crossed again and again. How often, the last 30 days tell below.</Note>
    </>
  );
}

/** Webhooks are those of the project: an alert has none of its own. */
function Told({ draft, change, alert, project, projectName }: PartProps & Pick<Props, "alert" | "project" | "projectName">) {
  const webhooks = useQuery(webhooksQuery(project));
  const session = useQuery(sessionQuery).data;
  const tenant = alert === undefined ? (session?.tenantId ?? null) : alert.tenantId;
  const called = webhooks.data === undefined ? undefined : calledBy(webhooks.data, tenant).length;
  const whose = tenant === null ? "the project" : "your tenant";
  return (
    <fieldset>
      <legend>Notifications</legend>
      <p className="label">
        {called === undefined ? `When it fires, all webhooks of ${whose} are called.` : called === 0 ? <span className="error">! Nobody is called: {whose} has no webhook that is enabled. The alert shows here and on the home page alone.</span> : `When it fires, ${called === 1 ? `the webhook of ${whose} is called` : `all ${plural(called, "webhook")} of ${whose} are called`}.`}{" "}
        <Link className="link" to="/projects/$name/alerts" params={{ name: projectName }}>Alert webhooks</Link>
      </p>
      <label className="pick"><input type="checkbox" checked={draft.enabled} onChange={({ target }) => change({ enabled: target.checked })} /><span>Watch<span className="label">What comes while an alert is paused does not count.</span></span></label>
    </fieldset>
  );
}

interface PreviewProps extends Pick<Props, "project" | "alert"> {
  readonly draft: AlertDraft;
  readonly body: Record<string, unknown> | null;
}

function AlertPreview({ project, alert, draft, body }: PreviewProps) {
  const [asked, setAsked] = useState<Record<string, unknown> | null>(null);
  // Another name makes no difference. An edit is tried in the place of what is stored, not beside it.
  const tried = { ...body, name: "try", ...(alert === undefined ? {} : { alertId: alert.id }) };
  const query = useQuery({ ...tryAlertQuery(project, asked ?? {}), enabled: asked !== null });
  const isCurrent = asked !== null && JSON.stringify(asked) === JSON.stringify(tried);
  const over = body?.["over"];
  const ask = ({ currentTarget: { form } }: MouseEvent<HTMLButtonElement>) => {
    if (form === null || !reportFaults(form, ["name"]) || body === null) return;
    if (isCurrent) void query.refetch();
    else setAsked(tried);
  };
  return (
    <section className="first" aria-label="Back-test">
      <div className="sec"><h2>Try it first</h2><span className="label">on what the {METRICS[draft.metric]} would have made it fire in the last 30 days; nothing is stored, nobody is told</span></div>
      <BackTesting
        query={query}
        isCurrent={isCurrent}
        label="Try it on the last 30 days"
        watched={{ kind: draft.kind, metric: draft.metric, over: typeof over === "number" ? over : null }}
        onAsk={ask}
      />
    </section>
  );
}
