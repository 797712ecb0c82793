/** The items of a comparison: what changed first, as a matrix, and one of them side by side. */
import { useQueries } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { type Item, type Run, itemsQuery } from "../api/queries";
import { count, cut, plural, score, shown, textOf } from "../lib/format";
import { LIST_KEYS, stepOf, useKeyHelp } from "../lib/keys";
import { useNarrow } from "../lib/narrow";
import { usePrinting } from "../lib/printing";
import { nameOf } from "../lib/items";
import { wordOfRun } from "../lib/runs";
import { filterChanges, narrowsChanges } from "../lib/change-filter";
import type { Outcome } from "../lib/outline";
import {
  type Kind, type PairedItem, type Pairing, changeOf, countKinds, meanScore, placeOfCell, sliceOf,
} from "../lib/pairing";
import { Sign, State } from "./bits";
import { ChangeFilters } from "./change-filters";
import { ROWS_ON_PAPER, RowsOnPaper } from "./print-foot";
import { SideBySide } from "./compare-sides";

const route = getRouteApi("/experiments/$experimentId/runs/$runId/diff");
const ROW = 38;
/** About what a row takes as a card, before it is measured. */
const CARD = 132;
const BLOCK = 50;
const MOST_EVALUATORS = 8;

const WORDS: Record<Kind, readonly [Outcome, string]> = {
  failed: ["fail", "✗ newly failed"],
  errored: ["error", "! newly errored"],
  passed: ["pass", "✓ newly passed"],
  scores: ["none", "scores differ"],
  new: ["none", "new"],
  dropped: ["none", "dropped"],
  unjudged: ["none", "– not judged"],
  same: ["none", "same"],
};

/** The filters by kind of change; those that the documentation names keep its words in the address. */
const FILTERS: readonly { readonly status: string; readonly label: string; readonly kinds: readonly Kind[] }[] = [
  { status: "ALL", label: "All", kinds: [] },
  { status: "CHANGED", label: "Changed", kinds: ["failed", "errored", "passed"] },
  { status: "REGRESSED", label: "✗ Newly failed", kinds: ["failed"] },
  { status: "ERRORED", label: "! Newly errored", kinds: ["errored"] },
  { status: "IMPROVED", label: "✓ Newly passed", kinds: ["passed"] },
  { status: "SCORES", label: "Scores differ", kinds: ["scores"] },
  { status: "NEW", label: "New", kinds: ["new"] },
  { status: "DROPPED", label: "Dropped", kinds: ["dropped"] },
  { status: "UNJUDGED", label: "– Not judged", kinds: ["unjudged"] },
];

export function CompareItems({ pairing, runs }: { pairing: Pairing; runs: readonly Run[] }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const status = search.status?.toUpperCase() ?? "ALL";
  const { slice, value } = search;
  const inSlice = useMemo(
    () =>
      slice === undefined || value === undefined
        ? pairing.items
        : pairing.items.filter((item) => sliceOf(pairing, item, slice) === value),
    [pairing, slice, value],
  );
  const { evaluator, change, least } = search;
  const changed = useMemo(() => filterChanges(pairing, inSlice, { evaluator, change, least }), [pairing, inSlice, evaluator, change, least]);
  const counts = useMemo(() => countKinds(changed), [changed]);
  const kinds = FILTERS.find((one) => one.status === status)?.kinds ?? [];
  const items = useMemo(
    () => (kinds.length === 0 ? changed : changed.filter((item) => kinds.includes(item.kind))),
    [changed, kinds],
  );
  const isNarrowed = narrowsChanges(search);
  const open = items.find((one) => one.key === search.item) ?? items[0];
  // The item is shown below the list, which may fill the screen: who chooses one is brought there.
  const [sought, setSought] = useState<string | null>(null);
  const sizeOf = (wanted: readonly Kind[]) =>
    wanted.length === 0 ? changed.length : wanted.reduce((sum, kind) => sum + counts[kind], 0);
  return (
    <>
      <section>
        <div className="sec">
          <h2>Items</h2>
          <span className="label">what changed for the worse first, by how much the scores fell</span>
        </div>
        <div className="bar" role="group" aria-label="Filters">
          {FILTERS.filter((one) => ["ALL", "CHANGED", status].includes(one.status) || sizeOf(one.kinds) > 0).map((one) => (
            <button
              key={one.status}
              type="button"
              className="chip"
              aria-pressed={status === one.status}
              onClick={() =>
                void navigate({
                  search: ({ item: _, status: __, ...rest }) => (one.status === "ALL" ? rest : { ...rest, status: one.status }),
                  replace: true,
                  resetScroll: false,
                })
              }
            >
              {one.label} <b>{count(sizeOf(one.kinds))}</b>
            </button>
          ))}
          {slice !== undefined && value !== undefined && (
            <button
              type="button"
              className="chip"
              aria-pressed
              onClick={() => void navigate({ search: ({ value: _, item: __, ...rest }) => rest, replace: true, resetScroll: false })}
            >
              {shown(slice)}: {shown(cut(value, 40))} ×
            </button>
          )}
        </div>
        <ChangeFilters pairing={pairing} />
        <div className="panel">
          {items.length === 0 ? (
            <State title={status === "CHANGED" && !isNarrowed ? "No item changed its outcome" : "No such item"}>
              <p>{isNarrowed ? "Other evaluators, or a smaller change, may leave some." : "“All” shows every item of the runs."}</p>
            </State>
          ) : (
            <Matrix pairing={pairing} runs={runs} items={items} open={open} onSeek={setSought} />
          )}
        </div>
      </section>
      {open !== undefined && <SideBySide pairing={pairing} runs={runs} item={open} isSought={sought === open.key} onShown={() => setSought(null)} />}
    </>
  );
}

interface MatrixProps {
  readonly pairing: Pairing;
  readonly runs: readonly Run[];
  readonly items: readonly PairedItem[];
  readonly open: PairedItem | undefined;
  /** An item was chosen from its row. */
  readonly onSeek: (key: string) => void;
}

/** A row for each item: of two runs the scores before and after, of more each run's outcome and one score. */
function Matrix({ pairing, runs, items, open, onSeek }: MatrixProps) {
  const box = useRef<HTMLDivElement>(null);
  const navigate = route.useNavigate();
  const search = route.useSearch();
  const isPair = runs.length === 2;
  const isNarrow = useNarrow();
  const shownEvaluators = useMemo(() => mostChanged(pairing, items, search.evaluator), [pairing, items, search.evaluator]);
  const chosen = search.scores ?? search.evaluator ?? shownEvaluators[0];
  const list = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: () => (isNarrow ? CARD : ROW),
    overscan: usePrinting() ? ROWS_ON_PAPER : 12,
  });
  useEffect(() => list.measure(), [list, isNarrow]);
  const rows = list.getVirtualItems();
  const inputs = useInputs(pairing, runs, items, rows[0]?.index ?? 0, rows.at(-1)?.index ?? 0);
  useKeyHelp("In the list of items", LIST_KEYS);
  const move = (event: KeyboardEvent) => {
    const step = stepOf(event);
    if (step === 0) return;
    event.preventDefault();
    const next = Math.min(items.length - 1, Math.max(0, items.findIndex((one) => one.key === open?.key) + step));
    const item = items[next];
    if (item === undefined) return;
    list.scrollToIndex(next);
    void navigate({ search: (old) => ({ ...old, item: item.key }), replace: true, resetScroll: false });
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`button[data-index="${next}"]`)?.focus());
  };
  const columns = isPair ? shownEvaluators : runs.map((run) => run.id);
  const width = isPair ? 132 : 148;
  const columnStyle = isNarrow ? {} : {
    gridTemplateColumns: `128px minmax(220px, 1fr) repeat(${columns.length}, ${width}px)`,
    minWidth: 128 + 220 + columns.length * width,
  };
  // Names of runs are often alike as far as a column shows them; these are the words of the choices above.
  const head = isPair
    ? shownEvaluators.map((name) => ({ label: shown(name), title: shown(name) }))
    : runs.map((run, index) => ({ label: wordOfRun(index, runs.length), title: shown(run.name ?? run.id) }));
  return (
    <>
      {!isPair && pairing.evaluators.length > 0 && (
        <p className="foot-row">
          <label>
            Scores of{" "}
            <select
              className="field"
              value={chosen}
              onChange={(event) => void navigate({ search: (old) => ({ ...old, scores: event.target.value }), replace: true, resetScroll: false })}
            >
              {pairing.evaluators.map((name) => <option key={name} value={name}>{shown(name)}</option>)}
            </select>
          </label>
        </p>
      )}
      {isPair && pairing.evaluators.length > shownEvaluators.length && (
        <p className="foot-row">
          {count(shownEvaluators.length)} of {count(pairing.evaluators.length)} evaluators, those that changed most; all are in “Side by side”.
        </p>
      )}
      <div className="grid-rows" ref={box} role="table" aria-label="Items of the runs" aria-rowcount={items.length + 1} onKeyDown={move}>
        <div className="grid-row grid-head" role="row" style={columnStyle}>
          <span role="columnheader">Change</span>
          <span role="columnheader">Item</span>
          {head.map(({ label, title }, index) => <span key={columns[index]} role="columnheader" className="num cut" title={title}>{label}</span>)}
        </div>
        <div role="rowgroup" style={{ height: list.getTotalSize() }} className="grid-body">
          {rows.map((row) => {
            const item = items[row.index];
            if (item === undefined) return null;
            const [outcome, word] = WORDS[item.kind];
            return (
              <div
                key={item.key}
                ref={isNarrow ? list.measureElement : undefined}
                data-index={row.index}
                role="row"
                aria-rowindex={row.index + 2}
                className={item === open ? "grid-row on" : "grid-row"}
                style={{ ...columnStyle, transform: `translateY(${row.start}px)` }}
              >
                <span role="cell"><span className={`sign ${outcome}`}>{word}</span></span>
                <span role="rowheader">
                  <button
                    type="button"
                    className="cut plain"
                    data-index={row.index}
                    aria-current={item === open ? "true" : undefined}
                    onClick={() => {
                      onSeek(item.key);
                      void navigate({ search: (old) => ({ ...old, item: item.key }), replace: true, resetScroll: false });
                    }}
                  >
                    <InputOf item={inputs.get(item.key)} fallback={item.key} />
                  </button>
                </span>
                {isPair
                  ? shownEvaluators.map((name) => <BeforeAfter key={name} pairing={pairing} item={item} name={name} label={shown(name)} />)
                  : runs.map((run, index) => (
                      <RunCell key={run.id} pairing={pairing} item={item} run={index} evaluator={chosen} label={head[index]?.label} />
                    ))}
              </div>
            );
          })}
        </div>
      </div>
      <RowsOnPaper rows={rows.length} all={items.length} />
      <p className="foot-row"><span>{count(items.length)} of {plural(pairing.items.length, "item")}</span><span className="hide-s"><kbd>j</kbd> <kbd>k</kbd> move</span></p>
    </>
  );
}

/** The evaluators whose scores differ on most of the items, as many as a row has room for; the one that is chosen is among them. */
function mostChanged(pairing: Pairing, items: readonly PairedItem[], filtered: string | undefined): string[] {
  const counts = new Map(pairing.evaluators.map((name) => [name, 0]));
  for (const item of items.slice(0, 1_000)) {
    for (const name of pairing.evaluators) {
      if (changeOf(pairing.scores, name, item.cells, 1)) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  }
  if (filtered !== undefined && counts.has(filtered)) counts.set(filtered, Number.POSITIVE_INFINITY);
  const chosen = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MOST_EVALUATORS).map(([name]) => name);
  return pairing.evaluators.filter((name) => chosen.includes(name));
}

/** The items of the rows in sight, from the last run that has them. */
function useInputs(pairing: Pairing, runs: readonly Run[], items: readonly PairedItem[], first: number, last: number): Map<string, Item> {
  const start = Math.floor(first / BLOCK);
  const blocks = Array.from({ length: Math.floor(last / BLOCK) - start + 1 }, (_, index) => start + index);
  const wanted = blocks.flatMap((block) => {
    const byRun = new Map<number, number[]>();
    for (const item of items.slice(block * BLOCK, (block + 1) * BLOCK)) {
      const run = lastRunOf(item);
      const position = item.cells[run]?.positions[0];
      const ordinal = position === undefined ? undefined : pairing.sides[run]?.outline.ordinals[position];
      if (ordinal !== undefined) byRun.set(run, [...(byRun.get(run) ?? []), ordinal]);
    }
    return [...byRun].map(([run, ordinals]) => ({ run, ordinals: [...new Set(ordinals)] }));
  });
  const answers = useQueries({ queries: wanted.map(({ run, ordinals }) => itemsQuery(runs[run]?.id ?? "", ordinals, "ended")) });
  const found = new Map<string, Item>();
  for (const [index, { run }] of wanted.entries()) {
    for (const item of answers[index]?.data ?? []) found.set(`${run}:${item.ordinal}.${item.repetition}`, item);
  }
  const rows = new Map<string, Item>();
  for (const block of blocks) {
    for (const item of items.slice(block * BLOCK, (block + 1) * BLOCK)) {
      const run = lastRunOf(item);
      const [side, cell] = [pairing.sides[run], item.cells[run]];
      const its = side === undefined || cell == null ? undefined : found.get(`${run}:${placeOfCell(side, cell)}`);
      if (its !== undefined) rows.set(item.key, its);
    }
  }
  return rows;
}

const lastRunOf = (item: PairedItem): number => item.cells.findLastIndex((cell) => cell !== null);

function InputOf({ item, fallback }: { item: Item | undefined; fallback: string }) {
  if (item === undefined) return <span className="muted">{shown(fallback)} …</span>;
  return <><span className="mono muted">{shown(nameOf(item))}</span> <bdi>{shown(cut(textOf(item.input), 160))}</bdi></>;
}

function BeforeAfter({ pairing, item, name, label }: { pairing: Pairing; item: PairedItem; name: string; label: string }) {
  const columns = pairing.scores.get(name);
  const before = meanScore(columns?.[0], item.cells[0]);
  const now = meanScore(columns?.[1], item.cells[1]);
  if (before === null && now === null) return <span role="cell" className="num none" data-label={label}>–</span>;
  if (before === now) return <span role="cell" className="num none" data-label={label}>{score(now)}</span>;
  return (
    <span role="cell" className="num" data-label={label}>
      {score(before)} → {score(now)}
      {before !== null && now !== null && <> <span className="muted">{now < before ? "▾" : "▴"}</span></>}
    </span>
  );
}

interface RunCellProps {
  readonly pairing: Pairing;
  readonly item: PairedItem;
  readonly run: number;
  readonly evaluator: string | undefined;
  /** What the cell is, where the columns have no heads. */
  readonly label: string | undefined;
}

function RunCell({ pairing, item, run, evaluator, label }: RunCellProps) {
  const cell = item.cells[run];
  if (cell == null) return <span role="cell" className="num none" data-label={label}>–</span>;
  const mean = evaluator === undefined ? null : meanScore(pairing.scores.get(evaluator)?.[run], cell);
  return <span role="cell" className="num" data-label={label}><Sign outcome={cell.outcome} /> {mean !== null && score(mean)}</span>;
}
