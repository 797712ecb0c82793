/** The fields in which somebody says what they think of an item, in the review queue and beside its run. */
import type { ComponentProps } from "react";
import { shown } from "../lib/format";
import type { Draft } from "../lib/review-drafts";
import { type Correctable, sayCorrectable } from "../lib/review";

interface Typing {
  readonly draft: Draft;
  readonly onDraft: (draft: Draft) => void;
}

type CorrectionProps = Typing & Pick<ComponentProps<"textarea">, "ref" | "onKeyDown"> & {
  readonly id: string;
  readonly correctable: Correctable;
  readonly fault: string | null;
};

/** The expected output as it should have been; nothing where nobody corrects it. */
export function CorrectionField({ draft, onDraft, correctable, fault, id, ...field }: CorrectionProps) {
  if (draft.expected === null) return null;
  return (
    <>
      <label htmlFor={id}>Expected output, corrected{shown(sayCorrectable(correctable))}</label>
      <textarea
        {...field}
        id={id}
        className="field area mono"
        dir="auto"
        rows={4}
        spellCheck={false}
        value={draft.expected}
        aria-invalid={fault !== null}
        onChange={(event) => onDraft({ ...draft, expected: event.target.value })}
      />
    </>
  );
}

export function CommentField({ draft, onDraft, ...field }: Typing & Pick<ComponentProps<"input">, "ref" | "onKeyDown" | "className">) {
  return (
    <input
      className="field"
      {...field}
      aria-label="Comment"
      placeholder="Comment"
      dir="auto"
      maxLength={10_000}
      value={draft.note}
      onChange={(event) => onDraft({ ...draft, note: event.target.value })}
    />
  );
}
