/** An item of a dataset, to be read and changed; what is changed is kept until a new version is made of it. */
import { Link } from "@tanstack/react-router";
import { type FormEvent, useEffect, useId, useRef, useState } from "react";
import type { DatasetItem } from "../api/datasets";
import { type PendingChange, type Values, nameOfItem } from "../lib/datasets";
import { shown } from "../lib/format";
import { fromEditable, toEditable } from "../lib/review";

interface Props {
  readonly id: string;
  /** Null for one that is new, or that is found by its change alone. */
  readonly item: DatasetItem | null;
  readonly pending: PendingChange | null;
  readonly onKeep: (change: PendingChange | null) => void;
  readonly onClose: () => void;
}

export function DatasetItemDrawer({ item, pending, onKeep, onClose }: Props) {
  const before: Omit<PendingChange, "op"> = pending ?? item ?? { inputs: { input: "" }, expectedOutputs: { output: "" }, metadata: null };
  const inputs = useValues(before.inputs, "input");
  const expected = useValues(before.expectedOutputs, "output");
  const metadata = useValues(before.metadata, null);
  const [faults, setFaults] = useState<readonly (string | null)[]>([null, null, null]);
  const box = useRef<HTMLFormElement>(null);
  useEffect(() => {
    const last = document.activeElement;
    box.current?.focus();
    return () => {
      if (last instanceof HTMLElement) last.focus();
    };
  }, []);
  const isNew = item === null && (pending === null || pending.op === "add");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const read = [inputs.read(), expected.read(), metadata.read()] as const;
    setFaults(read.map((one) => ("fault" in one ? one.fault : null)));
    const [first, second, third] = read;
    if ("fault" in first || "fault" in second || "fault" in third) return;
    if (first.value === null) setFaults(["An item needs inputs.", null, null]);
    else onKeep({ op: isNew ? "add" : "set", inputs: first.value, expectedOutputs: second.value, metadata: third.value });
  };
  return (
    <form
      className="drawer"
      ref={box}
      tabIndex={-1}
      aria-label="Dataset item"
      onSubmit={submit}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <div className="drawer-head">
        <h2 className="cut">{isNew ? "New item" : shown(item === null ? "Changed item" : nameOfItem(item))}</h2>
        <button type="button" className="btn bare" onClick={onClose}>Close <kbd>esc</kbd></button>
      </div>
      <div className="drawer-body">
        <Field label="Inputs" values={inputs} fault={faults[0] ?? null} />
        <Field label="Expected outputs" values={expected} fault={faults[1] ?? null} />
        <Field label="Metadata" values={metadata} fault={faults[2] ?? null} />
        {item?.source != null && item.source.runId !== null && (
          <p className="label">
            Promoted from <Link className="link" to="/runs/$runId" params={{ runId: item.source.runId }}>a run</Link>
          </p>
        )}
      </div>
      <div className="drawer-foot">
        <button type="submit" className="btn main">{isNew ? "Keep the new item" : "Keep the change"}</button>
        {pending !== null && <button type="button" className="btn" onClick={() => onKeep(null)}>Forget the change</button>}
        {!isNew && pending?.op !== "remove" && <button type="button" className="btn" onClick={() => onKeep({ ...before, op: "remove" })}>Remove the item</button>}
      </div>
    </form>
  );
}

interface EditedValues {
  readonly text: string;
  readonly isJson: boolean;
  readonly setText: (text: string) => void;
  readonly read: () => { readonly value: Values | null } | { readonly fault: string };
}

/** A map as the text of its only key, or as JSON; an empty text is not a map. */
function useValues(values: Values | null, onlyKey: string | null): EditedValues {
  const editable = values === null ? { text: "", key: onlyKey } : toEditable(values, {});
  const key = onlyKey === null ? null : editable.key;
  const [text, setText] = useState(onlyKey === null && values !== null ? JSON.stringify(values, null, 2) : editable.text);
  return { text, isJson: key === null, setText, read: () => (text === "" ? { value: null } : fromEditable(text, key)) };
}

function Field({ label, values, fault }: { label: string; values: EditedValues; fault: string | null }) {
  const id = useId();
  return (
    <>
      <h3><label htmlFor={id}>{label}{values.isJson && " (JSON)"}</label></h3>
      <textarea
        id={id}
        className="field area mono"
        dir="auto"
        rows={values.isJson ? 6 : 4}
        spellCheck={false}
        value={values.text}
        aria-invalid={fault !== null}
        aria-describedby={fault === null ? undefined : `${id}-fault`}
        onChange={(event) => values.setText(event.target.value)}
      />
      {fault !== null && <p id={`${id}-fault`} className="error" role="alert">! {shown(fault)}</p>}
    </>
  );
}
