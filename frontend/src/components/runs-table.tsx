/** The runs of an experiment: filtered, sorted, with the columns that one wants, and some chosen to compare. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { type RunSummary, runPagesQuery } from "../api/queries";
import { cost, count, cut, duration, plural, shown } from "../lib/format";
import { isSameCombination } from "../lib/matrix";
import { COLUMNS, type ColumnName, MOST_COMPARED, RUN_STATUSES, chooseRun, readColumns, sayStatus, toggleColumn } from "../lib/runs";
import { SavedViews } from "./saved-views";
import { Failure, Loading, PassRate, SearchField, State, Time } from "./bits";

const route = getRouteApi("/experiments/$experimentId");

interface Props {
  readonly experimentId: string;
  /** The latest runs, whatever the filter: what a run is compared with, and which branches there are. */
  readonly latest: readonly RunSummary[];
  readonly isTold: boolean;
}

export function RunsTable({ experimentId, latest, isTold }: Props) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const pages = useInfiniteQuery(runPagesQuery(experimentId, search, isTold));
  const [chosen, setChosen] = useState<readonly RunSummary[]>([]);
  const columns = readColumns(search.columns);
  const change = (next: Partial<typeof search>) => {
    void navigate({
      search: (old) => Object.fromEntries(Object.entries({ ...old, ...next }).filter(([, one]) => one !== undefined)),
      replace: true,
      resetScroll: false,
    });
  };
  const runs = pages.data?.pages.flat() ?? [];
  const branches = [...new Set([...latest.map((run) => run.gitBranch), search.branch].filter((one) => one != null))];
  const tags = [...new Set([...latest.flatMap((run) => run.tags ?? []), search.tag].filter((one) => one !== undefined))];
  return (
    <section>
      <div className="sec">
        <h2>Runs</h2>
        <CompareChosen experimentId={experimentId} chosen={chosen} onClear={() => setChosen([])} />
      </div>
      <div className="bar">
        <SearchField label="Search runs" placeholder="Search by name, notes or tag" text={search.search ?? ""} onSearch={(text) => change({ search: text || undefined })} />
        <Choice label="Status" all="All statuses" value={search.status as (typeof RUN_STATUSES)[number] | undefined} values={RUN_STATUSES} onChange={(status) => change({ status })} />
        {branches.length > 0 && <Choice label="Branch" all="All branches" value={search.branch} values={branches} onChange={(branch) => change({ branch })} />}
        {tags.length > 0 && <Choice label="Tag" all="All tags" value={search.tag} values={tags} onChange={(tag) => change({ tag })} />}
        <details className="columns">
          <summary className="btn">Columns</summary>
          <div className="panel" role="group" aria-label="Columns">
            {COLUMNS.map(({ name, title }) => (
              <label key={name}>
                <input type="checkbox" checked={columns.includes(name)} onChange={() => change({ columns: toggleColumn(columns, name) })} /> {title}
              </label>
            ))}
          </div>
        </details>
      </div>
      <SavedViews area="runs" />
      {pages.isLoadingError && <Failure error={pages.error} retry={() => void pages.refetch()} />}
      {pages.isPending && <Loading />}
      {pages.data !== undefined && (
        <div className="panel wide-table" tabIndex={0}>
          {runs.length === 0 ? <State title="No run is found"><p>Another search or other filters may find one.</p></State> : (
            <table>
              <thead>
                <tr>
                  <th className="hide-s"><span className="unseen">Compare</span></th>
                  <Sortable title="Run" by="startedAt" sort={search.sort} onSort={(sort) => change({ sort })} />
                  {COLUMNS.filter(({ name }) => columns.includes(name)).map(({ name, title, by }) => (
                    by === null
                      ? <th key={name} className={classOf(name)}>{title}</th>
                      : <Sortable key={name} title={title} by={by} sort={search.sort} className={classOf(name)} onSort={(sort) => change({ sort })} />
                  ))}
                  <th className="hide-s">Against the run before</th>
                </tr>
              </thead>
              <tbody>
                {runs.map((run) => (
                  <RunRow
                    key={run.id}
                    experimentId={experimentId}
                    run={run}
                    before={findRunBefore(latest, run)}
                    columns={columns}
                    isChosen={chosen.some((one) => one.id === run.id)}
                    onChoose={() => setChosen(chooseRun(chosen, run))}
                  />
                ))}
              </tbody>
            </table>
          )}
          {pages.hasNextPage && (
            <p className="foot-row">
              <button type="button" className="btn" disabled={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>Show more runs</button>
            </p>
          )}
        </div>
      )}
    </section>
  );
}

/** The pass rate stays on a narrow screen. */
const classOf = (name: ColumnName): string =>
  `${COLUMNS.find((one) => one.name === name)?.isNumber === true ? "num" : ""}${name === "rate" ? "" : " hide-s"}`;

/** The run that ended before another one; in a matrix, the one of the same combination. */
const findRunBefore = (latest: readonly RunSummary[], run: RunSummary): RunSummary | undefined =>
  latest.slice(latest.findIndex((one) => one.id === run.id) + 1 || latest.length)
    .find((one) => one.completedAt !== null && isSameCombination(one.config, run.config));

interface RowProps {
  readonly experimentId: string;
  readonly run: RunSummary;
  readonly before: RunSummary | undefined;
  readonly columns: readonly ColumnName[];
  readonly isChosen: boolean;
  readonly onChoose: () => void;
}

function RunRow({ experimentId, run, before, columns, isChosen, onChoose }: RowProps) {
  const name = run.name ?? run.id;
  return (
    <tr>
      <td className="hide-s"><input type="checkbox" aria-label={`Compare ${name}`} checked={isChosen} onChange={onChoose} /></td>
      <th scope="row">
        <Link className="link" to="/runs/$runId" params={{ runId: run.id }}><bdi>{shown(name)}</bdi></Link>
        <span className="sub">
          <Time value={run.startedAt} />
          {run.isBaseline && " · baseline"}
        </span>
      </th>
      {COLUMNS.filter((one) => columns.includes(one.name)).map((column) => (
        <td key={column.name} className={classOf(column.name)}>{CELLS[column.name](run)}</td>
      ))}
      <td className="hide-s">
        {before !== undefined && (
          <Link className="link" to="/experiments/$experimentId/runs/$runId/diff" params={{ experimentId, runId: run.id }} search={{ baselineRunId: before.id }}>
            Compare
          </Link>
        )}
      </td>
    </tr>
  );
}

const CELLS: Record<ColumnName, (run: RunSummary) => ReactNode> = {
  status: (run) => sayStatus(run.status),
  rate: (run) => <PassRate run={run} withCounts={false} />,
  passed: (run) => (run.judgedCount === 0 ? "–" : `${count(run.passedCount)}/${count(run.judgedCount)}`),
  errors: (run) => (run.erroredCount ? <span className="error">{count(run.erroredCount)} !</span> : "–"),
  cost: (run) => cost(run.totalCostUsd),
  tokens: (run) => (run.totalTokensIn == null ? "–" : count(run.totalTokensIn + (run.totalTokensOut ?? 0))),
  latency: (run) => duration(run.avgLatencyMs),
  model: (run) => (typeof run.config?.["model"] === "string" ? shown(cut(run.config["model"], 60)) : "–"),
  dataset: (run) => (run.datasetName == null ? "–" : shown(`${run.datasetName} v${run.datasetVersion ?? "?"}`)),
  branch: (run) => (run.gitBranch == null ? "–" : shown(cut(run.gitBranch, 60))),
  tags: (run) => (run.tags ?? []).map((tag) => <span key={tag} className="tag">{shown(tag)}</span>),
};

interface SortableProps {
  readonly title: string;
  readonly by: string;
  readonly sort: string | undefined;
  readonly className?: string;
  readonly onSort: (sort: string | undefined) => void;
}

/** The head of a column: the first click sorts from the greatest, the next one from the least, a third one not. */
function Sortable({ title, by, sort, className = "", onSort }: SortableProps) {
  const order = sort === `${by},desc` ? "descending" : sort === `${by},asc` ? "ascending" : "none";
  const next = order === "none" ? `${by},desc` : order === "descending" ? `${by},asc` : undefined;
  return (
    <th className={className} aria-sort={order}>
      <button type="button" className="sort" onClick={() => onSort(next)}>
        {title}<span aria-hidden="true">{order === "descending" ? " ↓" : order === "ascending" ? " ↑" : ""}</span>
      </button>
    </th>
  );
}

interface ChoiceProps<T extends string> {
  readonly label: string;
  readonly all: string;
  readonly value: T | undefined;
  readonly values: readonly T[];
  readonly onChange: (value: T | undefined) => void;
}

function Choice<T extends string>({ label, all, value, values, onChange }: ChoiceProps<T>) {
  return (
    <select className="field" aria-label={label} value={value ?? ""} onChange={(event) => onChange((event.target.value || undefined) as T | undefined)}>
      <option value="">{all}</option>
      {values.map((one) => <option key={one} value={one}>{shown(cut(label === "Status" ? sayStatus(one) : one, 60))}</option>)}
    </select>
  );
}

interface ChosenProps {
  readonly experimentId: string;
  readonly chosen: readonly RunSummary[];
  readonly onClear: () => void;
}

/** The ways to the comparison of the runs that were ticked, the oldest of them as baseline, and to their matrix. */
function CompareChosen({ experimentId, chosen, onClear }: ChosenProps) {
  if (chosen.length === 0) return <span className="label hide-s">tick two to four to compare them, or more for a matrix</span>;
  const [baseline, ...others] = [...chosen].sort((a, b) => a.startedAt.localeCompare(b.startedAt));
  const candidate = others.at(-1);
  const also = others.slice(0, -1).map((run) => run.id);
  return (
    <span className="bar" role="status">
      {candidate === undefined && <span className="label">tick one more to compare it with</span>}
      {baseline !== undefined && candidate !== undefined && chosen.length <= MOST_COMPARED && (
        <Link
          className="btn"
          to="/experiments/$experimentId/runs/$runId/diff"
          params={{ experimentId, runId: candidate.id }}
          search={{ baselineRunId: baseline.id, ...(also.length > 0 ? { also } : {}) }}
        >
          Compare {plural(chosen.length, "run")}
        </Link>
      )}
      {candidate !== undefined && (
        <Link
          className="btn"
          to="/experiments/$experimentId/matrix"
          params={{ experimentId }}
          search={{ runs: chosen.map((run) => run.id).join() }}
        >
          Show {chosen.length > MOST_COMPARED && `${plural(chosen.length, "run")} `}as matrix
        </Link>
      )}
      <button type="button" className="btn bare" onClick={onClear}>Clear</button>
    </span>
  );
}
