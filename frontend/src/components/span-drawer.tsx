/** One span whole: what went in and came out, what rules said, and everything that was sent of it. */
import { useQuery } from "@tanstack/react-query";
import { type EvalJob, type SpanDetails, spanQuery } from "../api/traces";
import { cost, count, duration, shown, textOf } from "../lib/format";
import { filterAttributes, isFailed, offsetOf, retrievedChunks } from "../lib/spans";
import { Failure, Loading, SearchField, Text } from "./bits";
import { Drawer } from "./drawer";
import { Judgement } from "./trace-bits";

interface Props {
  readonly trace: string;
  readonly spanId: string;
  readonly start: string | null;
  readonly onClose: () => void;
  readonly onMake: () => void;
  readonly onStep: (step: number) => void;
  /** By what the attributes are filtered; it stays from span to span. */
  readonly filter: string;
  readonly onFilter: (text: string) => void;
}

export function SpanDrawer({ trace, spanId, start, onClose, onMake, onStep, filter, onFilter }: Props) {
  const query = useQuery(spanQuery(trace, spanId));
  const span = query.data;
  return (
    <Drawer
      label="Span"
      onClose={onClose}
      onKey={(key) => {
        if (key !== "j" && key !== "k") return false;
        onStep(key === "j" ? 1 : -1);
        return true;
      }}
      head={
        <>
          {span !== undefined && isFailed(span) && <span className="sign fail">✗ failed</span>}
          <h2 className="cut">{span === undefined ? spanId : shown(span.name)}</h2>
        </>
      }
      foot={
        <div className="drawer-foot">
          <button type="button" className="btn" onClick={onMake}>Make dataset item of this span</button>
          <button type="button" className="btn" onClick={() => onStep(-1)}>Previous <kbd>k</kbd></button>
          <button type="button" className="btn" onClick={() => onStep(1)}>Next <kbd>j</kbd></button>
        </div>
      }
    >
      {query.isPending && <Loading />}
      {query.isLoadingError && <Failure error={query.error} retry={() => void query.refetch()} />}
      {span !== undefined && <SpanBody span={span} start={start} filter={filter} onFilter={onFilter} />}
    </Drawer>
  );
}

const TOOL = ["gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"] as const;

type BodyProps = Pick<Props, "start" | "filter" | "onFilter"> & { readonly span: SpanDetails };

function SpanBody({ span, start, filter, onFilter }: BodyProps) {
  const jobs = span.evalJobs as unknown as readonly EvalJob[];
  const chunks = retrievedChunks(span.attributes);
  const isTool = span.attributes[TOOL[0]] !== undefined;
  return (
    <>
      {(span.error !== null || span.statusMessage !== "") && (
        <>
          <h3>Error</h3>
          <Text>{span.error ?? span.statusMessage}</Text>
        </>
      )}
      {jobs.length > 0 && <h3>Online evaluators</h3>}
      {jobs.map((job) => <Judgement key={job.id} job={job} />)}
      {isTool && (
        <>
          <h3>Tool call</h3>
          <p><b>{shown(String(span.attributes[TOOL[0]]))}</b> <span className="mono muted">{shown(String(span.attributes[TOOL[1]] ?? ""))}</span></p>
          {span.attributes[TOOL[2]] !== undefined && <Text>{textOf(span.attributes[TOOL[2]])}</Text>}
          {span.attributes[TOOL[3]] !== undefined && <><h3>Result</h3><Text>{textOf(span.attributes[TOOL[3]])}</Text></>}
        </>
      )}
      {!isTool && span.inputText !== null && <><h3>Input</h3><Text>{span.inputText}</Text></>}
      {!isTool && span.outputText !== null && <><h3>Output</h3><Text>{span.outputText}</Text></>}
      {chunks.length > 0 && (
        <>
          <h3>Retrieved chunks</h3>
          <ol className="chunks">
            {chunks.map((chunk, index) => (
              <li key={index}>
                <span className="mono">{shown(chunk.id)}</span>{chunk.score !== null && <span className="muted"> · {chunk.score.toFixed(2)}</span>}
                {chunk.text !== "" && <Text>{chunk.text}</Text>}
              </li>
            ))}
          </ol>
        </>
      )}
      <h3>Facts</h3>
      <Pairs values={factsOf(span, start)} />
      <Attributes attributes={span.attributes} filter={filter} onFilter={onFilter} />
      {span.droppedAttributesCount > 0 && <p className="label">{count(span.droppedAttributesCount)} more were dropped before they were sent.</p>}
      {span.events.length > 0 && (
        <details open={isFailed(span)}>
          <summary>Events {count(span.events.length)}</summary>
          <Text>{JSON.stringify(span.events, null, 2)}</Text>
        </details>
      )}
      {span.links.length > 0 && (
        <details>
          <summary>Links {count(span.links.length)}</summary>
          <Text>{JSON.stringify(span.links, null, 2)}</Text>
        </details>
      )}
      <details>
        <summary>Resource and scope</summary>
        <Text>{JSON.stringify({ resource: span.resource, scope: span.scope, traceState: span.traceState, flags: span.flags }, null, 2)}</Text>
      </details>
    </>
  );
}

const FEW = 6;

function Attributes({ attributes, filter, onFilter }: Pick<Props, "filter" | "onFilter"> & Pick<SpanDetails, "attributes">) {
  const all = Object.keys(attributes).length;
  const found = filterAttributes(attributes, filter);
  return (
    <>
      <h3>Attributes <span role="status">{filter === "" ? count(all) : `${count(found.length)} of ${count(all)}`}</span></h3>
      {(all > FEW || filter !== "") && (
        <div className="bar spaced"><SearchField label="Search attributes" placeholder="Search in names and values" text={filter} onSearch={onFilter} /></div>
      )}
      {found.length === 0 && all > 0 ? <p className="muted">No attribute of this span has that.</p> : <Pairs values={found} />}
    </>
  );
}

function factsOf(span: SpanDetails, start: string | null): (readonly [string, unknown])[] {
  const offset = start === null ? null : offsetOf(span.startTimeUnixNanoText, BigInt(start));
  const nanos = span.startTimeUnixNanoText !== null && span.endTimeUnixNanoText !== null ? BigInt(span.endTimeUnixNanoText) - BigInt(span.startTimeUnixNanoText) : null;
  const facts: (readonly [string, unknown])[] = [
    ["start", span.startTimeUnixNanoText === null ? null : `${span.startTimeUnixNanoText} ns`],
    ["end", span.endTimeUnixNanoText === null ? null : `${span.endTimeUnixNanoText} ns`],
    ["duration", nanos === null ? null : `${nanos.toLocaleString("en-US")} ns (${duration(span.durationMs)})`],
    ["after the trace began", offset === null ? null : duration(offset)],
    ["first chunk after", span.firstChunkMs === null ? null : duration(span.firstChunkMs)],
    ["model", span.model],
    ["tokens", span.tokensIn === null && span.tokensOut === null ? null : `${count(span.tokensIn ?? 0)} in, ${count(span.tokensOut ?? 0)} out`],
    ["cost", span.tokensIn === null && span.tokensOut === null ? null : cost(span.costUsd)],
    ["role", span.role],
    ["kind", span.kind],
    ["status", span.statusCode ?? "unset"],
    ["span", span.spanId],
    ["parent", span.parentSpanId],
  ];
  return facts.filter(([, value]) => value !== null);
}

function Pairs({ values }: { values: readonly (readonly [string, unknown])[] }) {
  return (
    <dl className="kv">
      {values.map(([name, value]) => (
        <Pair key={name} name={name} value={value} />
      ))}
    </dl>
  );
}

const LONG = 4_000;

function Pair({ name, value }: { name: string; value: unknown }) {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return (
    <>
      <dt>{shown(name)}</dt>
      <dd dir="auto" tabIndex={text.length > 300 ? 0 : undefined}>{shown(text.slice(0, LONG))}{text.length > LONG && ` … ${count(text.length - LONG)} more characters`}</dd>
    </>
  );
}
