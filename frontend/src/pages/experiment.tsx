/** An experiment: how its pass rate went, and its runs. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { useChanges } from "../api/live";
import { type RunSummary, type Trends, isLive, runsQuery, trendsQuery } from "../api/queries";
import { TrendChart, type TrendPoint } from "../charts/charts";
import { Failure, Loading, SearchField, State, Time } from "../components/bits";
import { SavedViews } from "../components/saved-views";
import { Crumbs } from "../components/shell";
import { cost, count, duration, plural, rate, shown } from "../lib/format";
import { findAxisStart, placeChanges, sayChanges } from "../lib/trends";

const route = getRouteApi("/experiments/$experimentId");

export function ExperimentPage() {
  const { experimentId } = route.useParams();
  const { search = "", zoom } = route.useSearch();
  const navigate = route.useNavigate();
  const trends = useQuery(trendsQuery(experimentId));
  const queries = useQueryClient();
  const [isTold, setIsTold] = useState(false);
  const all = useQuery(runsQuery(experimentId, "", isTold));
  const runs = useQuery(runsQuery(experimentId, search, isTold));
  useChanges({ experiment: experimentId }, all.data?.some((run) => isLive(run.status)) === true, {
    onChange: () => void queries.invalidateQueries({ queryKey: ["runs", experimentId] }),
    onTold: setIsTold,
  });
  if (trends.isLoadingError) return <Failure error={trends.error} retry={() => void trends.refetch()} />;
  if (runs.isLoadingError) return <Failure error={runs.error} retry={() => void runs.refetch()} />;
  if (trends.data === undefined || runs.data === undefined) return <Loading />;
  const { experimentName, projectName } = trends.data;
  const points = trendOf(all.data ?? [], trends.data);
  const start = findAxisStart(points);
  const change = (next: { search?: string | undefined; zoom?: "off" | undefined }) => {
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
          <p className="facts"><span>{plural(runs.data.length, "run")}</span></p>
        </div>
      </div>
      <section>
        <div className="sec">
          <h2>Pass rate</h2>
          <span className="label">percent of the judged items; bars are 95 % intervals; ◆ dataset, model or evaluators changed</span>
        </div>
        {start > 0 && (
          <p className="callout split">
            <span>{zoom === "off" ? "All rates are near 100 %." : <><b>Zoomed:</b> the axis begins at {start * 100} %, not at 0, so small changes look large.</>}</span>
            <button type="button" className="btn" onClick={() => change({ zoom: zoom === "off" ? undefined : "off" })}>
              {zoom === "off" ? `Zoom to ${start * 100} to 100 %` : "Show 0 to 100 %"}
            </button>
          </p>
        )}
        <div className="panel pad gap" tabIndex={0}><TrendChart points={points} start={zoom === "off" ? 0 : start} /></div>
      </section>
      <section>
        <div className="sec"><h2>Runs</h2></div>
        <div className="bar">
          <SearchField
            label="Search runs"
            placeholder="Search by name, notes or tag"
            text={search}
            onSearch={(text) => change({ search: text || undefined })}
          />
        </div>
        <SavedViews area="runs" />
        <div className="panel"><RunsTable experimentId={experimentId} runs={runs.data} /></div>
      </section>
    </>
  );
}

const MOST_POINTS = 30;

/** The latest runs that ended, oldest first, each with what is another one than in the run before. */
function trendOf(runs: readonly RunSummary[], trends: Trends): TrendPoint[] {
  const ended = runs.filter((run) => run.completedAt !== null && run.judgedCount > 0).slice(0, MOST_POINTS).reverse();
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

function RunsTable({ experimentId, runs }: { experimentId: string; runs: readonly RunSummary[] }) {
  if (runs.length === 0) return <State title="No run is found"><p>Another search may find one.</p></State>;
  return (
    <table>
      <thead>
        <tr>
          <th>Run</th>
          <th className="hide-s">Status</th>
          <th className="num">Pass rate</th>
          <th className="num hide-s">Passed</th>
          <th className="num hide-s">Errors</th>
          <th className="num hide-s">Cost</th>
          <th className="num hide-s">Latency</th>
          <th><span className="label">Against the run before</span></th>
        </tr>
      </thead>
      <tbody>
        {runs.map((run, index) => {
          const before = runs.slice(index + 1).find((one) => one.completedAt !== null);
          return (
            <tr key={run.id}>
              <th scope="row">
                <Link className="link" to="/runs/$runId" params={{ runId: run.id }}>{shown(run.name ?? run.id)}</Link>
                <span className="sub">
                  <Time value={run.startedAt} />
                  {run.gitBranch != null && ` · ${run.gitBranch}`}
                  {run.isBaseline && " · baseline"}
                </span>
              </th>
              <td className="hide-s">{run.status.toLowerCase()}</td>
              <td className="num">{rate(run.judgedCount ? run.passedCount / run.judgedCount : null)}</td>
              <td className="num hide-s">{count(run.passedCount)}/{count(run.judgedCount)}</td>
              <td className="num hide-s">
                {run.erroredCount ? <span className="error">{count(run.erroredCount)} !</span> : "–"}
              </td>
              <td className="num hide-s">{cost(run.totalCostUsd)}</td>
              <td className="num hide-s">{duration(run.avgLatencyMs)}</td>
              <td>
                {before !== undefined && (
                  <Link
                    className="link"
                    to="/experiments/$experimentId/runs/$runId/diff"
                    params={{ experimentId, runId: run.id }}
                    search={{ baselineRunId: before.id }}
                  >
                    Compare
                  </Link>
                )}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
