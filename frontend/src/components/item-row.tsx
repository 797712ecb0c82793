/** An item in the list of a run, with the parts that one wants to see. */
import { memo } from "react";
import type { Item } from "../api/queries";
import { cost, count, cut, duration, score, shown, textOf } from "../lib/format";
import { type Look, heightOf } from "../lib/item-columns";
import { nameOf } from "../lib/items";
import { type Column, type Outline, placeOf } from "../lib/outline";
import { Sign } from "./bits";

interface Props {
  readonly index: number;
  readonly start: number;
  readonly position: number;
  readonly outline: Outline;
  readonly columns: readonly Column[];
  readonly item: Item | undefined;
  readonly look: Look;
  readonly isCurrent: boolean;
  readonly onOpen: (place: string) => void;
}

export const ItemRow = memo(function ItemRow({ index, start, position, outline, columns, item, look, isCurrent, onOpen }: Props) {
  const { parts, height } = look;
  return (
    <button
      type="button"
      data-index={index}
      className={`row item ${height}${isCurrent ? " on" : ""}`}
      style={{ transform: `translateY(${start}px)`, height: heightOf(look) }}
      onClick={() => onOpen(placeOf(outline, position))}
    >
      <Sign outcome={outline.outcomes[position] ?? "none"} />
      <Said item={item} ordinal={outline.ordinals[position] ?? 0} look={look} />
      <span className="scores">
        {parts.includes("scores") && columns.map((column) => (
          <span key={column.name} className="score">
            <span className={column.outcomes[position] === "f" ? "fail" : ""}>{score(column.scores[position])}</span>
            {height !== "low" && <span className="sub">{shown(column.name)}</span>}
          </span>
        ))}
        {parts.includes("tokens") && <Figure name="tokens" isLow={height === "low"}>{tokensOf(item)}</Figure>}
        {parts.includes("cost") && <Figure name="cost" isLow={height === "low"}>{item === undefined ? "" : cost(item.costUsd)}</Figure>}
        {parts.includes("latency") && <Figure name="latency" isLow={height === "low"}>{duration(outline.latencies[position])}</Figure>}
      </span>
    </button>
  );
});

function tokensOf(item: Item | undefined): string {
  if (item === undefined) return "";
  return item.tokensIn === null && item.tokensOut === null ? "–" : count((item.tokensIn ?? 0) + (item.tokensOut ?? 0));
}

function Figure({ name, isLow, children }: { name: string; isLow: boolean; children: string }) {
  return <span className="score muted figure">{children}{!isLow && <span className="sub">{name}</span>}</span>;
}

const CUT = 240;
const LONG_CUT = 900;

function Said({ item, ordinal, look: { parts, height } }: { item: Item | undefined; ordinal: number; look: Look }) {
  if (item === undefined) return <span className="muted">#{ordinal} …</span>;
  const most = height === "high" ? LONG_CUT : CUT;
  const texts = height === "low" ? [] : [
    ...(parts.includes("got") ? [{ label: "got", text: item.error ?? textOf(item.actualOutput), style: "said" }] : []),
    ...(parts.includes("want") && item.expectedOutput !== null ? [{ label: "want", text: textOf(item.expectedOutput), style: "said muted" }] : []),
  ];
  const got = height === "low" && parts.includes("got") ? item.error ?? textOf(item.actualOutput) : null;
  return (
    <span className={got === null ? "" : "side-by-side"}>
      <span className="cut"><span className="mono muted">{shown(nameOf(item))}</span> <bdi>{shown(cut(textOf(item.input), CUT))}</bdi></span>
      {got !== null && <span className="cut" dir="auto">{shown(cut(got, CUT))}</span>}
      {texts.filter(({ text }) => text !== "").map(({ label, text, style }) => (
        <span key={label} className={style}>
          <span className="label">{label}</span>
          <span className={height === "high" ? "lines" : "cut"} dir="auto">{shown(cut(text, most))}</span>
        </span>
      ))}
    </span>
  );
}
