/** What was said in a trace, as its messages. */
import { useQuery } from "@tanstack/react-query";
import { conversationQuery } from "../api/traces";
import { shown, textOf } from "../lib/format";
import { Failure, Loading, State, Text } from "./bits";
import { Formattable } from "./markdown";

export interface Said {
  readonly who: string;
  readonly text: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
}

/** Messages in the form of Chat Completions as what a page shows of them. */
export function readMessages(messages: readonly Record<string, unknown>[]): Said[] {
  return messages.map((message) => {
    const content = message["content"];
    const parts = Array.isArray(content)
      ? content.map((part: unknown) => {
          const text = typeof part === "object" && part !== null ? (part as Record<string, unknown>)["text"] : part;
          return typeof text === "string" ? text : textOf(part);
        }).join("\n")
      : textOf(content);
    const calls = Array.isArray(message["tool_calls"]) ? message["tool_calls"] : [];
    return {
      who: String(message["role"] ?? "?"),
      text: parts,
      calls: calls.map((call: unknown) => {
        const one = (call ?? {}) as Record<string, unknown>;
        const body = (one["function"] ?? one) as Record<string, unknown>;
        return { name: String(body["name"] ?? "?"), arguments: textOf(body["arguments"] ?? "") };
      }),
    };
  });
}

export function Talk({ trace }: { trace: string }) {
  const query = useQuery(conversationQuery(trace));
  if (query.isPending) return <Loading />;
  if (query.isLoadingError) return <Failure error={query.error} retry={() => void query.refetch()} />;
  const said = readMessages(query.data.messages);
  if (said.length === 0) {
    return <State title="No conversation was recorded"><p>Calls of models with their messages make one; the spans are in the waterfall.</p></State>;
  }
  return (
    <>
      <ol className="talk talk-page">
        {said.map((one, index) => (
          <li key={index}>
            <span className="label">{shown(one.who)}</span>
            <div>
              {one.calls.map((call, place) => <p key={place} className="call"><b>{shown(call.name)}</b> {shown(call.arguments)}</p>)}
              {(one.text !== "" || one.calls.length === 0) && <Formattable text={one.text}><Text>{one.text}</Text></Formattable>}
            </div>
          </li>
        ))}
      </ol>
      {query.data.error !== null && <p className="callout warn" dir="auto"><b>! It broke off.</b> {shown(query.data.error)}</p>}
    </>
  );
}
