/** A connection to a model: what it is, with which key, and whether it answers as it is typed. */
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { withSaved } from "../api/online";
import { type Connection, type ConnectionTest, connectionQuery, connectionsQuery, saveConnection, tryConnection } from "../api/settings";
import { useWrite } from "../api/write";
import { announce } from "../lib/announce";
import { useKeptForm } from "../lib/drafts";
import { duration, plural, shown } from "../lib/format";
import { type ConnectionDraft, NUMBERS, NUMBER_NAMES, bodyOf, draftOf, hostOf, needsKeyAgain } from "../lib/settings";
import { BusyButton } from "./busy-button";
import { MoreFields } from "./form-fields";
import { NotSaved } from "./notices";
import { Field, KeptNote, isOvertaken, sayOvertaken, sayRefusal } from "./settings-bits";

const PROBLEMS: Readonly<Record<string, string>> = {
  ADDRESS_REFUSED: "the server sends nothing there",
  NAME_NOT_RESOLVED: "no host has this name",
  UNREACHABLE: "nobody listens there",
  TLS: "the certificate is not trusted",
  TIMEOUT: "no answer came in time",
  KEY_REFUSED: "the key was refused",
  NOT_FOUND: "the path or the model is not there",
  RATE_LIMITED: "too many requests, or no money left",
  WRONG_PROTOCOL: "the other protocol answers",
  REFUSED: "the request was refused",
  SERVER_ERROR: "the endpoint failed",
  REDIRECTED: "it redirects, which is not followed",
  NOT_JSON: "the answer is not JSON",
  NO_ANSWER: "the reply holds no answer",
  TOO_LARGE: "the reply is too large",
  KEY_LOST: "the stored key cannot be decrypted",
  REFERENCE_UNUSABLE: "the variable is not set, or not for this host",
  UNUSABLE: "what is stored makes no request",
};

/** What a test came to, in a sentence. */
export function sayTest(result: ConnectionTest): string {
  const cause = result.problem === null ? null : (PROBLEMS[result.problem] ?? result.problem);
  return result.ok ? "✓ The model answers." : `✗ The test failed${cause === null ? "" : `: ${cause}`}.`;
}

export function TestResult({ result, onClose }: { result: ConnectionTest; onClose?: () => void }) {
  const tokens = (result.tokensIn ?? 0) + (result.tokensOut ?? 0);
  return (
    <div className={result.ok ? "callout info split" : "callout warn split"}>
      <span>
        <b>{sayTest(result)}</b> {shown(result.message)}
        {result.latencyMs !== null && ` It took ${duration(result.latencyMs)}`}
        {result.latencyMs !== null && tokens > 0 && ` and ${plural(tokens, "token")}`}
        {result.latencyMs !== null && "."}
        {result.statusCode !== null && !result.ok && ` The endpoint answered ${result.statusCode}.`}
      </span>
      {onClose !== undefined && <button type="button" className="btn bare" onClick={onClose}>Dismiss</button>}
    </div>
  );
}

export function ConnectionForm({ connection, onClose, onStay }: { connection: Connection | null; onClose: () => void; onStay: (id: string) => void }) {
  const queries = useQueryClient();
  const form = useKeptForm(`connection:${connection?.id ?? "new"}`, () => draftOf(connection), connection?.version ?? null);
  const [apiKey, setApiKey] = useState(""); // a secret is not kept while somebody is elsewhere
  const draft: ConnectionDraft = { ...form.fields, apiKey };
  const [result, setResult] = useState<ConnectionTest | null>(null);
  const change = ({ apiKey: key, ...next }: Partial<ConnectionDraft>) => {
    if (key !== undefined) setApiKey(key);
    form.set({ ...form.fields, ...next });
    setResult(null);
  };
  const isKeyMissing = needsKeyAgain(connection, draft);
  const save = useWrite({
    what: "The connection",
    send: ({ version }: { readonly version: string | null; readonly fields: ConnectionDraft; readonly apiKey: string }) => saveConnection(connection?.id ?? null, bodyOf(draft), version),
    keys: () => [["llm-connections"]],
    notice: (answer) => ({ text: `${answer.name} is saved` }),
    onSaved: (saved, { fields, apiKey: sentKey }) => {
      queries.setQueryData(connectionQuery(saved.id).queryKey, saved);
      queries.setQueriesData<Connection[]>({ queryKey: connectionsQuery("").queryKey }, (list) => withSaved(list, saved));
      const stored = { fields: draftOf(saved), opened: saved.version };
      // A key that was typed meanwhile is not among the fields: it counts as one that differs.
      const sent: ConnectionDraft = apiKey === sentKey || fields.credential !== "key" ? fields : { ...fields, credential: "stored" };
      form.finish({ sent, stored, key: `connection:${saved.id}` }, (isLeft) => (isLeft ? onStay(saved.id) : onClose()));
    },
  });
  const test = useWrite({
    what: "The result of the test",
    send: (_: null) => tryConnection(connection?.id ?? null, bodyOf(draft)),
    onSaved: (answer) => {
      setResult(answer);
      announce(sayTest(answer));
    },
    onFailed: () => setResult(null),
  });
  const send = (version: string | null) => {
    if (!isKeyMissing) save.save({ version, fields: form.fields, apiKey });
  };
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    send(form.opened);
  };
  const tryDraft = (event: React.MouseEvent<HTMLButtonElement>) => {
    if (event.currentTarget.form?.reportValidity() && !isKeyMissing) test.save(null);
  };
  return (
    <form className="panel pad set-form" aria-label={connection === null ? "New connection" : "Change connection"} onSubmit={submit}>
      <h2>{connection === null ? "New connection" : `Change ${shown(connection.name)}`}</h2>
      <KeptNote form={form} />
      <div className="set-fields">
        <Field label="Name">
          {(id) => <input id={id} className="field" required autoFocus dir="auto" value={draft.name} onChange={({ target }) => change({ name: target.value })} />}
        </Field>
        <Field label="Model" hint="The model’s id at its provider.">
          {(id, hint) => <input id={id} className="field mono" required aria-describedby={hint} spellCheck={false} value={draft.model} onChange={({ target }) => change({ model: target.value })} />}
        </Field>
        <Field label="Base URL" hint="The root of the API, such as https://api.openai.com/v1." isWide>
          {(id, hint) => <input id={id} className="field mono" type="url" required maxLength={512} aria-describedby={hint} spellCheck={false} value={draft.baseUrl} onChange={({ target }) => change({ baseUrl: target.value })} />}
        </Field>
        <Field label="Protocol" hint="Most self-hosted servers and proxies speak Chat Completions.">
          {(id, hint) => (
            <select id={id} className="field" aria-describedby={hint} value={draft.protocol} onChange={({ target }) => change({ protocol: target.value as Connection["protocol"] })}>
              <option value="RESPONSES">Responses</option>
              <option value="CHAT_COMPLETIONS">Chat Completions</option>
            </select>
          )}
        </Field>
      </div>
      <CredentialFields connection={connection} draft={draft} isMissing={isKeyMissing} onChange={change} />
      <MoreFields label="Prices and limits" isOpen={NUMBER_NAMES.some((name) => draft.numbers[name] !== "")}>
        <div className="set-fields">
          {NUMBER_NAMES.map((name) => (
            <Field key={name} label={NUMBERS[name]}>
              {(id) => (
                <input id={id} className="field" type="number" min={0} step="any" value={draft.numbers[name]} onChange={({ target }) => change({ numbers: { ...draft.numbers, [name]: target.value } })} />
              )}
            </Field>
          ))}
        </div>
        <p className="label">Empty: not limited, and priced by the list of the server where that knows the model. A price needs both; budgets in dollars need a price.</p>
      </MoreFields>
      {result !== null && <TestResult result={result} />}
      <NotSaved write={sayRefusal(test, "The result of the test")} again="Test again" submits={false} />
      <NotSaved write={sayOvertaken(save, "The connection", () => send(null))} again={isOvertaken(save) ? "Save mine over it" : "Save again"} submits={!isOvertaken(save)} />
      <div className="actions">
        <button type="submit" className="btn main" disabled={save.isSaving || isKeyMissing}>{save.isSaving ? "Saving…" : "Save connection"}</button>
        <BusyButton isBusy={test.isSaving || isKeyMissing} busy={test.isSaving ? "Testing…" : "Test connection"} onClick={tryDraft}>Test connection</BusyButton>
        <button type="button" className="btn bare" onClick={() => form.giveUp(onClose)}>Cancel</button>
        {isKeyMissing && <span className="label">Give the key for {shown(hostOf(draft.baseUrl))} first.</span>}
      </div>
    </form>
  );
}

interface CredentialProps {
  readonly connection: Connection | null;
  readonly draft: ConnectionDraft;
  readonly isMissing: boolean;
  readonly onChange: (next: Partial<ConnectionDraft>) => void;
}

function CredentialFields({ connection, draft, isMissing, onChange }: CredentialProps) {
  const group = useId();
  const pick = (credential: ConnectionDraft["credential"], text: string, note: string) => (
    <label className="pick">
      <input type="radio" name={group} checked={draft.credential === credential} onChange={() => onChange({ credential })} />
      <span>{text}<span className="label">{note}</span></span>
    </label>
  );
  return (
    <fieldset>
      <legend>API key</legend>
      {connection !== null && pick("stored", "Keep the one that is stored", connection.credentialRef === null ? "It is not shown." : `The variable ${shown(connection.credentialRef)}.`)}
      {pick("key", connection === null ? "A key, kept on the server" : "Another key, kept on the server", "Encrypted; needs DOKIMOS_ENCRYPTION_KEY on the server.")}
      {draft.credential === "key" && (
        <input className="field mono" type="password" aria-label="API key of the model" autoComplete="off" required value={draft.apiKey} onChange={({ target }) => onChange({ apiKey: target.value })} />
      )}
      {pick("variable", "An environment variable of the server", "Read at each use; its name ends with _API_KEY or begins with DOKIMOS_CRED_.")}
      {draft.credential === "variable" && (
        <input className="field mono" aria-label="Environment variable" placeholder="OPENAI_API_KEY" required spellCheck={false} value={draft.variable} onChange={({ target }) => onChange({ variable: target.value })} />
      )}
      {isMissing && connection !== null && (
        <p className="callout warn" role="alert">
          <b>! Give the key again.</b> The stored one is for {shown(hostOf(connection.baseUrl))} and goes to no other host.
        </p>
      )}
    </fieldset>
  );
}
