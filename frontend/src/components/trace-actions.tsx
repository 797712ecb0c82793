/** What a person does with a trace: send it to review, judge it, make an item of a dataset of it. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, change } from "../api/client";
import { datasetNamesQuery, reviewsQuery, spanQuery } from "../api/traces";
import { tellReview } from "../api/reviews";
import { useWrite } from "../api/write";
import { shown } from "../lib/format";
import { Failure, Loading } from "./bits";
import { NotSaved } from "./notices";

interface Queued {
  readonly items: readonly { readonly runId: string; readonly itemId: string; readonly isNew: boolean }[];
}

const queue = (traceId: string, spanId?: string) => change<Queued>("POST", "/review-queue/traces", { items: [{ traceId, ...(spanId === undefined ? {} : { spanId }) }] });

const VERDICTS = [["CORRECT", "✓ Correct", "pass"], ["INCORRECT", "✗ Incorrect", "fail"], ["UNSURE", "? Unsure", "none"]] as const;
type Verdict = (typeof VERDICTS)[number][0];

/** The verdict of a person on the trace, and the way into the review queue. */
export function TraceReview({ traceId }: { traceId: string }) {
  const reviews = useQuery(reviewsQuery(traceId));
  const keys = () => [["trace-reviews", traceId], ["review-queue"]];
  const send = useWrite<null, Queued>({
    what: "The place in the review queue",
    send: () => queue(traceId),
    keys,
    notice: (answer) => ({ text: answer.items[0]?.isNew === false ? "The trace is in the review queue already." : "The trace is in the review queue." }),
  });
  const judge = useWrite<Verdict, unknown>({
    what: "The verdict",
    send: async (verdict) => {
      const item = (await queue(traceId)).items[0];
      if (item === undefined) throw new Error("The server named no item for it.");
      const answer = await change("PUT", `/runs/${item.runId}/items/${item.itemId}/annotation`, { verdict });
      tellReview(item, verdict);
      return answer;
    },
    keys: () => [["trace-reviews", traceId], ["review-queue", "progress"], ["review-queue", "waiting"]],
    notice: (_answer, verdict) => ({ text: `Saved: ${verdict.toLowerCase()}.` }),
  });
  const whole = reviews.data?.content.find((one) => one.spanId === null);
  return (
    <section>
      <div className="sec"><h2>Human feedback</h2></div>
      <div className="bar" role="group" aria-label="Your verdict">
        {VERDICTS.map(([verdict, label, name]) => (
          <button key={verdict} type="button" className="chip" aria-pressed={whole?.verdict === verdict} disabled={judge.isSaving} onClick={() => judge.save(verdict)}>
            <span className={name}>{label}</span>
          </button>
        ))}
        {whole === undefined && (
          <button type="button" className="btn" disabled={send.isSaving} onClick={() => send.save(null)}>Queue for review</button>
        )}
        <span className="label">
          {whole === undefined ? "Nobody has reviewed this trace." : whole.verdict === null ? "It waits in the review queue." : ""}
        </span>
      </div>
      <NotSaved write={send} />
      <NotSaved write={judge} />
      {reviews.data?.content.filter((one) => one.note !== null).map((one) => (
        <p key={one.itemId} className="sentence" dir="auto">{shown(one.note ?? "")}</p>
      ))}
    </section>
  );
}

interface MakeProps {
  readonly traceId: string;
  readonly spanId: string | undefined;
  /** The answer of the trace, cut where it is long. */
  readonly answer: string | null;
  readonly onClose: () => void;
}

/** From this length on, texts of traces and of spans are cut: what is cut must not be saved as what is expected. */
const CUT_TRACE = 2_000;
const CUT_SPAN = 32_768;

export function MakeItem(props: MakeProps) {
  const span = useQuery({ ...spanQuery(props.traceId, props.spanId ?? ""), enabled: props.spanId !== undefined });
  if (props.spanId === undefined) return <MakeForm {...props} recorded={(props.answer?.length ?? 0) >= CUT_TRACE ? null : (props.answer ?? "")} />;
  if (span.isPending) return <Loading />;
  if (span.isLoadingError) return <Failure error={span.error} retry={() => void span.refetch()} />;
  const output = span.data.outputText ?? "";
  return <MakeForm {...props} recorded={output.length >= CUT_SPAN ? null : output} />;
}

interface Wish {
  readonly dataset: string;
  readonly expected: string;
}

/** `recorded`: the recorded answer; null where it is too long to be edited. */
function MakeForm({ traceId, spanId, recorded, onClose }: MakeProps & { readonly recorded: string | null }) {
  const datasets = useQuery(datasetNamesQuery);
  const [dataset, setDataset] = useState("from-production");
  // A trace may still grow: until somebody types, what is expected is what is recorded by now.
  const [typed, setTyped] = useState<string | null>(null);
  const expected = typed ?? recorded ?? "";
  const make = useWrite<Wish, { readonly version: number }>({
    what: "The dataset item",
    send: async (wish) => {
      const item = { traceId, ...(spanId === undefined ? {} : { spanId }), ...(wish.expected === (recorded ?? "") ? {} : { expectedOutputs: { output: wish.expected } }) };
      const path = `/datasets/${encodeURIComponent(wish.dataset)}/versions/from-traces`;
      if (!datasets.data?.some((one) => one.name === wish.dataset)) await createDataset(wish.dataset);
      return change<{ readonly version: number }>("POST", path, { items: [item] });
    },
    keys: () => [["dataset-names"], ["datasets"]],
    notice: (answer, wish) => ({ text: `Saved as version ${answer.version} of ${wish.dataset}.` }),
    onSaved: onClose,
  });
  return (
    <form
      className="panel pad make"
      aria-label="Make dataset item"
      onKeyDown={(event) => {
        if (event.key === "Escape" && !make.isSaving) onClose();
      }}
      onSubmit={(event) => {
        event.preventDefault();
        make.save({ dataset: dataset.trim(), expected });
      }}
    >
      <h2>Make dataset item {spanId !== undefined && <span className="mono muted">of span {shown(spanId)}</span>}</h2>
      <label>
        Dataset
        <input className="field" list="datasets" required autoFocus value={dataset} onChange={(event) => setDataset(event.target.value)} />
        <datalist id="datasets">{datasets.data?.map((one) => <option key={one.name} value={one.name} />)}</datalist>
        <span className="label">{datasets.data?.some((one) => one.name === dataset.trim()) ? "A new version of it is written." : "It is made new."}</span>
      </label>
      <label>
        Expected output
        <textarea className="field" dir="auto" value={expected} onChange={(event) => setTyped(event.target.value)} />
        <span className="label">{expected !== (recorded ?? "") ? "Differs from what was recorded."
          : recorded === null ? "The recorded answer is too long to be edited here; left empty, it is expected whole."
          : "This is what was recorded. Correct it where it was wrong."}</span>
      </label>
      <NotSaved write={make} />
      <div className="actions">
        <button type="submit" className="btn main" disabled={make.isSaving}>{make.isSaving ? "Saving …" : "Make dataset item"}</button>
        <button type="button" className="btn" onClick={onClose}>Cancel <kbd>esc</kbd></button>
      </div>
    </form>
  );
}

async function createDataset(name: string): Promise<void> {
  try {
    await change("POST", "/datasets", { name });
  } catch (error) {
    // Somebody else made it meanwhile: the version goes into it all the same.
    if (!(error instanceof ApiError && error.status === 409)) throw error;
  }
}
