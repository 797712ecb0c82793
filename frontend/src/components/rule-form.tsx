/** Makes a rule or changes one; says before it is saved what it matches and costs. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type Rule, bodyOf, connectionsQuery, replaceRule, rulesQuery, withSaved } from "../api/online";
import { change } from "../api/client";
import { useWrite } from "../api/write";
import { useKeptForm } from "../lib/drafts";
import { shown } from "../lib/format";
import { NEW_RULE, type RuleDraft, readDraft, writeDraft } from "../lib/rules";
import { Choice, type FieldProps, Note, TextField } from "./form-fields";
import { NotSaved } from "./notices";
import { RulePreview } from "./rule-preview";
import { KeptNote, isOvertaken, sayOvertaken } from "./settings-bits";

interface Props {
  readonly project: string;
  readonly rule: Rule | undefined;
  /** Whether something was typed meanwhile, which is not saved. */
  readonly onSaved: (rule: string, isLeft: boolean) => void;
  readonly onCancel: () => void;
}

type Field = Exclude<keyof RuleDraft, "kind">;

export function RuleForm({ project, rule, onSaved, onCancel }: Props) {
  const before = rule === undefined ? undefined : bodyOf(rule);
  const queries = useQueryClient();
  const form = useKeptForm<RuleDraft>(draftKey(project, rule?.id), () => (before === undefined ? NEW_RULE : readDraft(before)), rule?.version ?? null);
  const { fields: draft, opened, set: setDraft } = form;
  const body = readBody(draft, before);
  const write = useWrite<{ readonly value: Record<string, unknown>; readonly version: string | null; readonly fields: RuleDraft }, Rule>({
    what: "The rule",
    send: ({ value, version }) => (rule === undefined ? change<Rule>("POST", `/projects/${project}/trace-eval-rules`, value) : replaceRule(rule, value, version)),
    keys: () => [["trace-eval-rules", project]],
    notice: (saved) => ({ text: `The rule ${saved.name} is saved.` }),
    onSaved: (saved, sent) => {
      queries.setQueryData(rulesQuery(project).queryKey, (list) => withSaved(list, saved));
      const stored = { fields: readDraft(bodyOf(saved)), opened: saved.version };
      form.finish({ sent: sent.fields, stored, key: draftKey(project, saved.id) }, (isLeft) => onSaved(saved.id, isLeft));
    },
  });
  const save = (version: string | null) => {
    if (body !== null) write.save({ value: body, version, fields: draft });
  };
  const set = (name: Field) => (value: string) => setDraft({ ...draft, [name]: value });
  const text = (label: string, name: Field, more: Partial<FieldProps> = {}) => <TextField label={label} value={draft[name]} onChange={set(name)} {...more} />;
  return (
    <>
      <div className="head"><div><h1>{rule === undefined ? "New rule" : `Edit ${shown(rule.name)}`}</h1></div></div>
      <form
        className="rule-form"
        onSubmit={(event) => {
          event.preventDefault();
          save(opened);
        }}
      >
        <KeptNote form={form} />
        <fieldset>
          <legend>Which spans it scores</legend>
          {text("Name of the rule", "name", { required: true })}
          <Choice label="Match spans by" value={draft.matchType} onChange={set("matchType")} options={[["SPAN_NAME", "span name"], ["ATTRIBUTE", "attribute"], ["WILDCARD", "wildcard, with * and ?"], ["PATTERN", "regular expression"]]} />
          {draft.matchType !== "SPAN_NAME" && text("Attribute", "matchKey", { required: draft.matchType === "ATTRIBUTE", note: draft.matchType === "ATTRIBUTE" ? "" : "Empty: the span name." })}
          {text("Value", "matchValue", { required: true })}
          <Choice label="What is scored" value={draft.scope} onChange={set("scope")} options={[["span", "the span itself"], ["parent", "its parent span"], ["trace", "the whole trace"], ["session", "the session up to it"]]} />
          {text("Sampling rate, in percent", "share", { type: "number", min: 0, max: 100, required: true })}
          {text("Daily budget, in US dollars", "maxCostUsd", { type: "number", min: 0, note: "Empty: only the budgets of the project and the server." })}
        </fieldset>
        <fieldset>
          <legend>How it scores</legend>
          <Choice label="Evaluator" value={draft.kind} onChange={(kind) => setDraft({ ...draft, kind: kind === "judge" ? "judge" : "evaluator" })} options={[["judge", "LLM judge, by criteria"], ["evaluator", "built-in evaluator"]]} />
          <Connections value={draft.connectionId} required={draft.kind === "judge"} onChange={set("connectionId")} />
          {draft.kind === "judge" ? (
            <>
              <label>Criteria<textarea className="field" required dir="auto" value={draft.criteria} onChange={(event) => set("criteria")(event.target.value)} /></label>
              <div className="three-fields">
                {text("Minimum score", "minScore", { type: "number", required: true })}
                {text("Maximum score", "maxScore", { type: "number", required: true })}
                {text("Pass threshold", "threshold", { type: "number" })}
              </div>
            </>
          ) : (
            <>
              {text("Evaluator type", "type", { required: true })}
              {text("Parameters, as JSON", "params", { note: body === null ? "This is not JSON yet." : "" })}
            </>
          )}
          {text("Score name", "evaluatorName", { note: "Empty: the name of the rule." })}
        </fieldset>
        <fieldset className="wide">
          <legend>Human review</legend>
          <div className="three-fields">
            {text("Failed scores queued for review, in percent", "reviewFailed", { type: "number", min: 0, max: 100, required: true })}
            {text("Other scores queued, in percent", "reviewOther", { type: "number", min: 0, max: 100, required: true })}
            {text("Review items per day, at most", "reviewMost", { type: "number", min: 1, max: 1000, required: true })}
          </div>
          <Note>Reviewing a few scores that did not fail shows how often the rule misses a failure.</Note>
        </fieldset>
        <div className="wide">
          {body !== null && <RulePreview project={project} body={body} />}
          <NotSaved
            write={sayOvertaken(write, "The rule", () => save(null))}
            again={isOvertaken(write) ? "Save mine over it" : "Save again"}
            submits={!isOvertaken(write)}
          />
          <div className="actions spaced">
            <button type="submit" className="btn main" disabled={write.isSaving || body === null}>{write.isSaving ? "Saving …" : rule === undefined ? "Make the rule" : "Save the rule"}</button>
            <button type="button" className="btn" onClick={() => form.giveUp(onCancel)}>Cancel</button>
          </div>
        </div>
      </form>
    </>
  );
}

const draftKey = (project: string, rule: string | undefined): string => `rule:${project}:${rule ?? "new"}`;

function readBody(draft: RuleDraft, before: Record<string, unknown> | undefined): Record<string, unknown> | null {
  try {
    return writeDraft(draft, before);
  } catch {
    return null;
  }
}

function Connections({ value, required, onChange }: { value: string; required: boolean; onChange: (value: string) => void }) {
  const connections = useQuery(connectionsQuery);
  return (
    <label>
      Model
      <select className="field" value={value} required={required} onChange={(event) => onChange(event.target.value)}>
        <option value="">{required ? "Choose a connection" : "None"}</option>
        {connections.data?.map((one) => <option key={one.id} value={one.id}>{shown(`${one.name} (${one.model})`)}</option>)}
      </select>
      {connections.data?.length === 0 && <Note>No model is connected to this server yet. <Link className="link" to="/llm-connections">Connect one</Link></Note>}
      {connections.isError && <Note>The connections could not be read.</Note>}
    </label>
  );
}
