/** Fields of the forms of rules and alerts: a label above, a note below. */
import { type ReactNode, useId } from "react";

export interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly type?: string;
  readonly min?: number;
  readonly max?: number;
  readonly step?: number;
  readonly required?: boolean;
  readonly note?: string;
}

export function TextField({ label, value, onChange, type = "text", required = false, note = "", min, max, step }: FieldProps) {
  const id = useId();
  return (
    <div>
      <label>
        {label}
        <input
          className="field"
          type={type}
          value={value}
          required={required}
          aria-describedby={note === "" ? undefined : id}
          {...(type === "number" ? { step: step ?? "any", min, max } : {})}
          onChange={(event) => onChange(event.target.value)}
        />
      </label>
      {note !== "" && <Note id={id}>{note}</Note>}
    </div>
  );
}

export function Note({ id, children }: { id?: string; children: ReactNode }) {
  return <span className="label" {...(id === undefined ? {} : { id })}>{children}</span>;
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [string, string])[];
  readonly onChange: (value: string) => void;
}

export function Choice({ label, value, options, onChange }: ChoiceProps) {
  return (
    <label>
      {label}
      <select className="field" aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
        {options.map(([one, text]) => <option key={one} value={one}>{text}</option>)}
      </select>
    </label>
  );
}
