/** What a project tells its reviewers, on the page of its settings. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { FormEvent } from "react";
import { type Instructions, instructionsQuery, saveInstructions } from "../api/reviews";
import { useWrite } from "../api/write";
import { dropDraft, keepDraft, readDraft, useDraft } from "../lib/drafts";
import { count, plural } from "../lib/format";
import { Failure, Loading, Text } from "./bits";
import { Formattable } from "./markdown";
import { NotSaved } from "./notices";
import { Field, isOvertaken, sayOvertaken } from "./settings-bits";

interface Props {
  readonly project: string;
  readonly mayChange: boolean;
}

export function InstructionsForm({ project, mayChange }: Props) {
  const query = useQuery(instructionsQuery(project));
  return (
    <section className="panel pad" id="instructions" aria-label="Instructions for reviewers">
      <h2>Instructions for reviewers</h2>
      {query.isPending ? <Loading />
        : query.isLoadingError ? <Failure error={query.error} retry={() => void query.refetch()} />
        : mayChange ? <Editor key={project} stored={query.data} />
        : query.data.text === "" ? <p className="label">There are none.</p>
        : <Formattable text={query.data.text}><Text>{query.data.text}</Text></Formattable>}
    </section>
  );
}

/** What is typed, kept as long as the page is open, and the version of the text that it was typed over; the page may read a later one meanwhile. */
interface Typed {
  readonly text: string;
  readonly over: string;
}

function Editor({ stored }: { stored: Instructions }) {
  const queries = useQueryClient();
  const key = `instructions:${stored.projectName}`;
  const typed = useDraft<Typed>(key);
  const text = typed?.text ?? stored.text;
  const length = [...text].length; // as the server counts
  const excess = length - stored.maxCharacters;
  const isChanged = text !== stored.text;
  const write = useWrite<{ readonly text: string; readonly version: string | null }, Instructions>({
    what: "The text for reviewers",
    send: (sent) => saveInstructions(stored.projectName, sent.text, sent.version),
    keys: () => [["review-instructions", stored.projectName]],
    notice: (saved) => ({ text: saved.text === "" ? "The project has no instructions for reviewers any more" : "The instructions for reviewers are saved" }),
    // What was typed while it was being saved stays, over what is saved now.
    onSaved: (saved, sent) => {
      queries.setQueryData(instructionsQuery(stored.projectName).queryKey, saved); // not the text of before until it is read again
      const now = readDraft<Typed>(key);
      if (now === undefined || now.text === sent.text) dropDraft(key);
      else keepDraft<Typed>(key, { text: now.text, over: saved.version });
    },
  });
  const isBeaten = isOvertaken(write);
  const type = (next: string) => {
    if (next === stored.text) dropDraft(key);
    else keepDraft<Typed>(key, { text: next, over: typed?.over ?? stored.version });
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    write.save({ text, version: typed?.over ?? stored.version });
  };
  return (
    <form className="set-form wide" aria-label="Instructions for reviewers" onSubmit={submit}>
      <Field label="Text" isWide hint={excess > 0 ? <span className="fail">{plural(excess, "character")} too many: {count(stored.maxCharacters)} are allowed.</span> : `What makes an answer correct here, and what to do in doubt. Markdown; shown above each item of the review queue. ${count(length)} of ${count(stored.maxCharacters)} characters.`}>
        {(id, described) => (
          <textarea
            id={id}
            className="field"
            rows={8}
            dir="auto"
            aria-describedby={described}
            aria-invalid={excess > 0}
            value={text}
            onChange={({ target }) => type(target.value)}
          />
        )}
      </Field>
      <Formattable text={text}>{null}</Formattable>
      <NotSaved
        write={sayOvertaken(write, "The text for reviewers", () => write.save({ text, version: null }))}
        again={isBeaten ? "Save mine over it" : "Save again"}
        submits={!isBeaten}
      />
      {isBeaten && isChanged && (
        <details>
          <summary>What they have saved</summary>
          <Text>{stored.text}</Text>
        </details>
      )}
      <div className="actions">
        <button type="submit" className="btn main" disabled={write.isSaving || !isChanged || excess > 0}>{write.isSaving ? "Saving…" : "Save instructions"}</button>
        {isChanged && <button type="button" className="btn bare" onClick={() => { dropDraft(key); write.reset(); }}>Undo the changes</button>}
        {isChanged && <span className="label">Not saved yet; kept while this page is open.</span>}
      </div>
    </form>
  );
}
