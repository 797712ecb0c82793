/** All items of a run: filtered and sorted here, read from the server as they come into sight. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { type Run, itemAttributesQuery, itemsQuery, outlineQuery } from "../api/queries";
import { count, cut, shown } from "../lib/format";
import { LIST_KEYS, stepOf, useKeyHelp } from "../lib/keys";
import { usePrinting } from "../lib/printing";
import { useIsSettled } from "../lib/settled";
import { type Look, heightOf } from "../lib/item-columns";
import { type Column, type Counts, type Order, type Outcome, type Outline, chooseScored, placeOf, readOutline, select } from "../lib/outline";
import { Failure, SearchField, State } from "./bits";
import { ItemExport } from "./item-export";
import { ItemLook, useItemLook } from "./item-look";
import { ItemRow } from "./item-row";
import { ROWS_ON_PAPER, RowsOnPaper } from "./print-foot";
import { SavedViews } from "./saved-views";

const route = getRouteApi("/runs/$runId");
const BLOCK = 50;
const SETTLED_MS = 60;
const MOST_SCORES_IN_ROW = 4;
const MOST_CHIPS = 12;
const CHIPS: readonly (readonly [Outcome, string])[] = [
  ["fail", "✗ Failed"],
  ["error", "! Errored"],
  ["pass", "✓ Passed"],
  ["none", "– Not judged"],
];

interface Props {
  readonly run: Run;
  readonly outline: Outline;
  readonly counts: Counts;
  readonly version: string;
  readonly onOpen: (place: string) => void;
  /** Hears which items are in the list, in their order. */
  readonly onOrder: (positions: readonly number[]) => void;
}

export function ItemList({ run, outline, counts, version, onOpen, onOrder }: Props) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const wanted = useDeferredValue(search.search ?? "");
  const matches = useQuery({ ...outlineQuery(run.id, version, wanted), enabled: wanted !== "" });
  const order: Order = search.order ?? "worst";
  const { slice, value } = search;
  const attributes = useQuery({ ...itemAttributesQuery(run.id, version), enabled: slice !== undefined && value !== undefined });
  const scoreOf = order.startsWith("score:") ? order.slice("score:".length) : null;
  const positions = useMemo(() => {
    const answer = wanted === "" || matches.data === undefined ? null : readOutline(matches.data);
    const found = answer && new Set(answer.ordinals.map((_, position) => placeOf(answer, position)));
    const range = scoreOf === null ? null : { evaluator: scoreOf, low: search.low ?? null, high: search.high ?? null };
    const filter = { outcome: search.outcome ?? null, failedEvaluator: search.evaluator ?? null, order, range };
    const chosen = select(outline, filter, found);
    if (slice === undefined || value === undefined || attributes.data === undefined) return chosen;
    const column = attributes.data.metadata.find((one) => one.name === slice);
    return column === undefined ? [] : chosen.filter((position) => String(column.values[column.codes[position] ?? -1]) === value);
  }, [outline, slice, value, attributes.data, search.outcome, search.evaluator, search.low, search.high, scoreOf, order, wanted, matches.data]);
  useEffect(() => onOrder(positions), [positions, onOrder]);
  const change = (next: { [name in keyof typeof search]?: (typeof search)[name] | undefined }) => {
    void navigate({
      search: (old) => Object.fromEntries(Object.entries({ ...old, ...next }).filter(([, one]) => one !== undefined)),
      replace: true,
      resetScroll: false,
    });
  };
  const scored = useMemo(() => chooseScored(outline, [search.evaluator, scoreOf ?? undefined]), [outline, search.evaluator, scoreOf]);
  const columns = useMemo(() => scored.slice(0, MOST_SCORES_IN_ROW), [scored]);
  const look = useItemLook(search);
  const [areAllShown, setAreAllShown] = useState(false);
  const failing = outline.columns.filter((one) => one.outcomes.includes("f"));
  const toggle = <T,>(now: T | undefined, one: T) => (now === one ? undefined : one);
  return (
    <section>
      <div className="sec"><h2>Items</h2><span className="label">
          {count(positions.length)} of {count(outline.size)}
          {look.parts.includes("scores") && columns.length < scored.length && ` · scores of ${count(columns.length)} of ${count(scored.length)} evaluators; the one that filters or sorts comes first`}
        </span></div>
      <div className="bar">
        <SearchField
          label="Search items"
          placeholder="Search in inputs, outputs and errors"
          text={search.search ?? ""}
          onSearch={(text) => change({ search: text || undefined })}
        />
        <select
          className="field"
          aria-label="Order"
          value={order}
          onChange={(event) => change({ order: event.target.value === "worst" ? undefined : (event.target.value as Order), low: undefined, high: undefined })}
        >
          <option value="worst">Worst first</option>
          <option value="ordinal">As in the dataset</option>
          <option value="slowest">Slowest first</option>
          {outline.columns.map((one) => (
            <option key={one.name} value={`score:${one.name}`}>Lowest {one.name} first</option>
          ))}
        </select>
        {scoreOf !== null && <ScoreRange key={scoreOf} low={search.low} high={search.high} onChange={change} />}
        <ItemLook look={look} onChange={change} />
        <ItemExport runId={run.id} search={search} listed={positions.length} all={outline.size} />
      </div>
      <div className="bar" role="group" aria-label="Filters">
        {CHIPS.filter(([outcome]) => counts[outcome] > 0).map(([outcome, label]) => (
          <button
            key={outcome}
            type="button"
            className="chip"
            aria-pressed={search.outcome === outcome}
            onClick={() => change({ outcome: toggle(search.outcome, outcome) })}
          >
            <span className={outcome}>{label}</span> <b>{count(counts[outcome])}</b>
          </button>
        ))}
        {(areAllShown ? failing : failing.filter((one, index) => index < MOST_CHIPS || one.name === search.evaluator)).map((one) => (
          <button
            key={one.name}
            type="button"
            className="chip"
            aria-pressed={search.evaluator === one.name}
            onClick={() => change({ evaluator: toggle(search.evaluator, one.name) })}
          >
            failed {shown(one.name)}
          </button>
        ))}
        {slice !== undefined && value !== undefined && (
          <button type="button" className="chip" aria-pressed onClick={() => change({ value: undefined })}>{shown(slice)}: {shown(cut(value, 40))} ×</button>
        )}
        {failing.length > MOST_CHIPS && !areAllShown && (
          <button type="button" className="chip" onClick={() => setAreAllShown(true)}>{count(failing.length - MOST_CHIPS)} more that failed</button>
        )}
      </div>
      <SavedViews area="items" />
      <div className="panel">
        {wanted !== "" && matches.isLoadingError ? (
          <Failure error={matches.error} retry={() => void matches.refetch()} />
        ) : positions.length === 0 ? (
          <State title="No item is found"><p>Other filters or another search may find some.</p></State>
        ) : (
          <Rows run={run} outline={outline} columns={columns} version={version} positions={positions} look={look} current={search.item} onOpen={onOpen} />
        )}
      </div>
    </section>
  );
}

interface RangeProps {
  readonly low: number | undefined;
  readonly high: number | undefined;
  readonly onChange: (next: { low?: number | undefined } | { high?: number | undefined }) => void;
}

/** Between which scores the items are that one wants to see. */
function ScoreRange({ low, high, onChange }: RangeProps) {
  const read = (text: string) => (text.trim() === "" || !Number.isFinite(Number(text)) ? undefined : Number(text));
  return (
    <span className="score-range">
      <label>scores from <input className="field" type="number" step="any" value={low ?? ""} onChange={(event) => onChange({ low: read(event.target.value) })} /></label>
      <label>to <input className="field" type="number" step="any" value={high ?? ""} onChange={(event) => onChange({ high: read(event.target.value) })} /></label>
    </span>
  );
}

interface RowsProps {
  readonly run: Run;
  readonly outline: Outline;
  readonly columns: readonly Column[];
  readonly version: string;
  readonly positions: readonly number[];
  readonly look: Look;
  readonly current: string | undefined;
  readonly onOpen: (place: string) => void;
}

function Rows({ run, outline, columns, version, positions, look, current, onOpen }: RowsProps) {
  const height = heightOf(look);
  const box = useRef<HTMLDivElement>(null);
  const isPrinting = usePrinting();
  const list = useVirtualizer({
    count: positions.length,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    overscan: isPrinting ? ROWS_ON_PAPER : 8,
  });
  useEffect(() => list.measure(), [height, list]);
  const rows = list.getVirtualItems();
  const first = Math.floor((rows[0]?.index ?? 0) / BLOCK);
  const last = Math.floor((rows.at(-1)?.index ?? 0) / BLOCK);
  // Blocks that only fly past are not asked for.
  const isSettled = useIsSettled(`${first} ${last}`, SETTLED_MS);
  const read = (block: number) => {
    const shownHere = positions.slice(block * BLOCK, (block + 1) * BLOCK);
    const query = itemsQuery(run.id, [...new Set(shownHere.map((position) => outline.ordinals[position] ?? 0))], version);
    return { ...query, enabled: query.enabled && isSettled };
  };
  const answers = useQueries({ queries: Array.from({ length: last - first + 1 }, (_, index) => read(first + index)) });
  const items = new Map(answers.flatMap((answer) => answer.data ?? []).map((item) => [`${item.ordinal}.${item.repetition}`, item]));
  const failed = answers.find((answer) => answer.isLoadingError);
  useKeyHelp("In the list of items", LIST_KEYS);
  const move = (event: KeyboardEvent) => {
    const step = stepOf(event);
    if (step === 0) return;
    event.preventDefault();
    const now = Number((event.target as HTMLElement).dataset["index"] ?? -1);
    const next = Math.min(positions.length - 1, Math.max(0, now + step));
    const row = () => box.current?.querySelector<HTMLElement>(`[data-index="${next}"]`);
    if (row() == null) {
      list.scrollToIndex(next);
      requestAnimationFrame(() => row()?.focus());
    } else row()?.focus();
  };
  return (
    <>
      {failed !== undefined && <Failure error={failed.error} retry={() => void failed.refetch()} />}
      <div className="rows" ref={box} onKeyDown={move}>
        <div style={{ height: list.getTotalSize() }}>
          {rows.map((row) => {
            const position = positions[row.index] ?? 0;
            const place = placeOf(outline, position);
            if (isPrinting && !items.has(place)) return null; // too late to read it
            return (
              <ItemRow
                key={row.key}
                index={row.index}
                start={row.start}
                position={position}
                outline={outline}
                columns={columns}
                item={items.get(place)}
                look={look}
                isCurrent={current === place}
                onOpen={onOpen}
              />
            );
          })}
        </div>
        <RowsOnPaper rows={rows.filter((row) => items.has(placeOf(outline, positions[row.index] ?? 0))).length} all={positions.length} />
      </div>
    </>
  );
}
