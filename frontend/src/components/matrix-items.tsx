/** The items of a matrix: filters and search, the table of cells, and one cell's item whole. */
import { useQueries } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { outlineQuery, versionOf } from "../api/queries";
import { count, cut, plural, shown } from "../lib/format";
import { type Axes, type Matrix, type Row, type Show, SHOWS, countShown, findCommonEvaluator, selectRows } from "../lib/matrix";
import { useNarrow } from "../lib/narrow";
import { placeOf, readOutline } from "../lib/outline";
import { placeOfCell } from "../lib/pairing";
import { useSettled } from "../lib/settled";
import { Failure, SearchField, State } from "./bits";
import { ItemDrawer } from "./item-drawer";
import { ColumnFigures, ColumnName, type MatrixColumn } from "./matrix-columns";
import { MatrixGrid } from "./matrix-grid";

const route = getRouteApi("/experiments/$experimentId/matrix");
/** Each search asks for every run: not at each key. */
const TYPED_MS = 300;

const WORDS: Record<Show, string> = { differ: "Cells differ", failed: "✗ No cell passes", errors: "! Errors", missing: "– Missing" };

interface Props {
  readonly matrix: Matrix;
  readonly columns: readonly MatrixColumn[];
  readonly axes: Axes;
  readonly pairedBy: string;
}

export function MatrixItems({ matrix, columns, axes, pairedBy }: Props) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const isNarrow = useNarrow();
  const { found, failed, isSearching } = useFound(columns, search.search ?? "");
  const rows = useMemo(() => selectRows(matrix, search.show, found), [matrix, search.show, found]);
  const counts = useMemo(() => new Map(SHOWS.map((show) => [show, countShown(matrix.rows, show)])), [matrix]);
  const common = useMemo(() => findCommonEvaluator(matrix), [matrix]);
  const scores = search.scores !== undefined && matrix.evaluators.includes(search.scores) ? search.scores : common;
  const at = Math.max(0, columns.findIndex((column) => column.run.id === search.column));
  const change = (next: { [name in keyof typeof search]?: (typeof search)[name] | undefined }, isPlace = false) => {
    void navigate({
      search: (old) => Object.fromEntries(Object.entries({ ...old, ...next }).filter(([, one]) => one !== undefined)),
      replace: !isPlace,
      resetScroll: false,
    });
  };
  const visible = isNarrow ? columns.slice(at, at + 1) : columns;
  return (
    <section>
      <div className="sec">
        <h2>Items</h2>
        <span className="label">{count(rows.length)} of {count(matrix.rows.length)} · those that fewest runs pass first · paired {pairedBy}</span>
      </div>
      <div className="bar">
        <SearchField label="Search items" placeholder="Search in inputs, outputs and errors of all columns" text={search.search ?? ""} onSearch={(text) => change({ search: text || undefined })} />
        {matrix.evaluators.length > 0 && (
          <select className="field" aria-label="Scores in cells" value={scores ?? ""} onChange={(event) => change({ scores: event.target.value || undefined })}>
            {common === null && <option value="">Evaluators passed</option>}
            {matrix.evaluators.map((name) => <option key={name} value={name}>Score of {shown(cut(name, 60))}</option>)}
          </select>
        )}
      </div>
      <div className="bar" role="group" aria-label="Filters">
        {SHOWS.filter((show) => show === "differ" || show === search.show || (counts.get(show) ?? 0) > 0).map((show) => (
          <button key={show} type="button" className="chip" aria-pressed={search.show === show} onClick={() => change({ show: search.show === show ? undefined : show })}>
            {WORDS[show]} <b>{count(counts.get(show) ?? 0)}</b>
          </button>
        ))}
      </div>
      {isNarrow && <ColumnSwitch columns={columns} at={at} axes={axes} onChoose={(column) => change({ column: column.run.id })} />}
      <div className="panel">
        {failed !== null ? <Failure error={failed.error} retry={failed.retry} /> : rows.length === 0 ? (
          <State title={isSearching ? "Searching" : "No such item"}><p>Without filters and search, every item of the runs is here.</p></State>
        ) : (
          <MatrixGrid
            matrix={matrix}
            rows={rows}
            columns={visible}
            scores={scores}
            open={search.item === undefined ? undefined : { item: search.item, run: search.column }}
            onOpen={(row, column) => change({ item: row.key, column: column.run.id }, true)}
          />
        )}
        <p className="foot-row">
          <span>{count(rows.length)} of {plural(matrix.rows.length, "item")} in {plural(columns.length, "run")}</span>
          <span className="hide-s"><kbd>j</kbd> <kbd>k</kbd> <kbd>h</kbd> <kbd>l</kbd> or arrows move, <kbd>enter</kbd> opens</span>
        </p>
      </div>
      <OpenCell matrix={matrix} rows={rows} columns={columns} onOpen={(item) => change({ item })} />
    </section>
  );
}

/** For each run of the matrix the places of the items that a search finds; null where nothing is searched for. */
function useFound(columns: readonly MatrixColumn[], text: string) {
  const wanted = useSettled(text.trim(), TYPED_MS);
  const answers = useQueries({
    queries: columns.map(({ run }) => ({ ...outlineQuery(run.id, versionOf(run), wanted), enabled: wanted !== "" })),
  });
  const data = answers.map((one) => one.data);
  const isWhole = wanted !== "" && data.every((one) => one !== undefined);
  const found = useMemo(() => {
    if (!isWhole) return null;
    const places: Set<string>[] = [];
    for (const [index, column] of columns.entries()) {
      const answer = data[index];
      const outline = answer === undefined ? null : readOutline(answer);
      places[column.index] = new Set(outline?.ordinals.map((_, position) => placeOf(outline, position)));
    }
    return places;
    // The answers themselves stay the same until they are read again.
  }, [isWhole, columns, ...data]);
  const failure = wanted === "" ? undefined : answers.find((one) => one.isLoadingError);
  return {
    found,
    isSearching: wanted !== "" && answers.some((one) => one.isFetching),
    failed: failure === undefined ? null : { error: failure.error, retry: () => answers.forEach((one) => one.isError && void one.refetch()) },
  };
}

interface SwitchProps {
  readonly columns: readonly MatrixColumn[];
  readonly at: number;
  readonly axes: Axes;
  readonly onChoose: (column: MatrixColumn) => void;
}

/** Which column a narrow screen shows, with what stands at its head. */
function ColumnSwitch({ columns, at, axes, onChoose }: SwitchProps) {
  const column = columns[at];
  if (column === undefined) return null;
  const go = (to: number) => {
    const next = columns[to];
    if (next !== undefined) onChoose(next);
  };
  const groups = [...new Set(columns.map((one) => one.group))];
  const options = (its: readonly MatrixColumn[]) => its.map((one) => (
    <option key={one.run.id} value={columns.indexOf(one)}>{shown(cut(one.label, 60))}{one.detail !== null && ` (${shown(cut(one.detail, 40))})`}</option>
  ));
  return (
    <div className="panel pad matrix-switch">
      <div className="bar">
        <button type="button" className="btn" aria-label="Previous column" disabled={at === 0} onClick={() => go(at - 1)}>←</button>
        <select className="field" aria-label="Column" value={at} onChange={(event) => go(Number(event.target.value))}>
          {axes.group === null ? options(columns) : groups.map((group) => (
            <optgroup key={group} label={shown(cut(group ?? "", 60))}>{options(columns.filter((one) => one.group === group))}</optgroup>
          ))}
        </select>
        <button type="button" className="btn" aria-label="Next column" disabled={at === columns.length - 1} onClick={() => go(at + 1)}>→</button>
      </div>
      <p className="label">column {count(at + 1)} of {count(columns.length)}{column.group !== null && <> · <bdi>{shown(cut(column.group, 80))}</bdi></>}</p>
      <ColumnName column={column} />
      <ColumnFigures column={column} />
    </div>
  );
}

interface OpenProps {
  readonly matrix: Matrix;
  readonly rows: readonly Row[];
  readonly columns: readonly MatrixColumn[];
  readonly onOpen: (item: string | undefined) => void;
}

/** The item of the address in the run of the address. */
function OpenCell({ matrix, rows, columns, onOpen }: OpenProps) {
  const search = route.useSearch();
  const column = columns.find((one) => one.run.id === search.column);
  const row = search.item === undefined ? undefined : matrix.rows.find((one) => one.key === search.item);
  const side = column === undefined ? undefined : matrix.sides[column.index];
  const cell = column === undefined ? null : (row?.cells[column.index] ?? null);
  if (column === undefined || side === undefined || row === undefined || cell === null) return null;
  // The next item that this run has, in the list as it is filtered.
  const step = (by: 1 | -1) => {
    for (let at = rows.indexOf(row) + by; at >= 0 && at < rows.length; at += by) {
      const next = rows[at];
      if (next !== undefined && next.cells[column.index] !== null) return onOpen(next.key);
    }
  };
  return <ItemDrawer run={column.run} place={placeOfCell(side, cell)} version={versionOf(column.run)} onClose={() => onOpen(undefined)} onStep={step} />;
}
