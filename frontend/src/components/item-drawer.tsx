/** One item whole: why it passed or failed, what was said, retrieved and called. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { type EvalResult, type Item, type Run, itemsQuery } from "../api/queries";
import { cost, count, duration, score, shown, textOf } from "../lib/format";
import { chunksOf, conversationOf, nameOf, outcomeOfResult, toolCallsOf } from "../lib/items";
import { compareWords } from "../lib/words";
import { Failure, Loading, Sign, State, Text } from "./bits";

interface Props {
  readonly run: Run;
  readonly place: string;
  readonly version: string;
  readonly onClose: () => void;
}

export function ItemDrawer({ run, place, version, onClose }: Props) {
  const [ordinal = "", repetition = "0"] = place.split(".");
  const query = useQuery(itemsQuery(run.id, [Number(ordinal) || 0], version));
  const item = query.data?.find((one) => one.repetition === Number(repetition));
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    box.current?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <aside
      className="drawer"
      ref={box}
      tabIndex={-1}
      aria-label="Item"
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <div className="drawer-head">
        {item !== undefined && <Sign outcome={outcomeOf(item)} />}
        <h2 className="cut">{item === undefined ? `#${ordinal}` : shown(nameOf(item))}</h2>
        <button type="button" className="btn bare" onClick={onClose}>Close <kbd>esc</kbd></button>
      </div>
      <div className="drawer-body">
        {query.isPending && <Loading />}
        {query.isError && <Failure error={query.error} retry={() => void query.refetch()} />}
        {query.isSuccess && item === undefined && (
          <State title="This item is not in the run"><p>It may have been replaced, or the address is cut off.</p></State>
        )}
        {item !== undefined && <ItemBody item={item} />}
      </div>
      {item !== undefined && <Foot item={item} />}
    </aside>
  );
}

function outcomeOf(item: Item) {
  if (item.error !== null) return "error";
  const verdicts = item.evalResults.filter((result) => result.success !== null);
  if (verdicts.length === 0) return "none";
  return verdicts.every((result) => result.success) ? "pass" : "fail";
}

function ItemBody({ item }: { item: Item }) {
  const messages = conversationOf(item);
  const calls = toolCallsOf(item);
  const chunks = chunksOf(item);
  return (
    <>
      {item.error !== null && (
        <>
          <h3>Error</h3>
          <Text>{item.error}</Text>
        </>
      )}
      <h3>Input</h3>
      <Text>{textOf(item.input)}</Text>
      <Answers item={item} />
      {messages.length > 0 && (
        <>
          <h3>Conversation</h3>
          <ul className="talk">
            {messages.map((message, index) => (
              <li key={index}><span className="label">{shown(message.who)}</span><Text>{message.text}</Text></li>
            ))}
          </ul>
        </>
      )}
      {calls.length > 0 && (
        <>
          <h3>Tool calls</h3>
          <ol className="chunks">
            {calls.map((call, index) => (
              <li key={index}>
                <b>{shown(call.name)}</b> <span className="mono">{shown(call.arguments)}</span>
                {call.result !== null && <Text>{call.result}</Text>}
              </li>
            ))}
          </ol>
        </>
      )}
      {chunks.length > 0 && (
        <>
          <h3>Retrieved</h3>
          <ol className="chunks">
            {chunks.map((chunk, index) => (
              <li key={index}>
                <span className={chunk.mark === "found" ? "pass" : chunk.mark === "missed" ? "fail" : "muted"}>
                  {chunk.mark === "found" ? "✓ found" : chunk.mark === "missed" ? "✗ missed" : "· other"}
                </span>{" "}
                <span className="mono">{shown(chunk.id)}</span>
                {chunk.text !== null && <Text>{chunk.text}</Text>}
              </li>
            ))}
          </ol>
        </>
      )}
      <h3>Evaluators</h3>
      <div>{item.evalResults.map((result) => <Judged key={result.id} result={result} />)}</div>
      {item.judgeErrors.map((one) => (
        <div className="judged" key={one.jobId + one.evaluatorName}>
          <div className="line"><Sign outcome="error" word={false} /><b>{shown(one.evaluatorName)}</b></div>
          <p>{shown(one.message)}</p>
        </div>
      ))}
      <h3>Facts</h3>
      <p className="facts">
        <span>{duration(item.latencyMs)}</span>
        <span>{cost(item.costUsd)}</span>
        {item.tokensIn !== null && <span>{count(item.tokensIn)} tokens in, {count(item.tokensOut ?? 0)} out</span>}
        <span>item {item.ordinal}, repetition {item.repetition}</span>
      </p>
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
  const got = textOf(item.actualOutput["output"] ?? item.actualOutput);
  const words = expected === "" ? null : compareWords(expected, got);
  if (words === null) {
    return (
      <>
        <h3>Got</h3>
        <Text>{got}</Text>
        {expected !== "" && <h3>Expected</h3>}
        {expected !== "" && <Text>{expected}</Text>}
      </>
    );
  }
  return (
    <>
      {([["Got", words[1], "got"], ["Expected", words[0], "want"]] as const).map(([title, pieces, mark]) => (
        <div key={title}>
          <h3>{title}</h3>
          <pre className="text" tabIndex={0} dir="auto">
            {pieces.map((piece, index) =>
              piece.differs ? <mark key={index} className={mark}>{shown(piece.text)}</mark> : shown(piece.text),
            )}
          </pre>
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

function Foot({ item }: { item: Item }) {
  const testCase = JSON.stringify({
    id: nameOf(item),
    inputs: item.input,
    ...(item.expectedOutput === null ? {} : { expectedOutputs: item.expectedOutput }),
  });
  return (
    <div className="drawer-foot">
      <CopyButton text={testCase}>Copy as test case</CopyButton>
      <CopyButton text={location.href}>Copy link</CopyButton>
    </div>
  );
}

function CopyButton({ text, children }: { text: string; children: string }) {
  const [said, setSaid] = useState("");
  return (
    <button
      type="button"
      className="btn"
      onClick={() => {
        navigator.clipboard.writeText(text).then(() => setSaid("Copied"), () => setSaid("The browser refused"));
      }}
    >
      {said || children}
    </button>
  );
}
