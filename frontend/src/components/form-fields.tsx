/** Fields of the forms of rules and alerts: a label above, a note below. */
import { type ReactNode, useEffect, useId, useRef, useState } from "react";

export interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly type?: string;
  readonly name?: string;
  readonly min?: number;
  readonly max?: number;
  readonly step?: number;
  readonly required?: boolean;
  readonly note?: string;
  /** Why the value cannot be sent, which the browser then says; empty where it can. */
  readonly fault?: string;
}

export function TextField({ label, value, onChange, type = "text", name, required = false, note = "", fault = "", min, max, step }: FieldProps) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.setCustomValidity(fault), [fault]);
  return (
    <div>
      <label>
        {label}
        <input
          ref={input}
          className="field"
          type={type}
          data-field={name}
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

interface MoreFieldsProps {
  readonly label: string;
  /** Whether it is open to begin with; from then on, whoever uses it decides. */
  readonly isOpen: boolean;
  readonly children: ReactNode;
}

/** Fields that few need: they stay in sight while somebody empties the last one. */
export function MoreFields({ label, isOpen, children }: MoreFieldsProps) {
  const [isShown, setIsShown] = useState(isOpen);
  return (
    <details open={isShown} onToggle={({ currentTarget }) => setIsShown(currentTarget.open)}>
      <summary>{label}</summary>
      {children}
    </details>
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

/** Whether a form can be sent without some of its fields; else the browser says what the first fault is. */
export function reportFaults(form: HTMLFormElement, without: readonly string[]): boolean {
  for (const field of form.elements) {
    const hasFault = (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) && !without.includes(field.dataset["field"] ?? "") && !field.validity.valid;
    if (hasFault) return field.reportValidity();
  }
  return true;
}
