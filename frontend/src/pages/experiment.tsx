/** An experiment: how its pass rate went, and its runs. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { useChanges } from "../api/live";
import { RUNS_IN_TREND, RUNS_LISTED, type RunSummary, type Trends, isLive, runsQuery, trendsQuery } from "../api/queries";
import { TrendChart, type TrendPoint } from "../charts/charts";
import { LatestInSight } from "../charts/latest";
import { Failure, Loading } from "../components/bits";
import { EvaluatorTrends } from "../components/evaluator-trends";
import { RunsTable } from "../components/runs-table";
import { Crumbs } from "../components/shell";
import { count, plural, shown } from "../lib/format";
import { type Combination, findCombinations, splitByCombination } from "../lib/matrix";
import { findAxisStart, placeChanges, sayChanges } from "../lib/trends";

const route = getRouteApi("/experiments/$experimentId");

export function ExperimentPage() {
  const { experimentId } = route.useParams();
  const { zoom, combination } = route.useSearch();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const [isTold, setIsTold] = useState(false);
  const all = useQuery(runsQuery(experimentId, "", isTold));
  const parts = splitByCombination(all.data ?? []);
  const part = parts.find((one) => one.key === combination) ?? parts[0];
  // Those of one combination are spread over all runs.
  const limit = parts.length > 1 ? RUNS_LISTED : RUNS_IN_TREND;
  const trends = useQuery(trendsQuery(experimentId, limit));
  useChanges({ experiment: experimentId }, all.data?.some((run) => isLive(run.status)) === true, {
    onChange: () => Promise.all([["runs", experimentId], ["trends", experimentId]].map((queryKey) => queries.invalidateQueries({ queryKey }))),
    onTold: setIsTold,
  });
  if (trends.isLoadingError) return <Failure error={trends.error} retry={() => void trends.refetch()} />;
  if (all.isLoadingError) return <Failure error={all.error} retry={() => void all.refetch()} />;
  if (trends.data === undefined || all.data === undefined) return <Loading />;
  const { experimentName, projectName } = trends.data;
  const runs = part?.runs ?? [];
  const points = trendOf(runs, trends.data);
  const start = findAxisStart(points);
  const change = (next: { zoom?: "off" | undefined; combination?: string | undefined }) => {
    void navigate({ search: (old) => Object.fromEntries(Object.entries({ ...old, ...next }).filter(([, one]) => one !== undefined)), replace: true, resetScroll: false });
  };
  return (
    <>
      <Crumbs title={experimentName}>
        <Link to="/projects/$name" params={{ name: projectName }}>{shown(projectName)}</Link>
        <i>/</i>
      </Crumbs>
      <div className="head">
        <div>
          <h1>{shown(experimentName)}</h1>
          <p className="facts"><span>{all.data.length >= RUNS_LISTED ? `${count(RUNS_LISTED)} runs or more` : plural(all.data.length, "run")}</span></p>
        </div>
        {findCombinations(all.data).count > 1 && (
          <div className="actions">
            <Link className="btn" to="/experiments/$experimentId/matrix" params={{ experimentId }}>Show as matrix</Link>
          </div>
        )}
      </div>
      <section>
        <div className="sec">
          <h2>Pass rate</h2>
          <span className="label">{points.length >= RUNS_IN_TREND && `the latest ${RUNS_IN_TREND} runs that judged; `}percent of the judged items; bars are 95 % intervals; ◆ dataset, model or evaluators changed</span>
        </div>
        {part !== undefined && parts.length > 1 && <CombinationField parts={parts} chosen={part} onChange={(key) => change({ combination: key })} />}
        {start > 0 && (
          <p className="callout split">
            <span>{zoom === "off" ? "All rates are near 100 %." : <><b>Zoomed:</b> the axis begins at {start * 100} %, not at 0, so small changes look large.</>}</span>
            <button type="button" className="btn" onClick={() => change({ zoom: zoom === "off" ? undefined : "off" })}>
              {zoom === "off" ? `Zoom to ${start * 100} to 100 %` : "Show 0 to 100 %"}
            </button>
          </p>
        )}
        <LatestInSight><TrendChart points={points} start={zoom === "off" ? 0 : start} /></LatestInSight>
      </section>
      <EvaluatorTrends experimentId={experimentId} runs={endedOf(runs)} limit={limit} />
      <RunsTable experimentId={experimentId} latest={all.data} isTold={isTold} />
    </>
  );
}

interface CombinationFieldProps {
  readonly parts: readonly Combination<RunSummary>[];
  readonly chosen: Combination<RunSummary>;
  readonly onChange: (key: string | undefined) => void;
}

/** Which runs of a matrix the trends are of: a line through several prompts or models would say nothing. */
function CombinationField({ parts, chosen, onChange }: CombinationFieldProps) {
  return (
    <div className="versus">
      <label>
        <span className="label">Combination</span>
        <select className="field" value={chosen.key} onChange={({ target }) => onChange(target.value === parts[0]?.key ? undefined : target.value)}>
          {parts.map((one) => <option key={one.key} value={one.key}>{shown(one.label)} ({plural(one.runs.length, "run")})</option>)}
        </select>
      </label>
    </div>
  );
}

const COMPARABLE: readonly string[] = ["SUCCESS", "FAILED"];

/** The latest runs that succeeded or failed, oldest first. */
function endedOf(runs: readonly RunSummary[]): readonly RunSummary[] {
  return runs.filter((run) => COMPARABLE.includes(run.status)).slice(0, RUNS_IN_TREND).reverse();
}

/** The latest runs that ended and judged something, oldest first, each with what is another one than in the run before. */
function trendOf(runs: readonly RunSummary[], trends: Trends): TrendPoint[] {
  const ended = runs.filter((run) => run.completedAt !== null && run.judgedCount > 0).slice(0, RUNS_IN_TREND).reverse();
  const ids = new Set(ended.map((run) => run.id));
  const evaluators = placeChanges(trends.runs, (id) => ids.has(id));
  return ended.map((run, index) => ({
    id: run.id,
    startedAt: run.startedAt,
    passed: run.passedCount,
    judged: run.judgedCount,
    changed: index === 0 ? [] : [...changesBetween(ended[index - 1] as RunSummary, run), ...sayChanges(evaluators.get(run.id) ?? [])],
  }));
}

function changesBetween(before: RunSummary, run: RunSummary): string[] {
  const pairs = [
    ["dataset", datasetOf(before), datasetOf(run)],
    ["model", modelOf(before), modelOf(run)],
  ] as const;
  return pairs.filter(([, old, now]) => old !== now).map(([name, old, now]) => `${name}: ${old} → ${now}`);
}

const datasetOf = (run: RunSummary): string =>
  run.datasetName == null ? "none" : `${run.datasetName} v${run.datasetVersion ?? "?"}`;
const modelOf = (run: RunSummary): string => (typeof run.config?.["model"] === "string" ? run.config["model"] : "none");
