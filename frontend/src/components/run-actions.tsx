/** What people change of a run: its name, notes and tags, and whether it is the baseline. */
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { describeRun, pinBaseline } from "../api/judging";
import type { Run } from "../api/queries";
import { mayWrite, sessionQuery } from "../api/session";
import { type Write, useWrite } from "../api/write";
import { useActions } from "../lib/actions";
import { cut, shown } from "../lib/format";
import { NotSaved } from "./notices";

export function RunActions({ run, onJudge }: { run: Run; onJudge: () => void }) {
  const session = useQuery(sessionQuery);
  const [isEditing, setIsEditing] = useState(false);
  const keys = () => [["run", run.id], ["runs", run.experimentId], ["baseline", run.experimentId]];
  const pin: Write<string | null, unknown> = useWrite<string | null, unknown>({
    what: "The baseline",
    send: pinBaseline(run.experimentId),
    keys,
    notice: (_, id) =>
      id === null
        ? { text: "No run is pinned; the latest that succeeded is the baseline", undo: () => pin.save(run.id) }
        : { text: "Runs are compared with this one from now on", undo: () => pin.save(null) },
  });
  const isAllowed = mayWrite(session.data);
  useActions(isAllowed ? [
    { label: "Edit name, notes and tags", run: () => setIsEditing(true) },
    ...(run.status === "SUCCESS" ? [{ label: run.isBaseline ? "Unpin as baseline" : "Pin as baseline", run: () => pin.save(run.isBaseline ? null : run.id) }] : []),
    { label: "Run LLM judge", run: onJudge },
  ] : []);
  if (!isAllowed) return null;
  return (
    <>
      <button type="button" className="btn" onClick={() => setIsEditing(!isEditing)} aria-expanded={isEditing}>Edit</button>
      {run.status === "SUCCESS" && (
        <button type="button" className="btn" disabled={pin.isSaving} onClick={() => pin.save(run.isBaseline ? null : run.id)}>
          {run.isBaseline ? "Unpin as baseline" : "Pin as baseline"}
        </button>
      )}
      <button type="button" className="btn" onClick={onJudge}>Run LLM judge</button>
      <NotSaved write={pin} />
      {isEditing && <DescriptionForm run={run} onClose={() => setIsEditing(false)} />}
    </>
  );
}

function DescriptionForm({ run, onClose }: { run: Run; onClose: () => void }) {
  const now = { name: run.name ?? "", notes: run.notes ?? "", tags: (run.tags ?? []).join(", ") };
  const [opened] = useState(now);
  const [typed, setTyped] = useState<Partial<typeof now>>({});
  const draft = { ...now, ...typed };
  const changed = (Object.keys(typed) as (keyof typeof now)[]).filter((field) => typed[field] !== now[field]);
  const overtaken = changed.filter((field) => now[field] !== opened[field]);
  const write = useWrite({
    what: "The description of the run",
    send: describeRun(run.id),
    keys: () => [["run", run.id], ["runs", run.experimentId]],
    onSaved: onClose,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    // Only what was changed here, so that what others change meanwhile stays.
    const tags = draft.tags.split(",").map((one) => one.trim()).filter(Boolean);
    write.save(Object.fromEntries(changed.map((field) => [field, field === "tags" ? tags : draft[field]])));
  };
  return (
    <form
      className="panel pad form"
      aria-label="Describe the run"
      onSubmit={submit}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <label>Name <input className="field" value={draft.name} autoFocus onChange={(event) => setTyped({ ...typed, name: event.target.value })} /></label>
      <label>Tags <input className="field" value={draft.tags} placeholder="separated by commas" onChange={(event) => setTyped({ ...typed, tags: event.target.value })} /></label>
      <label className="wide">Notes <textarea className="field" rows={3} value={draft.notes} onChange={(event) => setTyped({ ...typed, notes: event.target.value })} /></label>
      {overtaken.map((field) => (
        <p key={field} className="callout warn wide" role="status"><b>! Somebody else has changed the {field} meanwhile</b> to “{shown(cut(now[field], 200))}”. Saving replaces that with yours.</p>
      ))}
      <div className="actions wide">
        <button type="submit" className="btn main" disabled={write.isSaving}>Save description</button>
        <button type="button" className="btn bare" onClick={onClose}>Close<kbd>esc</kbd></button>
      </div>
      <NotSaved write={write} />
    </form>
  );
}
