/** One item whole: why it passed or failed, what was said, retrieved and called. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useRef } from "react";
import { type EvalResult, type Item, type Run, itemsQuery } from "../api/queries";
import { cost, count, duration, score, shown, textOf } from "../lib/format";
import { errorsOf, nameOf, outcomeOfResult, traceOf } from "../lib/items";
import type { Keys } from "../lib/keys";
import { compareWords } from "../lib/words";
import { Failure, Loading, Sign, State, Text } from "./bits";
import { Drawer } from "./drawer";
import { ItemParts } from "./item-parts";
import { Formattable } from "./markdown";
import { ItemFoot } from "./item-foot";

interface Props {
  readonly run: Run;
  readonly place: string;
  readonly version: string;
  readonly onClose: () => void;
  /** Opens the next or the previous item of the list, as it is filtered and sorted. */
  readonly onStep: (step: 1 | -1) => void;
}

export function ItemDrawer({ run, place, version, onClose, onStep }: Props) {
  const [ordinal = "", repetition = "0"] = place.split(".");
  const query = useQuery(itemsQuery(run.id, [Number(ordinal) || 0], version));
  const item = query.data?.find((one) => one.repetition === Number(repetition));
  const keys = useRef<Keys>({});
  return (
    <Drawer
      label="Item"
      onClose={onClose}
      onKey={(key) => {
        if (key === "j" || key === "k") onStep(key === "j" ? 1 : -1);
        else if (Object.hasOwn(keys.current, key)) keys.current[key]?.();
        else return false;
        return true;
      }}
      head={
        <>
          {item !== undefined && <Sign outcome={outcomeOf(item)} />}
          <h2 className="cut">{item === undefined ? `#${ordinal}` : shown(nameOf(item))}</h2>
          <button type="button" className="btn bare" aria-label="Previous item" onClick={() => onStep(-1)}>↑<kbd>k</kbd></button>
          <button type="button" className="btn bare" aria-label="Next item" onClick={() => onStep(1)}>↓<kbd>j</kbd></button>
        </>
      }
      // Another item is another form: what was not saved, and what can be undone, belongs to this one.
      foot={item !== undefined && <ItemFoot key={item.id} run={run} item={item} version={version} keys={keys} />}
    >
      {query.isPending && <Loading />}
      {query.isLoadingError && <Failure error={query.error} retry={() => void query.refetch()} />}
      {query.isSuccess && item === undefined && (
        <State title="This item is not in the run"><p>It may have been replaced, or the address is cut off.</p></State>
      )}
      {item !== undefined && <ItemBody run={run} item={item} />}
    </Drawer>
  );
}

function outcomeOf(item: Item) {
  if (item.error !== null) return "error";
  const verdicts = item.evalResults.filter((result) => result.success !== null);
  if (verdicts.length === 0) return "none";
  return verdicts.every((result) => result.success) ? "pass" : "fail";
}

function ItemBody({ run, item }: { run: Run; item: Item }) {
  const trace = traceOf(item);
  return (
    <>
      {errorsOf(item).map((one, index) => (
        <div key={index}>
          <h3>{one.evaluator === null ? "Error" : `Error of ${shown(one.evaluator)}`}</h3>
          <Text>{one.text}</Text>
          {one.traceback !== null && (
            <details>
              <summary>Traceback</summary>
              <Text>{one.traceback}</Text>
            </details>
          )}
        </div>
      ))}
      <h3>Input</h3>
      <Text>{textOf(item.input)}</Text>
      <Answers item={item} />
      <ItemParts item={item} />
      <h3>Evaluators</h3>
      <div>{item.evalResults.map((result) => <Judged key={result.id} result={result} />)}</div>
      <h3>Facts</h3>
      <p className="facts">
        <span>{duration(item.latencyMs)}</span>
        <span>{cost(item.costUsd)}</span>
        {item.tokensIn !== null && <span>{count(item.tokensIn)} tokens in, {count(item.tokensOut ?? 0)} out</span>}
        <span>item {item.ordinal}, repetition {item.repetition}</span>
        {trace !== null && (
          <span>
            <Link
              className="link"
              to="/traces/$traceId"
              params={{ traceId: trace.traceId }}
              search={{ ...(trace.spanId !== null && { span: trace.spanId }), run: run.id, item: `${item.ordinal}.${item.repetition}` }}
            >
              {trace.spanId === null ? "its trace" : "its span in the trace"}
            </Link>
          </span>
        )}
      </p>
      {item.annotation?.overriddenExpectedOutput != null && <><h3>Expected, as a reviewer corrected it</h3><Text>{textOf(item.annotation.overriddenExpectedOutput)}</Text></>}
      {item.annotation?.note != null && <><h3>Note of a reviewer</h3><Text>{item.annotation.note}</Text></>}
      <details>
        <summary>Everything as JSON</summary>
        <Text>{JSON.stringify(item, null, 2)}</Text>
      </details>
    </>
  );
}

/** What came beside what was expected, with the words that differ marked. */
function Answers({ item }: { item: Item }) {
  const expected = textOf(item.expectedOutput?.["output"] ?? item.expectedOutput);
  const cameNothing = Object.keys(item.actualOutput).length === 0;
  const got = cameNothing ? "" : textOf(item.actualOutput["output"] ?? item.actualOutput);
  const words = expected === "" || cameNothing ? null : compareWords(expected, got);
  if (words === null) {
    return (
      <>
        <h3>Got</h3>
        {cameNothing ? <p className="muted">nothing came</p> : <Formattable text={got}><Text>{got}</Text></Formattable>}
        {expected !== "" && <h3>Expected</h3>}
        {expected !== "" && <Formattable text={expected}><Text>{expected}</Text></Formattable>}
      </>
    );
  }
  return (
    <>
      {([["Got", got, words[1], "got"], ["Expected", expected, words[0], "want"]] as const).map(([title, text, pieces, mark]) => (
        <div key={title}>
          <h3>{title}</h3>
          <Formattable text={text}>
            <pre className="text" tabIndex={0} dir="auto">
              {pieces.map((piece, index) =>
                piece.differs ? <mark key={index} className={mark}>{shown(piece.text)}</mark> : shown(piece.text),
              )}
            </pre>
          </Formattable>
        </div>
      ))}
    </>
  );
}

function Judged({ result }: { result: EvalResult }) {
  const outcome = outcomeOfResult(result);
  return (
    <div className="judged">
      <div className="line">
        <Sign outcome={outcome} word={false} />
        <b>{shown(result.evaluatorName)}</b>
        {result.label !== null && <span className="tag">{shown(result.label)}</span>}
        <span className={outcome}>
          {score(result.score)}{result.threshold !== null && ` of ${score(result.threshold)}`}
        </span>
      </div>
      {result.reason !== null && <p dir="auto">{shown(result.reason)}</p>}
      {result.errorDetail !== null && <Text>{JSON.stringify(result.errorDetail, null, 2)}</Text>}
      {result.metadata !== null && (
        <details>
          <summary>Details</summary>
          <Text>{JSON.stringify(result.metadata, null, 2)}</Text>
        </details>
      )}
    </div>
  );
}
