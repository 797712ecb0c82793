/** Markdown of models and people: as it was written, until somebody asks to have it formatted. */
import { type ReactNode, useMemo, useState } from "react";
import { shown } from "../lib/format";
import { type Block, type Inline, isMarkdown, parseMarkdown } from "../lib/markdown";
import "../styles/markdown.css";

interface Props {
  readonly text: string;
  /** The text as it was written, such as with marks in it. */
  readonly children: ReactNode;
}

/** What shows a text, with a button that formats it where it has Markdown. */
export function Formattable({ text, children }: Props) {
  const [isFormatted, setIsFormatted] = useState(false);
  const canBe = useMemo(() => isMarkdown(text), [text]);
  if (!canBe) return children;
  return (
    <div className="formattable">
      {isFormatted ? <Prose text={text} /> : children}
      <button type="button" className="plain-button" onClick={() => setIsFormatted(!isFormatted)}>{isFormatted ? "Show as written" : "Show formatted"}</button>
    </div>
  );
}

function Prose({ text }: { text: string }) {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return <div className="text prose" tabIndex={0} dir="auto"><Blocks blocks={blocks} /></div>;
}

function Blocks({ blocks }: { blocks: readonly Block[] }) {
  return blocks.map((block, index) => <OneBlock key={index} block={block} />);
}

function OneBlock({ block }: { block: Block }) {
  switch (block.kind) {
    case "heading":
      // Not a heading of the page, whose outline is not for its texts to change.
      return <p className="heading"><Lines lines={block.lines} /></p>;
    case "paragraph":
      return <p><Lines lines={block.lines} /></p>;
    case "quote":
      return <blockquote><Blocks blocks={block.blocks} /></blockquote>;
    case "code":
      return <pre>{shown(block.text)}</pre>;
    case "rule":
      return <hr />;
    case "list": {
      const items = block.items.map((item, index) => <li key={index} className={item.depth > 0 ? `deeper-${item.depth}` : undefined}><Parts parts={item.parts} /></li>);
      return block.start === null ? <ul>{items}</ul> : <ol start={block.start}>{items}</ol>;
    }
    case "table":
      return (
        <table>
          <thead><tr>{block.head.map((cell, index) => <th key={index}><Parts parts={cell} /></th>)}</tr></thead>
          <tbody>{block.rows.map((row, place) => <tr key={place}>{row.map((cell, index) => <td key={index}><Parts parts={cell} /></td>)}</tr>)}</tbody>
        </table>
      );
  }
}

function Lines({ lines }: { lines: readonly (readonly Inline[])[] }) {
  return lines.map((parts, index) => <span key={index}>{index > 0 && <br />}<Parts parts={parts} /></span>);
}

function Parts({ parts }: { parts: readonly Inline[] }) {
  return parts.map((part, index) => {
    if (typeof part === "string") return shown(part);
    switch (part.kind) {
      case "code":
        return <code key={index}>{shown(part.text)}</code>;
      case "struck":
        return <s key={index}>{shown(part.text)}</s>;
      case "address":
        return part.text === "" ? null : <span key={index} className="muted"> ({shown(part.text)})</span>;
      case "strong":
        return <strong key={index}><Parts parts={part.parts} /></strong>;
      case "em":
        return <em key={index}><Parts parts={part.parts} /></em>;
    }
  });
}
