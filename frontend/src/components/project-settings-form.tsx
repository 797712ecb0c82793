/** What holds for a project: each setting with its default, and what a shorter retention would remove. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { FormEvent } from "react";
import { type ProjectSettings, type SettingValues, projectSettingsQuery, saveProjectSettings } from "../api/settings";
import { useWrite } from "../api/write";
import { dropDraft, keepDraft, readDraft, useDraft } from "../lib/drafts";
import { plural, shown } from "../lib/format";
import { sayValue } from "../lib/settings";
import { NotSaved } from "./notices";
import { Field } from "./settings-bits";

type Name = keyof SettingValues;
interface Setting {
  readonly name: Name;
  readonly label: string;
  readonly hint: string;
  readonly low?: number;
  readonly high?: number;
  readonly step?: number;
}

const GROUPS: readonly (readonly [string, readonly Setting[]])[] = [
  ["Retention", [
    { name: "runRetentionDays", label: "Run retention, in days", hint: "After their end; −1 for ever.", low: -1, high: 36_500 },
    { name: "keepLatestRuns", label: "Latest runs to keep", hint: "Of each experiment, however old they are.", low: 0, high: 10_000, step: 1 },
    { name: "baselineBranches", label: "Baseline branches", hint: "Their latest run stays; separated by commas." },
    { name: "traceRetentionDays", label: "Trace retention, in days", hint: "After their last span; −1 for ever.", low: -1, high: 36_500 },
  ]],
  ["Alerts", [
    { name: "alertOn", label: "Webhooks are called when", hint: "When a run has ended." },
    { name: "traceFalseAlarmsPerYear", label: "False alarms per year", hint: "Of all change alerts on traces together.", low: 0.01, high: 365 },
  ]],
  ["Reviews", [
    { name: "blindReview", label: "Show others’ verdicts to reviewers", hint: "Blind reviews are independent, which agreement needs." },
    { name: "reviewOverlap", label: "Share reviewed by two people", hint: "From 0 to 1.", low: 0, high: 1 },
    { name: "reviewRandomShare", label: "Share drawn at random", hint: "From 0 to 1; corrected pass rates rest on it.", low: 0, high: 1 },
  ]],
];
const NAMES = GROUPS.flatMap(([, settings]) => settings.map((one) => one.name));
const CHOICES: { readonly [name in Name]?: readonly (readonly [string, string])[] } = {
  alertOn: [["gate", "the gate fails, for whatever reason"], ["passRate", "the pass rate fell significantly"]],
  blindReview: [["false", "at once"], ["true", "once they have reviewed"]],
};

type Typed = { readonly [name in Name]?: string };

/** A setting as it is typed; empty where the default holds. */
const toText = (value: unknown): string => (value == null ? "" : Array.isArray(value) ? value.join(", ") : String(value));

function toValue(name: Name, text: string): unknown {
  if (text.trim() === "") return null;
  if (name === "baselineBranches") return text.split(",").map((one) => one.trim()).filter((one) => one !== "");
  if (name === "blindReview") return text === "true";
  return name === "alertOn" ? text : Number(text);
}

export function ProjectSettingsForm({ settings, mayChange }: { settings: ProjectSettings; mayChange: boolean }) {
  const queries = useQueryClient();
  const stored = settings.settings;
  const key = `settings:${settings.projectName}`;
  const typed = useDraft<Typed>(key) ?? {};
  const keep = (next: Typed, isLeft: (name: Name, text: string) => boolean) => {
    const left = Object.entries(next).filter(([name, text]) => isLeft(name as Name, text));
    if (left.length === 0) dropDraft(key);
    else keepDraft<Typed>(key, Object.fromEntries(left));
  };
  const textOf = (name: Name) => typed[name] ?? toText(stored[name]);
  const changed = NAMES.filter((name) => typed[name] !== undefined && typed[name] !== toText(stored[name]));
  const save = useWrite({
    what: "The settings",
    send: (sent: Typed) =>
      // Only what was changed here, so that what others change meanwhile stays.
      saveProjectSettings(settings.projectName, Object.fromEntries(NAMES.flatMap((name) => (sent[name] === undefined ? [] : [[name, toValue(name, sent[name])]])))),
    keys: () => [["project-settings", settings.projectName]],
    notice: () => ({ text: "The settings are saved" }),
    // What was typed while it was being saved stays.
    onSaved: (saved, sent) => {
      queries.setQueryData(projectSettingsQuery(settings.projectName).queryKey, saved); // not the values of before until they are read again
      keep(readDraft<Typed>(key) ?? {}, (name, text) => text !== sent[name]);
    },
  });
  const preview = {
    ...(changed.includes("runRetentionDays") && textOf("runRetentionDays") !== "" ? { runRetentionDays: Number(textOf("runRetentionDays")) } : {}),
    ...(changed.includes("keepLatestRuns") && textOf("keepLatestRuns") !== "" ? { keepLatestRuns: Number(textOf("keepLatestRuns")) } : {}),
  };
  const expired = useQuery({ ...projectSettingsQuery(settings.projectName, preview), enabled: Object.keys(preview).length > 0 });
  const removed = Object.keys(preview).length > 0 ? expired.data?.expiredRunCount : settings.expiredRunCount;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.save(Object.fromEntries(changed.map((name) => [name, textOf(name)])));
  };
  return (
    <form className="set-form wide" aria-label="Settings" onSubmit={submit}>
      <fieldset disabled={!mayChange}>
        {GROUPS.map(([title, group]) => (
          <section key={title} className="panel pad">
            <h2>{title}</h2>
            <div className="set-fields spaced-top">
              {group.map((setting) => (
                <SettingField key={setting.name} setting={setting} settings={settings} text={textOf(setting.name)} onText={(text) => keep({ ...typed, [setting.name]: text }, (name, one) => one !== toText(stored[name]))} />
              ))}
            </div>
            {group[0]?.name === "runRetentionDays" && removed !== undefined && removed > 0 && (
              <p className="callout warn" role="status"><b>! {plural(removed, "run")}</b> {removed === 1 ? "is" : "are"} older than that and will be removed for good, with items and scores.</p>
            )}
          </section>
        ))}
      </fieldset>
      <NotSaved write={save} again="Save again" />
      {mayChange && (
        <div className="actions">
          <button type="submit" className="btn main" disabled={save.isSaving || changed.length === 0}>{save.isSaving ? "Saving…" : "Save settings"}</button>
          {changed.length > 0 && <button type="button" className="btn bare" onClick={() => dropDraft(key)}>Undo the changes</button>}
          <span className="label">{changed.length === 0 ? "Nothing is changed." : "Not saved yet; kept while this page is open."}</span>
        </div>
      )}
    </form>
  );
}

interface SettingProps {
  readonly setting: Setting;
  readonly settings: ProjectSettings;
  readonly text: string;
  readonly onText: (text: string) => void;
}

function SettingField({ setting, settings, text, onText }: SettingProps) {
  const { name, label, hint, low, high, step } = setting;
  const choices = CHOICES[name];
  const base = settings.defaults[name];
  const standard = choices?.find(([value]) => value === String(base))?.[1] ?? sayValue(base);
  return (
    <Field label={label} hint={`${hint} Default: ${shown(standard)}.`}>
      {(id, described) => choices !== undefined ? (
        <select id={id} className="field" aria-describedby={described} value={text} onChange={({ target }) => onText(target.value)}>
          <option value="">default</option>
          {choices.map(([value, word]) => <option key={value} value={value}>{word}</option>)}
        </select>
      ) : (
        <input
          id={id}
          className="field"
          type={name === "baselineBranches" ? "text" : "number"}
          min={low}
          max={high}
          step={step ?? "any"}
          placeholder={sayValue(base)}
          aria-describedby={described}
          value={text}
          onChange={({ target }) => onText(target.value)}
        />
      )}
    </Field>
  );
}
