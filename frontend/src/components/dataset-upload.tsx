/** Uploading a file as a new version. */
import { type FormEvent, useState } from "react";
import { uploadVersion } from "../api/datasets";
import { useWrite } from "../api/write";
import { FILE_KINDS, readJsonFile, typeOfFile } from "../lib/datasets";
import { plural, shown } from "../lib/format";
import { NotSaved } from "./notices";

const JSON_TYPE = "application/json";

export function DatasetUpload({ name, onSaved }: { name: string; onSaved: () => void }) {
  const [file, setFile] = useState<File | null>(null);
  const [chosenType, setChosenType] = useState<string | null>(null);
  const [description, setDescription] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const upload = useWrite({
    what: "The file",
    send: uploadVersion,
    keys: () => [["datasets"], ["dataset", name]],
    notice: (made) => ({ text: `Version ${made.version} has ${plural(made.itemCount, "item")}` }),
    onSaved,
  });
  const type = chosenType ?? (file === null ? null : typeOfFile(file.name));
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (file === null || type === null) return setFault(file === null ? "Choose a file first." : "Say what kind of file it is.");
    let body: Blob = file;
    if (type === JSON_TYPE) {
      const read = readJsonFile(await file.text());
      if ("fault" in read) return setFault(read.fault);
      body = new Blob([read.body]);
    }
    setFault(null);
    upload.save({ name, file: body, type, description });
  };
  return (
    <form className="panel pad form" aria-label="Upload a version" onSubmit={(event) => void submit(event)}>
      <label>
        File
        <input
          className="field file"
          type="file"
          accept={FILE_KINDS.map((kind) => `.${kind.extension}`).join(",")}
          onChange={(event) => {
            setFile(event.target.files?.[0] ?? null);
            setFault(null);
            upload.reset();
          }}
        />
      </label>
      <label>
        Kind
        <select className="field" value={type ?? ""} onChange={(event) => setChosenType(event.target.value)}>
          <option value="" disabled>As its name says</option>
          {FILE_KINDS.map((kind) => <option key={kind.type} value={kind.type}>{kind.label}</option>)}
        </select>
      </label>
      <label>Description<input className="field" maxLength={10_000} value={description} onChange={(event) => setDescription(event.target.value)} /></label>
      <p className="label">Each row needs inputs: in a table a column inputs.question is the key question of them, and expectedOutputs.answer what is expected. A version appears when all rows are stored.</p>
      <div className="actions"><button type="submit" className="btn main" disabled={upload.isSaving}>{upload.isSaving ? "Uploading…" : "Upload"}</button></div>
      {fault !== null && <p className="error" role="alert">! {shown(fault)}</p>}
      <NotSaved write={upload} again="Upload again" />
    </form>
  );
}
