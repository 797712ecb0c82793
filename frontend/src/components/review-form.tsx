/** Where somebody says what they think of an item: verdict, labels, comment, correction. */
import { type Ref } from "react";
import type { Label, QueueItem } from "../api/reviews";
import { shown } from "../lib/format";
import type { Draft } from "../lib/review-drafts";
import { type Correctable, VERDICTS, type Verdict, hasMore } from "../lib/review";
import { CommentField, CorrectionField } from "./review-fields";

interface Props {
  readonly item: QueueItem;
  readonly draft: Draft;
  readonly correctable: Correctable;
  readonly verdict: Verdict | null;
  readonly labels: readonly Label[];
  readonly fault: string | null;
  readonly isPromoting: boolean;
  /** Whether who is signed in may review; the page says why not. */
  readonly isAllowed: boolean;
  readonly commentField: Ref<HTMLInputElement>;
  readonly expectedField: Ref<HTMLTextAreaElement>;
  readonly onDraft: (draft: Draft) => void;
  readonly onVerdict: (verdict: Verdict) => void;
  readonly onCorrect: () => void;
  readonly onCorrectWhole: () => void;
  readonly onPromote: () => void;
  /** The field is left, back to the keys; with what is typed saved if the item has a verdict already. */
  readonly onDone: () => void;
}

export function ReviewForm(props: Props) {
  const { correctable, draft, verdict, onDraft, onDone } = props;
  const leave = (event: React.KeyboardEvent<HTMLElement>) => {
    const isEnd = event.key === "Escape" || (event.key === "Enter" && (event.ctrlKey || event.metaKey || event.currentTarget.tagName === "INPUT"));
    if (!isEnd || event.nativeEvent.isComposing) return;
    event.preventDefault();
    event.currentTarget.blur();
    onDone();
  };
  return (
    <>
      <div className="votes" role="group" aria-label="Is the output correct?">
        {VERDICTS.map((one) => (
          <button
            key={one.verdict}
            type="button"
            className={`vote ${one.style}`}
            disabled={!props.isAllowed}
            aria-pressed={verdict === one.verdict}
            onClick={() => props.onVerdict(one.verdict)}
          >
            {one.sign} {one.word}<kbd>{one.key}</kbd>
          </button>
        ))}
      </div>
      {draft.expected !== null && (
        <div className="correction">
          <CorrectionField id="corrected-output" ref={props.expectedField} draft={draft} correctable={correctable} fault={props.fault} onDraft={onDraft} onKeyDown={leave} />
          <p className="label">
            <kbd>ctrl enter</kbd> or <kbd>esc</kbd> leaves the field; the next verdict sends it.{" "}
            <button type="button" className="link plain-button" onClick={() => onDraft({ ...draft, expected: null, isWhole: false })}>Leave it as it was</button>{" "}
            {hasMore(correctable) && <button type="button" className="link plain-button" onClick={props.onCorrectWhole}>Edit all of it as JSON</button>}
          </p>
          {props.fault !== null && <p className="error" role="alert">! {shown(props.fault)}</p>}
        </div>
      )}
      <Labels {...props} />
      <div className="bar">
        <CommentField ref={props.commentField} className="field search" draft={draft} onDraft={onDraft} onKeyDown={leave} />
        <button type="button" className="btn" onClick={props.onCorrect}>Correct expected<kbd>e</kbd></button>
        <button
          type="button"
          className={props.isPromoting ? "btn" : "btn main"}
          disabled={!props.isAllowed}
          aria-expanded={props.isPromoting}
          onClick={props.onPromote}
        >
          Promote<kbd>p</kbd>
        </button>
      </div>
    </>
  );
}

function Labels({ labels, draft, onDraft, onDone }: Props) {
  if (labels.length === 0) return null;
  const set = (name: string, value: unknown) => onDraft({ ...draft, labels: { ...draft.labels, [name]: value } });
  return (
    <fieldset className="labels">
      <legend className="label">Labels</legend>
      {labels.map((label) => {
        const value = draft.labels[label.name];
        const choices = label.kind === "choice" ? label.choices : label.kind === "verdict" ? VERDICTS.map((one) => one.verdict) : null;
        return (
          <label key={label.name}>
            <span>{shown(label.name)}{label.description !== null && <span className="sub" dir="auto">{shown(label.description)}</span>}</span>
            {choices === null ? (
              <input
                className="field"
                type={label.kind === "number" ? "number" : "text"}
                step="any"
                min={label.low ?? undefined}
                max={label.high ?? undefined}
                value={typeof value === "number" || typeof value === "string" ? value : ""}
                onChange={({ target }) => set(label.name, label.kind === "number" && target.value !== "" ? Number(target.value) : target.value)}
                onKeyDown={(event) => {
                  if (event.key !== "Enter" && event.key !== "Escape") return;
                  event.currentTarget.blur();
                  onDone();
                }}
              />
            ) : (
              <select className="field" value={typeof value === "string" ? value : ""} onChange={({ target }) => set(label.name, target.value)}>
                <option value="">–</option>
                {choices.map((choice) => <option key={choice} value={choice}>{shown(choice)}</option>)}
              </select>
            )}
          </label>
        );
      })}
    </fieldset>
  );
}
