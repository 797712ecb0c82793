/** Runs of a grid of parameters, such as prompts and providers, as one table: a row for each item, a column for each run. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { ApiError } from "../api/client";
import { type Run, itemAttributesQuery, outlineQuery, runQuery, runsQuery, trendsQuery, versionOf } from "../api/queries";
import { Failure, Loading, State } from "../components/bits";
import { ExperimentCrumbs } from "../components/experiment-crumbs";
import { MatrixBest, type MatrixColumn } from "../components/matrix-columns";
import { MatrixItems } from "../components/matrix-items";
import { count, plural, shown } from "../lib/format";
import { type Axes, buildMatrix, findCombinations, groupRuns, mayMixItems, readAxes, valueOf } from "../lib/matrix";
import { findBest } from "../lib/matrix-best";
import { quantile, readOutline } from "../lib/outline";
import { MOST_CHOSEN } from "../lib/runs";
import "../styles/matrix.css";

const route = getRouteApi("/experiments/$experimentId/matrix");

export function MatrixPage() {
  const { experimentId } = route.useParams();
  const search = route.useSearch();
  const trends = useQuery(trendsQuery(experimentId));
  const isAutomatic = search.runs === undefined;
  const listed = useQuery({ ...runsQuery(experimentId), enabled: isAutomatic });
  const latest = useMemo(
    () => findCombinations(listed.data ?? [], { ...(search.group !== undefined && { group: search.group }), ...(search.by !== undefined && { by: search.by }) }),
    [listed.data, search.group, search.by],
  );
  const named = [...new Set(search.runs?.split(",").map((id) => id.trim()).filter((id) => id !== ""))];
  const ids = isAutomatic ? latest.runs.map((run) => run.id) : named.slice(0, MOST_CHOSEN);
  const all = isAutomatic ? latest.count : named.length;
  if (trends.isLoadingError) return <Failure error={trends.error} retry={() => void trends.refetch()} />;
  if (listed.isLoadingError) return <Failure error={listed.error} retry={() => void listed.refetch()} />;
  if (trends.data === undefined || (isAutomatic && listed.data === undefined)) return <Loading />;
  return (
    <>
      <ExperimentCrumbs title="Matrix" projectName={trends.data.projectName} experimentId={experimentId} experimentName={trends.data.experimentName} />
      <div className="head">
        <div>
          <h1>Matrix</h1>
          <p className="facts">
            <span>{shown(trends.data.experimentName)}</span>
            <span>{isAutomatic ? "the latest run of each combination" : "chosen runs"}</span>
          </p>
        </div>
        <div className="actions"><button type="button" className="btn" onClick={() => print()}>Print</button></div>
      </div>
      {all > ids.length && <p className="callout warn">{count(ids.length)} of {plural(all, isAutomatic ? "combination" : "run")} are shown, as many as a matrix has columns.</p>}
      {ids.length === 0 ? <NoRuns experimentId={experimentId} isAutomatic={isAutomatic} /> : <Runs key={ids.join()} ids={ids} />}
    </>
  );
}

function NoRuns({ experimentId, isAutomatic }: { experimentId: string; isAutomatic: boolean }) {
  return (
    <State
      title={isAutomatic ? "The runs of this experiment name no parameters" : "No run is named"}
      actions={<Link className="btn" to="/experiments/$experimentId" params={{ experimentId }}>Choose runs</Link>}
    >
      <p>
        A matrix has the latest run of each combination of parameters that the metadata of runs name, such as “prompt” and “provider”
        or “model”. Other runs are chosen in the table of the experiment.
      </p>
    </State>
  );
}

/** Reads the runs; those that are not there any more have no column. */
function Runs({ ids }: { ids: readonly string[] }) {
  const runs = useQueries({ queries: ids.map((id) => runQuery(id)) });
  const isGone = runs.map((one) => one.isLoadingError && one.error instanceof ApiError && one.error.status === 404);
  const there = runs.flatMap((one) => one.data ?? []);
  const outlines = useQueries({ queries: there.map((run) => outlineQuery(run.id, versionOf(run))) });
  const attributes = useQueries({ queries: there.map((run) => itemAttributesQuery(run.id, versionOf(run))) });
  const gone = isGone.filter(Boolean).length;
  const answers = [...outlines, ...attributes].map((one) => one.data);
  const isWhole = there.length + gone === ids.length && answers.every((one) => one !== undefined);
  const matrix = useMemo(
    () => (isWhole ? buildMatrix(outlines.flatMap((one, index) => (one.data === undefined ? [] : [{ outline: readOutline(one.data), attributes: attributes[index]?.data ?? null }]))) : null),
    // The answers themselves stay the same until they are read again.
    [isWhole, ...answers],
  );
  const parts = [...runs.filter((_, index) => !isGone[index]), ...outlines, ...attributes];
  const failed = parts.find((one) => one.isLoadingError);
  if (failed !== undefined) return <Failure error={failed.error} retry={() => parts.forEach((one) => one.isError && void one.refetch())} />;
  if (matrix === null) {
    return (
      <>
        <p className="label" role="status">Reading {plural(ids.length, "run")}: {count(outlines.filter((one) => one.data !== undefined).length)} of {count(ids.length)}</p>
        <Loading />
      </>
    );
  }
  return (
    <>
      {gone > 0 && <p className="callout warn">{plural(gone, "run")} of this address {gone === 1 ? "is" : "are"} not here any more.</p>}
      {there.length === 0 ? <State title="No run is left"><p>They were deleted, or belong to another tenant.</p></State> : <Body runs={there} matrix={matrix} />}
    </>
  );
}

const PAIRED_BY = { lineage: "by case of the dataset", dataset_item_id: "by dataset item", example: "by the ids of examples", ordinal: "by place in the run" };

function Body({ runs, matrix }: { runs: readonly Run[]; matrix: ReturnType<typeof buildMatrix> }) {
  const { group, by } = route.useSearch();
  const axes = useMemo(
    () => readAxes(runs.map((run) => run.config), { ...(group !== undefined && { group }), ...(by !== undefined && { by }) }),
    [runs, group, by],
  );
  const best = useMemo(() => findBest(matrix), [matrix]);
  const medians = useMemo(() => matrix.sides.map((side) => quantile(side.outline.latencies, 0.5)), [matrix]);
  const columns = useMemo(
    () => makeColumns(runs, axes, best !== null && best.isSignal ? best.first : null, medians),
    [runs, axes, best, medians],
  );
  return (
    <>
      <MatrixBest best={best} columns={columns} />
      {mayMixItems(matrix) && (
        <p className="callout warn">The items are paired by their place in the run, and the runs have different numbers of items: rows may mix items, and no run is called best. Items with ids are paired by them.</p>
      )}
      <Parameters axes={axes} />
      <MatrixItems matrix={matrix} columns={columns} axes={axes} pairedBy={PAIRED_BY[matrix.pairedBy]} />
    </>
  );
}

function makeColumns(runs: readonly Run[], axes: Axes, best: number | null, medians: readonly (number | null)[]): MatrixColumn[] {
  return groupRuns(runs, axes).flatMap(({ value, runs: its }) => its.map((run): MatrixColumn => {
    const index = runs.indexOf(run);
    const own = valueOf(run.config, axes.column);
    const twin = its.some((one) => one !== run && valueOf(one.config, axes.column) === own);
    return {
      run,
      index,
      group: axes.group === null ? null : (value ?? "not set"),
      label: axes.column === null ? (run.name ?? run.id) : (own ?? "not set"),
      // Runs with the same parameters are told apart by their names.
      detail: axes.column !== null && twin ? (run.name ?? run.id) : null,
      isBest: index === best,
      medianMs: medians[index] ?? null,
    };
  }));
}

/** What the columns are grouped by, and what tells them apart within a group. */
function Parameters({ axes }: { axes: Axes }) {
  const navigate = route.useNavigate();
  const change = (next: { group: string; by?: string | undefined }) => {
    void navigate({
      search: (old) => Object.fromEntries(Object.entries({ ...old, ...next }).filter(([, one]) => one !== undefined)),
      replace: true,
      resetScroll: false,
    });
  };
  const { group, column, names } = axes;
  if (group === null || column === null) return null;
  return (
    <div className="versus">
      <label>
        <span className="label">Grouped by</span>
        <select className="field" value={group} onChange={(event) => change({ group: event.target.value, by: event.target.value === column ? group : column })}>
          {names.map((name) => <option key={name} value={name}>{shown(name)}</option>)}
        </select>
      </label>
      <label>
        <span className="label">Columns</span>
        <select className="field" value={column} onChange={(event) => change({ group: event.target.value === group ? column : group, by: event.target.value })}>
          {names.map((name) => <option key={name} value={name}>{shown(name)}</option>)}
        </select>
      </label>
      <button type="button" className="btn" onClick={() => change({ group: column, by: group })}>Swap</button>
    </div>
  );
}
