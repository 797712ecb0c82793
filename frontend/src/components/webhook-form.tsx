/** A webhook: where it is called, whether what is sent is signed, and in which form it comes. */
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { withSaved } from "../api/online";
import { type Webhook, type WebhookBody, saveWebhook, webhooksQuery } from "../api/settings";
import { useWrite } from "../api/write";
import { useKeptForm } from "../lib/drafts";
import { NotSaved } from "./notices";
import { Field, KeptNote, isOvertaken, sayOvertaken } from "./settings-bits";

const FACTS = [
  "message", "projectName", "experimentId", "experimentName", "runId", "baselineRunId", "baselinePassRate", "candidatePassRate", "passRateDelta",
  "regressedCaseCount", "reason", "regressedEvaluators", "link", "type", "alertId", "alertName", "metric", "firedAt", "since",
] as const;
type Fact = (typeof FACTS)[number];
type Row = readonly [string, Fact];

interface Props {
  readonly project: string;
  readonly webhook: Webhook | null;
  readonly onClose: () => void;
  /** Goes on with a webhook that is saved, as something else was typed meanwhile. */
  readonly onStay: (id: string) => void;
}

export function WebhookForm({ project, webhook, onClose, onStay }: Props) {
  const queries = useQueryClient();
  const form = useKeptForm(`webhook:${project}:${webhook?.id ?? "new"}`, () => readTyped(webhook), webhook?.version ?? null);
  const { url, isOn, format, rows } = form.fields;
  const set = (next: Partial<Typed>) => form.set({ ...form.fields, ...next });
  const [secret, setSecret] = useState(""); // not kept while somebody is elsewhere
  const [isWithout, setIsWithout] = useState(false);
  const isSecretLost = form.fields.hasTypedSecret && secret === "" && form.isFromBefore;
  const save = useWrite({
    what: "The webhook",
    send: ({ version }: Sent) => saveWebhook(project, webhook?.id ?? null, readBody(), version),
    keys: () => [["webhooks", project]],
    notice: (answer) => ({ text: answer.enabled ? "The webhook is saved" : "The webhook is saved, and disabled" }),
    onSaved: (saved, { fields, secret: sentSecret }) => {
      queries.setQueryData(webhooksQuery(project).queryKey, (list) => withSaved(list, saved));
      const stored = { fields: readTyped(saved), opened: saved.version };
      // A secret that was typed meanwhile is not among the fields: it counts as one that differs.
      const sent = secret === sentSecret ? fields : { ...fields, hasTypedSecret: !form.fields.hasTypedSecret };
      form.finish({ sent, stored, key: `webhook:${project}:${saved.id}` }, (isLeft) => (isLeft ? onStay(saved.id) : onClose()));
    },
  });
  const readBody = (): Partial<WebhookBody> => {
    const fields = Object.fromEntries(rows.filter(([key]) => key.trim() !== "").map(([key, fact]) => [key.trim(), fact]));
    return {
      url: url.trim(),
      enabled: isOn,
      format,
      ...(secret.trim() === "" ? {} : { secret }),
      ...(format === "generic" ? { fields } : {}),
    };
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.save({ version: form.opened, fields: form.fields, secret });
  };
  const typeSecret = (next: string) => {
    setSecret(next);
    // Emptied by hand, none is wanted; emptied by leaving the page, it is asked for again.
    set({ hasTypedSecret: next !== "" });
  };
  const setRow = (index: number, row: Row) => set({ rows: rows.map((one, place) => (place === index ? row : one)) });
  return (
    <form className="panel pad set-form" aria-label={webhook === null ? "New webhook" : "Change webhook"} onSubmit={submit}>
      <h2>{webhook === null ? "New webhook" : "Change the webhook"}</h2>
      <KeptNote form={form} />
      <div className="set-fields">
        <Field label="URL" hint="A public address, unless the server allows others by name." isWide>
          {(id, hint) => <input id={id} className="field mono" type="url" required autoFocus maxLength={2_048} placeholder="https://hooks.example.com/dokimos" aria-describedby={hint} spellCheck={false} value={url} onChange={({ target }) => set({ url: target.value })} />}
        </Field>
        <Field label="Secret" hint={webhook?.hasSecret ? "One is set. Empty keeps it; it is never shown." : "Signs what is sent. Empty: it is not signed."}>
          {(id, hint) => <input id={id} className="field mono" type="password" autoComplete="off" aria-describedby={hint} required={isSecretLost && !isWithout} value={secret} onChange={({ target }) => typeSecret(target.value)} />}
        </Field>
        <Field label="Payload format" hint="What the receiver can read.">
          {(id, hint) => (
            <select id={id} className="field" aria-describedby={hint} value={format} onChange={({ target }) => set({ format: target.value as Webhook["format"] })}>
              <option value="dokimos">dokimos JSON</option>
              <option value="slack">Slack</option>
              <option value="generic">Custom JSON</option>
            </select>
          )}
        </Field>
      </div>
      {isSecretLost && (
        <div className="callout warn" role="alert">
          <p><b>! Give the secret again.</b> It is not kept while you are elsewhere.</p>
          <label className="pick"><input type="checkbox" checked={isWithout} onChange={({ target }) => setIsWithout(target.checked)} /><span>{webhook?.hasSecret ? "Keep the one that is stored" : "Save it without a secret: what is sent is not signed"}</span></label>
        </div>
      )}
      {format === "generic" && (
        <fieldset>
          <legend>Fields</legend>
          <p className="label">Each key of the JSON, and what it holds; “message” is a sentence with all of it.</p>
          {rows.map(([key, fact], index) => (
            <div key={index} className="bar field-row">
              <input className="field" aria-label={`Key ${index + 1}`} placeholder="content" required={index === 0} value={key} onChange={({ target }) => setRow(index, [target.value, fact])} />
              <select className="field" aria-label={`What key ${index + 1} holds`} value={fact} onChange={({ target }) => setRow(index, [key, target.value as Fact])}>
                {FACTS.map((one) => <option key={one} value={one}>{one}</option>)}
              </select>
              {rows.length > 1 && <button type="button" className="btn bare" aria-label={`Remove key ${index + 1}`} onClick={() => set({ rows: rows.filter((_, place) => place !== index) })}>✕</button>}
            </div>
          ))}
          <div><button type="button" className="btn" onClick={() => set({ rows: [...rows, ["", "message"]] })}>Add field</button></div>
        </fieldset>
      )}
      <label className="pick"><input type="checkbox" checked={isOn} onChange={({ target }) => set({ isOn: target.checked })} /><span>Enabled<span className="label">Alerts for a webhook that is disabled are given up.</span></span></label>
      <NotSaved write={sayOvertaken(save, "The webhook", () => save.save({ version: null, fields: form.fields, secret }))} again={isOvertaken(save) ? "Save mine over it" : "Save again"} submits={!isOvertaken(save)} />
      <div className="actions">
        <button type="submit" className="btn main" disabled={save.isSaving}>{save.isSaving ? "Saving…" : "Save webhook"}</button>
        <button type="button" className="btn bare" onClick={() => form.giveUp(onClose)}>Cancel</button>
      </div>
    </form>
  );
}

interface Sent {
  readonly version: string | null;
  readonly fields: Typed;
  readonly secret: string;
}

/** What is kept of the form while somebody goes elsewhere: all but the secret. */
interface Typed {
  readonly url: string;
  readonly isOn: boolean;
  readonly format: Webhook["format"];
  readonly rows: readonly Row[];
  /** Whether a secret was typed beside it. */
  readonly hasTypedSecret: boolean;
}

const readTyped = (webhook: Webhook | null): Typed => ({
  url: webhook?.url ?? "",
  isOn: webhook?.enabled ?? true,
  format: webhook?.format ?? "dokimos",
  rows: readFields(webhook),
  hasTypedSecret: false,
});

function readFields(webhook: Webhook | null): readonly Row[] {
  const own = Object.entries(webhook?.fields ?? {}) as [string, Fact][];
  return own.length === 0 ? [["text", "message"]] : own;
}
