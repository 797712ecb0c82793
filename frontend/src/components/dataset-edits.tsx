/** What is changed and not saved, and making a version of it. */
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { type Dataset, type Edit, datasetQuery, editVersion } from "../api/datasets";
import { useWrite } from "../api/write";
import { type Edits, type Pending, describePending, sayValues, toChanges } from "../lib/datasets";
import { cut, shown } from "../lib/format";
import { NotSaved } from "./notices";

interface Props {
  readonly dataset: Dataset;
  readonly base: number | null;
  readonly edits: Edits;
  readonly onOpen: (id: string) => void;
  readonly onChange: (edits: Edits) => void;
  readonly onSaved: () => void;
}

export function DatasetEdits({ dataset, base, edits, onOpen, onChange, onSaved }: Props) {
  const { pending, known } = edits;
  const clear = () => onChange({ pending: new Map(), known: null });
  const queries = useQueryClient();
  const [description, setDescription] = useState("");
  const edit = useWrite({
    what: "The new version",
    send: ({ sent, ...edit }: Omit<Edit, "changes"> & { readonly sent: Pending }) => editVersion({ ...edit, changes: toChanges(sent) }),
    keys: () => [["datasets"], ["dataset", dataset.name]],
    notice: (made) => ({ text: `Saved as version ${made.version}` }),
    onSaved: (made, { sent, description: said }) => {
      setDescription((now) => (now === said ? "" : now));
      // What was changed while it was being saved is kept.
      const left = new Map([...pending].filter(([id, one]) => sent.get(id) !== one));
      onChange({ pending: left, known: left.size === 0 ? null : made.version });
      onSaved();
    },
    onFailed: () => void queries.invalidateQueries({ queryKey: datasetQuery(dataset.name).queryKey }),
  });
  if (pending.size === 0) return null;
  const save = (version: number | null, latest: number | null) => edit.save({ name: dataset.name, version, latest, description, sent: pending });
  const isBehind = (dataset.latestVersion ?? 0) > (known ?? 0);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save(known === null ? null : base, known);
  };
  return (
    <form className="panel pad form edits" aria-label="Changes that are not saved" onSubmit={submit}>
      <p>
        <b>{describePending(pending)}, not saved.</b> Saving makes version {(dataset.latestVersion ?? 0) + 1}
        {base !== null && base !== dataset.latestVersion && ` out of version ${base}`}; the versions before stay as they are.
      </p>
      <ul className="reasons">
        {[...pending].map(([id, one]) => (
          <li key={id}>
            <span className={one.op === "add" ? "pass" : one.op === "remove" ? "fail" : ""}>{one.op === "add" ? "+ added" : one.op === "remove" ? "− removed" : "≠ changed"}</span>
            <button type="button" className="link plain-button" onClick={() => onOpen(id)}>{shown(cut(sayValues(one.inputs), 80)) || "(empty)"}</button>
          </li>
        ))}
      </ul>
      <div className="bar">
        <input
          className="field search"
          aria-label="Description of the version"
          placeholder="What changes, in a sentence"
          maxLength={10_000}
          value={description}
          onChange={(event) => setDescription(event.target.value)}
        />
        <button type="submit" className="btn main" disabled={edit.isSaving}>Save as a new version</button>
        <button type="button" className="btn" onClick={clear}>Forget the changes</button>
      </div>
      {isBehind ? (
        <div className="callout warn split" role="alert">
          <span>
            <b>! Version {dataset.latestVersion} came in the meantime.</b> Your changes are still here.{" "}
            {known !== null && (
              <Link className="link" to="/datasets/$name/diff" params={{ name: dataset.name }} search={{ from: known, to: dataset.latestVersion ?? known }}>See what it changed</Link>
            )}
          </span>
          <button
            type="button"
            className="btn"
            onClick={() => {
              onChange({ pending, known: dataset.latestVersion });
              save(dataset.latestVersion, dataset.latestVersion);
            }}
          >
            Save mine on top of it
          </button>
        </div>
      ) : (
        <NotSaved write={edit} />
      )}
    </form>
  );
}
