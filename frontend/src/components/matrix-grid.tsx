/** The cells of a matrix, of which only those in sight are in the page, and only their items are asked for. */
import { useQueries } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, type KeyboardEvent, memo, useEffect, useMemo, useRef, useState } from "react";
import { type Item, itemsQuery, versionOf } from "../api/queries";
import { count, cut, score, shown, textOf } from "../lib/format";
import { nameOf } from "../lib/items";
import { type KeyLine, useKeyHelp } from "../lib/keys";
import { type Matrix, type Row, countVerdicts } from "../lib/matrix";
import { useNarrow } from "../lib/narrow";
import { type Cell, meanScore, placeOfCell } from "../lib/pairing";
import { usePrinting } from "../lib/printing";
import { useIsSettled } from "../lib/settled";
import { Sign } from "./bits";
import { ColumnFigures, ColumnName, type MatrixColumn } from "./matrix-columns";
import { ROWS_ON_PAPER, RowsOnPaper } from "./print-foot";

const ROW = 84;
const ITEM_WIDTH = 240;
/** At least; where all columns fit, they share what is left. Four of them fit a page of 1280 pixels. */
const COLUMN_WIDTH = 184;
/** About what the head takes, below which rows scroll. */
const HEAD = 150;
/** The items of so many rows are asked for together. */
const BLOCK = 20;
const SETTLED_MS = 60;
const TEXT = 220;
const KEYS: readonly KeyLine[] = [["j k", "next, previous row"], ["h l", "previous, next column"], ["enter", "open the item"]];

interface Props {
  readonly matrix: Matrix;
  readonly rows: readonly Row[];
  readonly columns: readonly MatrixColumn[];
  /** The evaluator whose scores cells show; null for how many evaluators passed. */
  readonly scores: string | null;
  readonly open: { readonly item: string; readonly run: string | undefined } | undefined;
  readonly onOpen: (row: Row, column: MatrixColumn) => void;
}

export function MatrixGrid({ matrix, rows, columns, scores, open, onOpen }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const isNarrow = useNarrow();
  const isPrinting = usePrinting();
  const down = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    // A row is in sight where the head does not cover it.
    scrollPaddingEnd: isNarrow ? 0 : HEAD,
    overscan: isPrinting ? ROWS_ON_PAPER : 6,
  });
  const across = useVirtualizer({
    count: columns.length,
    horizontal: true,
    getScrollElement: () => box.current,
    estimateSize: () => COLUMN_WIDTH,
    paddingStart: ITEM_WIDTH,
    scrollPaddingStart: ITEM_WIDTH,
    overscan: isPrinting ? columns.length : 1,
  });
  useEffect(() => down.measure(), [down, isNarrow]);
  const shownRows = down.getVirtualItems();
  const shownColumns = isNarrow ? columns.map((_, index) => index) : across.getVirtualItems().map((one) => one.index);
  const items = useItems(matrix, rows, columns, shownColumns, shownRows[0]?.index ?? 0, shownRows.at(-1)?.index ?? 0);
  const { at, move, focus } = useCellFocus(box, rows.length, columns.length, (row, column) => {
    down.scrollToIndex(row);
    if (!isNarrow) across.scrollToIndex(column);
  });
  useKeyHelp("In the matrix", KEYS);
  // Of the cells in the page, one is reached by the tab key: the one that had the focus, else the first.
  const tabRow = shownRows.some((one) => one.index === at.row) ? at.row : (shownRows[0]?.index ?? 0);
  const tabColumn = shownColumns.includes(at.column) ? at.column : (shownColumns[0] ?? 0);
  const style = useMemo((): CSSProperties => (isNarrow ? {} : {
    gridTemplateColumns: `${ITEM_WIDTH}px repeat(${columns.length}, minmax(${COLUMN_WIDTH}px, 1fr))`,
    width: `max(100%, ${ITEM_WIDTH + columns.length * COLUMN_WIDTH}px)`,
  }), [isNarrow, columns.length]);
  return (
    <>
      <div className="matrix" ref={box} role="grid" aria-label="Items by runs" aria-rowcount={rows.length + 2} aria-colcount={columns.length + 1} onKeyDown={move}>
        {!isNarrow && <Head columns={columns} style={style} />}
        <div role="rowgroup" className="matrix-body" style={{ height: down.getTotalSize(), width: style.width }}>
          {shownRows.map(({ index, start }) => {
            const row = rows[index];
            if (row === undefined) return null;
            return (
              <div
                key={row.key}
                role="row"
                aria-rowindex={index + 3}
                data-index={index}
                className={row.key === open?.item ? "matrix-row on" : "matrix-row"}
                style={{ ...style, height: ROW, transform: `translateY(${start}px)` }}
              >
                <span role="rowheader" aria-colindex={1} className="matrix-item"><InputOf row={row} columns={columns} items={items} matrix={matrix} /></span>
                {shownColumns.map((place) => {
                  const column = columns[place];
                  if (column === undefined) return null;
                  const cell = row.cells[column.index] ?? null;
                  return (
                    <span key={column.run.id} role="gridcell" aria-colindex={place + 2} className="matrix-cell" style={isNarrow ? {} : { gridColumn: place + 2 }}>
                      <button
                        type="button"
                        data-cell={`${index}:${place}`}
                        tabIndex={index === tabRow && place === tabColumn ? 0 : -1}
                        aria-current={row.key === open?.item && column.run.id === open.run ? "true" : undefined}
                        aria-disabled={cell === null || undefined}
                        onFocus={() => focus(index, place)}
                        onClick={() => cell !== null && onOpen(row, column)}
                      >
                        {cell === null ? <span className="none">– not in this run</span> : (
                          <CellText matrix={matrix} column={column} cell={cell} scores={scores} item={items.get(keyOf(matrix, column, cell))} />
                        )}
                      </button>
                    </span>
                  );
                })}
              </div>
            );
          })}
        </div>
      </div>
      <RowsOnPaper rows={shownRows.length} all={rows.length} />
    </>
  );
}

/** The head: a row of groups over a row of runs. */
const Head = memo(function Head({ columns, style }: { columns: readonly MatrixColumn[]; style: CSSProperties }) {
  const groups = columns.flatMap((column, index) => {
    if (index > 0 && columns[index - 1]?.group === column.group) return [];
    const end = columns.findIndex((one, at) => at > index && one.group !== column.group);
    return [{ value: column.group, start: index, size: (end < 0 ? columns.length : end) - index }];
  });
  return (
    <div role="rowgroup" className="matrix-head">
      {columns[0]?.group != null && (
        <div role="row" aria-rowindex={1} className="matrix-groups" style={style}>
          <span role="columnheader" aria-colindex={1} className="matrix-item"><span className="unseen">Group</span></span>
          {groups.map(({ value, start, size }) => (
            <span key={start} role="columnheader" aria-colindex={start + 2} aria-colspan={size} style={{ gridColumn: `${start + 2} / span ${size}` }}>
              <span className="cut" title={shown(value ?? "")}><bdi>{shown(cut(value ?? "", 120))}</bdi></span>
            </span>
          ))}
        </div>
      )}
      <div role="row" aria-rowindex={2} className="matrix-runs" style={style}>
        <span role="columnheader" aria-colindex={1} className="matrix-item">Item</span>
        {columns.map((column, index) => (
          <span key={column.run.id} role="columnheader" aria-colindex={index + 2} style={{ gridColumn: index + 2 }}>
            <ColumnName column={column} />
            <ColumnFigures column={column} />
          </span>
        ))}
      </div>
    </div>
  );
});

/** Which cell has the focus, and the keys that move it: cells that come into the page later get it then. */
function useCellFocus(box: { readonly current: HTMLElement | null }, rows: number, columns: number, show: (row: number, column: number) => void) {
  const [at, setAt] = useState({ row: 0, column: 0 });
  const sought = useRef<string | null>(null);
  useEffect(() => {
    if (sought.current === null) return;
    const cell = box.current?.querySelector<HTMLElement>(`[data-cell="${sought.current}"]`);
    if (cell == null) return;
    sought.current = null;
    cell.focus({ preventScroll: true });
  });
  const move = (event: KeyboardEvent) => {
    const step = stepOf(event);
    if (step === null || !(event.target instanceof HTMLElement) || event.target.dataset["cell"] === undefined) return;
    event.preventDefault();
    const row = Math.min(rows - 1, Math.max(0, at.row + step[0]));
    const column = Math.min(columns - 1, Math.max(0, at.column + step[1]));
    show(row, column);
    sought.current = `${row}:${column}`;
    setAt({ row, column });
  };
  const focus = (row: number, column: number) => {
    if (row !== at.row || column !== at.column) setAt({ row, column });
  };
  return { at, move, focus };
}

const STEPS: Readonly<Record<string, readonly [number, number]>> = {
  j: [1, 0], ArrowDown: [1, 0], k: [-1, 0], ArrowUp: [-1, 0], l: [0, 1], ArrowRight: [0, 1], h: [0, -1], ArrowLeft: [0, -1],
  PageDown: [8, 0], PageUp: [-8, 0], Home: [0, -Infinity], End: [0, Infinity],
};

function stepOf(event: KeyboardEvent): readonly [number, number] | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  return Object.hasOwn(STEPS, event.key) ? (STEPS[event.key] ?? null) : null;
}

/** What a cell's item is found by among those that were read. */
function keyOf(matrix: Matrix, column: MatrixColumn, cell: Cell): string {
  const side = matrix.sides[column.index];
  return `${column.run.id}:${side === undefined ? "" : placeOfCell(side, cell)}`;
}

/** The items of the cells in sight, in blocks of rows; blocks that only fly past are not asked for. */
function useItems(matrix: Matrix, rows: readonly Row[], columns: readonly MatrixColumn[], places: readonly number[], first: number, last: number): Map<string, Item> {
  const [from, to] = [Math.floor(first / BLOCK), Math.floor(last / BLOCK)];
  const isSettled = useIsSettled(`${from} ${to} ${places.join()}`, SETTLED_MS);
  const wanted = places.flatMap((place) => columns[place] ?? []).flatMap((column) =>
    Array.from({ length: to - from + 1 }, (_, at) => {
      const block = rows.slice((from + at) * BLOCK, (from + at + 1) * BLOCK);
      const ordinals = block.flatMap((row) => matrix.sides[column.index]?.outline.ordinals[row.cells[column.index]?.positions[0] ?? -1] ?? []);
      return { column, ordinals: [...new Set(ordinals)] };
    }));
  const answers = useQueries({
    queries: wanted.map(({ column, ordinals }) => {
      const query = itemsQuery(column.run.id, ordinals, versionOf(column.run));
      return { ...query, enabled: query.enabled && isSettled };
    }),
  });
  const items = new Map<string, Item>();
  for (const [index, { column }] of wanted.entries()) {
    for (const item of answers[index]?.data ?? []) items.set(`${column.run.id}:${item.ordinal}.${item.repetition}`, item);
  }
  return items;
}

interface InputProps {
  readonly row: Row;
  readonly columns: readonly MatrixColumn[];
  readonly items: ReadonlyMap<string, Item>;
  readonly matrix: Matrix;
}

/** What an item is called and asks, from the first run whose items are there; two prompts may ask otherwise. */
function InputOf({ row, columns, items, matrix }: InputProps) {
  const there = columns.flatMap((column) => {
    const cell = row.cells[column.index] ?? null;
    return cell === null ? [] : (items.get(keyOf(matrix, column, cell)) ?? []);
  });
  const [item] = there;
  if (item === undefined) return <span className="mono muted cut">{shown(cut(row.key, 80))}</span>;
  const input = textOf(item.input);
  const isSame = there.every((one) => textOf(one.input) === input);
  return (
    <>
      <span className="mono muted cut">{shown(nameOf(item))}</span>
      {!isSame && <span className="sub">inputs differ by column, one is:</span>}
      <span className={isSame ? "matrix-text" : "matrix-text one-line"} dir="auto">{shown(cut(input, TEXT))}</span>
    </>
  );
}

interface CellProps {
  readonly matrix: Matrix;
  readonly column: MatrixColumn;
  readonly cell: Cell;
  readonly scores: string | null;
  readonly item: Item | undefined;
}

const CellText = memo(function CellText({ matrix, column, cell, scores, item }: CellProps) {
  const repeats = cell.positions.length;
  const got = item === undefined ? null : (item.error ?? textOf(item.actualOutput["output"] ?? item.actualOutput));
  return (
    <>
      <span className="matrix-verdict">
        <Sign outcome={cell.outcome} />
        {repeats > 1 && cell.passShare !== null && <span className="muted">{count(Math.round(cell.passShare * repeats))}/{count(repeats)} repeats</span>}
        <span className="num">{scoreText(matrix, column, cell, scores)}</span>
      </span>
      <span className={item?.error == null ? "matrix-text" : "matrix-text error"} dir="auto">{got === null ? "…" : shown(cut(got, TEXT)) || "(empty)"}</span>
    </>
  );
});

function scoreText(matrix: Matrix, column: MatrixColumn, cell: Cell, scores: string | null): string {
  if (scores !== null) {
    const mean = meanScore(matrix.scores.get(scores)?.[column.index], cell);
    return mean === null ? "" : score(mean);
  }
  const { passed, judged } = countVerdicts(matrix.sides[column.index], cell);
  return judged === 0 ? "" : `${count(passed)}/${count(judged)} evaluators`;
}
