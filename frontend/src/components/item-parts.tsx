/** What an item holds beside its input and output: what was said, called and retrieved on the way. */
import { type ItemContent, chunksOf, conversationOf, toolCallsOf } from "../lib/items";
import { shown } from "../lib/format";
import { Text } from "./bits";
import { Formattable } from "./markdown";

export function ItemParts({ item }: { item: ItemContent }) {
  const messages = conversationOf(item);
  const calls = toolCallsOf(item);
  const chunks = chunksOf(item);
  return (
    <>
      {messages.length > 0 && (
        <>
          <h3>Conversation</h3>
          <ul className="talk">
            {messages.map((message, index) => (
              <li key={index}><span className="label">{shown(message.who)}</span><Formattable text={message.text}><Text>{message.text}</Text></Formattable></li>
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
    </>
  );
}
