/** Alert webhooks of a project: who is called when a run fails the gate, and what came of each call. */
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { withSaved } from "../api/online";
import { projectsQuery } from "../api/queries";
import { sessionQuery } from "../api/session";
import { type Delivery, type Webhook, deleteWebhook, deliveriesQuery, hasRole, saveWebhook, sendAgain, tryWebhook, webhooksQuery } from "../api/settings";
import { useWrite } from "../api/write";
import { Failure, Loading, State, Time } from "../components/bits";
import { BusyButton } from "../components/busy-button";
import { NotSaved } from "../components/notices";
import { Confirm, More, RoleNeeded } from "../components/settings-bits";
import { Crumbs } from "../components/shell";
import { WebhookForm } from "../components/webhook-form";
import { announce } from "../lib/announce";
import { dropDraft } from "../lib/drafts";
import { plural, shown } from "../lib/format";
import "../styles/settings.css";

const route = getRouteApi("/projects/$name/alerts");
const RECHECK_MS = 5_000;
const FORMATS: Record<Webhook["format"], string> = { dokimos: "dokimos JSON", slack: "Slack", generic: "custom JSON" };

export function WebhooksPage() {
  const { name } = route.useParams();
  const projects = useQuery(projectsQuery);
  const project = projects.data?.find((one) => one.name === name);
  return (
    <div className="set-page">
      <Crumbs title="Alert webhooks">
        <Link to="/projects/$name" params={{ name }}>{shown(name)}</Link><i>/</i>
      </Crumbs>
      {projects.isPending ? <Loading />
        : projects.isLoadingError ? <Failure error={projects.error} retry={() => void projects.refetch()} />
        : project === undefined ? <State title="This project is not here"><p>It may have been deleted, or belong to another tenant.</p></State>
        : <Webhooks project={project.id} name={name} />}
    </div>
  );
}

function Webhooks({ project, name }: { project: string; name: string }) {
  const { edit, log, status } = route.useSearch();
  const navigate = route.useNavigate();
  const session = useQuery(sessionQuery);
  const webhooks = useQuery(webhooksQuery(project));
  const mayChange = hasRole(session.data, "EDITOR", name);
  const show = (next: { edit?: string; log?: string; status?: string }) => void navigate({ search: next, resetScroll: false });
  const edited = webhooks.data?.find((one) => one.id === edit);
  const logged = webhooks.data?.find((one) => one.id === log);
  return (
    <>
      <div className="head">
        <div>
          <h1>Alert webhooks</h1>
          <p className="facts">
            <span>called when a run fails the gate, and when an alert on traces fires</span>
            {webhooks.data !== undefined && <span>{plural(webhooks.data.length, "webhook")}</span>}
          </p>
        </div>
        {mayChange && edit === undefined && webhooks.data !== undefined && (
          <div className="actions"><button type="button" className="btn main" onClick={() => show({ edit: "new" })}>Add webhook</button></div>
        )}
      </div>
      {!mayChange && <RoleNeeded session={session.data} role="editor" what="Adding, changing and calling webhooks" />}
      {mayChange && edit === "new" && <WebhookForm key={project} project={project} webhook={null} onClose={() => show({})} onStay={(id) => show({ edit: id })} />}
      {mayChange && edited !== undefined && <WebhookForm key={edited.id} project={project} webhook={edited} onClose={() => show({})} onStay={(id) => show({ edit: id })} />}
      {webhooks.isPending ? <Loading />
        : webhooks.isLoadingError ? <Failure error={webhooks.error} retry={() => void webhooks.refetch()} />
        : (
          <div className="panel spaced-top">
            {webhooks.data.length === 0 ? (
              <State title="Nobody is called">
                <p>Add an address of yours, of Slack, or of whatever your team reads: it is called as soon as a run of this project fails the gate, or an alert on its traces fires.</p>
              </State>
            ) : (
              <table role="table" className="stack-s">
                <thead role="rowgroup"><tr role="row"><th role="columnheader">URL</th><th role="columnheader">Status</th><th role="columnheader">Secret</th><th role="columnheader">Payload</th><th role="columnheader" className="num">Actions</th></tr></thead>
                <tbody role="rowgroup">
                  {webhooks.data.map((one) => (
                    <WebhookRow
                      key={one.id}
                      webhook={one}
                      mayChange={mayChange}
                      isShown={one.id === log}
                      onEdit={() => show({ edit: one.id })}
                      onLog={() => show(one.id === log ? {} : { log: one.id })}
                    />
                  ))}
                </tbody>
              </table>
            )}
          </div>
        )}
      {logged !== undefined && (
        <Deliveries
          webhook={logged}
          status={status ?? ""}
          mayChange={mayChange}
          onStatus={(next) => show({ log: logged.id, ...(next === "" ? {} : { status: next }) })}
        />
      )}
    </>
  );
}

interface RowProps {
  readonly webhook: Webhook;
  readonly mayChange: boolean;
  readonly isShown: boolean;
  readonly onEdit: () => void;
  readonly onLog: () => void;
}

function WebhookRow({ webhook, mayChange, isShown, onEdit, onLog }: RowProps) {
  const { id, projectId } = webhook;
  const queries = useQueryClient();
  const keys = () => [["webhooks", projectId], ["deliveries", projectId, id]];
  const [result, setResult] = useState<Delivery | null>(null);
  const test = useWrite({ what: "The result of the test", send: (_: null) => tryWebhook(projectId, id), keys, onSaved: (answer) => { setResult(answer); announce(`${webhook.url}: ${sayTest(answer)}`); }, onFailed: () => setResult(null) });
  const state = useWrite({
    what: "The state of the webhook",
    send: (enabled: boolean) => saveWebhook(projectId, id, { url: webhook.url, enabled }, webhook.version),
    keys,
    notice: (answer) => ({ text: answer.enabled ? "The webhook is called again" : "The webhook is not called any more" }),
    onSaved: (saved) => queries.setQueryData(webhooksQuery(projectId).queryKey, (list) => withSaved(list, saved)),
  });
  const removal = useWrite({
    what: "The removal of the webhook",
    send: (_: null) => deleteWebhook(projectId, id),
    keys: () => [["webhooks", projectId]], // its log is gone with it
    notice: () => ({ text: "The webhook is deleted" }),
    onSaved: () => {
      dropDraft(`webhook:${projectId}:${id}`);
      if (isShown) onLog();
    },
  });
  return (
    <>
      <tr role="row" className={isShown ? "on" : undefined}>
        <th scope="row" role="rowheader"><span className="address">{shown(webhook.url)}</span><span className="sub">since <Time value={webhook.createdAt} /></span></th>
        <td role="cell"><WebhookState webhook={webhook} /></td>
        <td role="cell">{webhook.hasSecret ? "signed with a secret" : "no secret"}</td>
        <td role="cell">{FORMATS[webhook.format]}</td>
        <td role="cell">
          <div className="row-actions">
            <button type="button" className="btn" aria-expanded={isShown} onClick={onLog}>Log</button>
            {mayChange && (
              <>
                <BusyButton isBusy={test.isSaving} busy="Sending…" onClick={() => test.save(null)}>Send test</BusyButton>
                <button type="button" className="btn" disabled={state.isSaving} onClick={() => state.save(!webhook.enabled)}>{webhook.enabled ? "Disable" : "Enable"}</button>
                <button type="button" className="btn" onClick={onEdit}>Edit</button>
                <Confirm label="Delete" action="Delete" question="Delete it with its log?" isBusy={removal.isSaving} onConfirm={() => removal.save(null)} />
              </>
            )}
          </div>
        </td>
      </tr>
      {(result !== null || [test, state, removal].some((write) => write.failure !== null)) && (
        <tr role="row">
          <td role="cell" colSpan={5}>
            {result !== null && (
              <div className={result.status === "DELIVERED" ? "callout info split" : "callout warn split"}>
                <span>
                  <b>{sayTest(result)}</b>{" "}
                  {result.lastStatusCode !== null && `The receiver answered ${result.lastStatusCode}. `}
                  {result.lastError !== null && shown(result.lastError)}
                </span>
                <button type="button" className="btn bare" onClick={() => setResult(null)}>Dismiss</button>
              </div>
            )}
            <NotSaved write={test} again="Test again" />
            <NotSaved write={state} />
            <NotSaved write={removal} again="Delete again" />
          </td>
        </tr>
      )}
    </>
  );
}

const sayTest = ({ status }: Delivery): string => (status === "DELIVERED" ? "✓ The test arrived." : "✗ The test did not arrive.");

function WebhookState({ webhook }: { webhook: Webhook }) {
  return (
    <>
      {!webhook.enabled ? <span className="sign none">– disabled</span>
        : webhook.problem !== null ? <span className="sign error">! nothing is sent</span>
        : webhook.failingSince !== null ? <span className="sign fail">✗ fails</span>
        : <span className="sign pass">✓ enabled</span>}
      {webhook.disabledReason !== null && <span className="sub">{shown(webhook.disabledReason)}</span>}
      {webhook.problem !== null && <span className="sub">{shown(webhook.problem)}</span>}
      {webhook.enabled && webhook.failingSince !== null && <span className="sub">since <Time value={webhook.failingSince} /></span>}
    </>
  );
}

const STATUSES = [["", "All"], ["PENDING", "Waiting"], ["DELIVERED", "Arrived"], ["DEAD", "Given up"]] as const;

interface DeliveriesProps {
  readonly webhook: Webhook;
  readonly status: string;
  readonly mayChange: boolean;
  readonly onStatus: (status: string) => void;
}

function Deliveries({ webhook, status, mayChange, onStatus }: DeliveriesProps) {
  const isWaiting = (pages: readonly (readonly Delivery[])[] | undefined) => pages?.[0]?.some((one) => one.status === "PENDING") ?? false;
  const deliveries = useInfiniteQuery({
    ...deliveriesQuery(webhook.projectId, webhook.id, status),
    refetchInterval: (query) => (isWaiting(query.state.data?.pages) ? RECHECK_MS : false),
  });
  const rows = deliveries.data?.pages.flat() ?? [];
  return (
    <section aria-label="Delivery log">
      <div className="sec"><h2>Delivery log</h2><span className="label address">to {shown(webhook.url)}, newest first</span></div>
      <div className="bar" role="group" aria-label="Filters">
        {STATUSES.map(([value, label]) => <button key={value} type="button" className="chip" aria-pressed={status === value} onClick={() => onStatus(value)}>{label}</button>)}
      </div>
      {deliveries.isPending ? <Loading />
        : deliveries.isLoadingError ? <Failure error={deliveries.error} retry={() => void deliveries.refetch()} />
        : (
          <div className="panel gap">
            {rows.length === 0 ? <State title={status === "" ? "Nothing was sent yet" : "Nothing of this kind was sent"}><p>The next run that fails the gate is. “Send test” tries it now.</p></State> : (
              <table role="table" className="stack-s">
                <thead role="rowgroup"><tr role="row"><th role="columnheader">Created</th><th role="columnheader">Status</th><th role="columnheader">Trigger</th><th role="columnheader" className="num">Attempts</th><th role="columnheader" className="num">Actions</th></tr></thead>
                <tbody role="rowgroup">{rows.map((one) => <DeliveryRow key={one.id} delivery={one} project={webhook.projectId} mayChange={mayChange} />)}</tbody>
              </table>
            )}
          </div>
        )}
      <div className="bar"><More query={deliveries} what="of the log" /></div>
    </section>
  );
}

function DeliveryRow({ delivery, project, mayChange }: { delivery: Delivery; project: string; mayChange: boolean }) {
  const again = useWrite({
    what: "The wish to send it again",
    send: (_: null) => sendAgain(project, delivery.webhookId, delivery.id),
    keys: () => [["deliveries", project, delivery.webhookId]],
    notice: () => ({ text: "It is sent again" }),
  });
  return (
    <>
      <tr role="row">
        <th scope="row" role="rowheader"><Time value={delivery.createdAt} /></th>
        <td role="cell"><Outcome delivery={delivery} /></td>
        <td role="cell">
          {delivery.runId !== null ? <Link className="link" to="/runs/$runId" params={{ runId: delivery.runId }}>a run</Link>
            : delivery.firingId !== null ? "an alert on traces" : "a test"}
        </td>
        <td role="cell" className="num">{plural(delivery.attempts, "attempt")}</td>
        <td role="cell">{mayChange && <div className="row-actions"><BusyButton isBusy={again.isSaving} onClick={() => again.save(null)}>Send again</BusyButton></div>}</td>
      </tr>
      {again.failure !== null && <tr role="row"><td role="cell" colSpan={5}><NotSaved write={again} /></td></tr>}
    </>
  );
}

function Outcome({ delivery: { status, lastStatusCode, lastError, nextAttemptAt, finishedAt } }: { delivery: Delivery }) {
  const answered = lastStatusCode === null ? "" : `, answered ${lastStatusCode}`;
  return (
    <>
      {status === "DELIVERED" ? <span className="sign pass">✓ arrived{answered}</span>
        : status === "DEAD" ? <span className="sign fail">✗ given up{answered}</span>
        : <span className="sign error">! waits{answered}</span>}
      {nextAttemptAt !== null && <span className="sub">next attempt <Time value={nextAttemptAt} /></span>}
      {finishedAt !== null && <span className="sub"><Time value={finishedAt} /></span>}
      {lastError !== null && status !== "DELIVERED" && <span className="sub">{shown(lastError)}</span>}
    </>
  );
}
