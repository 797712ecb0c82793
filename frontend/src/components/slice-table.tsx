/** Slices by the values of one key of the metadata, each a button that chooses its items. */
import { type ReactNode } from "react";
import { count, cut, shown } from "../lib/format";
import type { Slice } from "../lib/pairing";

interface Props {
  readonly name: string;
  readonly slices: readonly Slice[];
  /** The value whose items are shown. */
  readonly chosen: string | undefined;
  /** Whether the rows are cards on narrow pages: their cells then have a `data-label`. */
  readonly isCards?: boolean;
  readonly onChoose: (value: string) => void;
  /** The cells of the head and of a row, behind the name and the number of items. */
  readonly head: ReactNode;
  readonly cells: (slice: Slice) => ReactNode;
}

export function SliceTable({ name, slices, chosen, isCards = false, onChoose, head, cells }: Props) {
  return (
    <table role="table" className={isCards ? "cards-s" : undefined}>
      <thead role="rowgroup"><tr role="row"><th role="columnheader">{shown(name)}</th><th role="columnheader" className="num">n</th>{head}</tr></thead>
      <tbody role="rowgroup">
        {slices.map((slice) => (
          <tr role="row" key={slice.value} className={chosen === slice.value ? "on" : ""}>
            <th scope="row" role="rowheader">
              <button type="button" className="plain link" aria-pressed={chosen === slice.value} onClick={() => onChoose(slice.value)}>
                {shown(cut(slice.value, 80)) || "(empty)"}
              </button>
            </th>
            <td role="cell" className="num none" data-label="n">{count(slice.n)}</td>
            {cells(slice)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface KeyProps {
  readonly names: readonly string[];
  readonly name: string;
  readonly onChoose: (name: string) => void;
}

/** Chooses the key of the metadata. */
export function SliceKey({ names, name, onChoose }: KeyProps) {
  return (
    <label className="label">
      by{" "}
      <select className="field" value={name} onChange={(event) => onChoose(event.target.value)}>
        {names.map((one) => <option key={one} value={one}>{shown(one)}</option>)}
      </select>
    </label>
  );
}
