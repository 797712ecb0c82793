/** Which parts the rows of the list of items have, and how high they are. */
import { HEIGHTS, type Look, PARTS, chooseLook, keepLook, keptLook, sayParts, togglePart } from "../lib/item-columns";
import { useStore } from "../lib/store";
import type { RunSearch } from "../router";
import { Menu } from "./menu";

/** The look that the address asks for, else the one that this browser keeps. */
export function useItemLook({ columns, rows }: RunSearch): Look {
  const kept = useStore(keptLook);
  return chooseLook({ ...(columns !== undefined && { columns }), ...(rows !== undefined && { rows }) }, kept);
}

interface Props {
  readonly look: Look;
  readonly onChange: (next: { columns: string; rows: Look["height"] }) => void;
}

const HEIGHT_WORDS = { low: "One line", usual: "Usual", high: "Three lines" } as const;

export function ItemLook({ look, onChange }: Props) {
  const choose = (next: Look) => {
    keepLook(next);
    onChange({ columns: sayParts(next.parts), rows: next.height });
  };
  return (
    <Menu title="Columns">
      {PARTS.map(({ name, title }) => (
        <label key={name}>
          <input type="checkbox" checked={look.parts.includes(name)} onChange={() => choose({ ...look, parts: togglePart(look.parts, name) })} /> {title}
        </label>
      ))}
      <fieldset className="heights">
        <legend className="label">Height of rows</legend>
        {HEIGHTS.map((height) => (
          <label key={height}>
            <input type="radio" name="height" checked={look.height === height} onChange={() => choose({ ...look, height })} /> {HEIGHT_WORDS[height]}
          </label>
        ))}
      </fieldset>
      <p className="label">kept in this browser, and in the address</p>
    </Menu>
  );
}
