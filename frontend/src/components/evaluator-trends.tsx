/** How the mean of each evaluator went over the latest runs. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type EvaluatorTrend, type RunSummary, evaluatorTrendsQuery } from "../api/queries";
import { count, score, shown, time } from "../lib/format";
import { meanInterval } from "../lib/runs";
import { Failure } from "./bits";

const MOST_AT_FIRST = 6;
const WIDTH = 260;
const HEIGHT = 44;

interface Props {
  readonly experimentId: string;
  /** The runs of the trend, oldest first. */
  readonly runs: readonly RunSummary[];
  /** How many of the latest runs have to be read, so that these are among them. */
  readonly limit: number;
}

export function EvaluatorTrends({ experimentId, runs, limit }: Props) {
  const trends = useQuery({ ...evaluatorTrendsQuery(experimentId, runs.at(-1)?.id ?? "", limit), enabled: runs.length > 0 });
  const [isWhole, setIsWhole] = useState(false);
  if (trends.isLoadingError) return <Failure error={trends.error} retry={() => void trends.refetch()} />;
  const evaluators = trends.data?.evaluators ?? [];
  if (evaluators.length === 0) return null;
  const places = new Map(runs.map((run, index) => [run.id, index]));
  return (
    <section>
      <div className="sec">
        <h2>Evaluators over time</h2>
        <span className="label">mean score of each run; bars are intervals of at least 95 %, where the range is known; ◆ the evaluator itself changed</span>
      </div>
      <div className="panel wide-table" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th>Evaluator</th>
              <th>Over {runs.length === 1 ? "one run" : `${count(runs.length)} runs`}</th>
              <th className="num hide-s">Before</th>
              <th className="num">Latest</th>
              <th className="num hide-s">n</th>
            </tr>
          </thead>
          <tbody>
            {(isWhole ? evaluators : evaluators.slice(0, MOST_AT_FIRST)).map((one) => (
              <TrendRow key={one.evaluatorName} trend={one} runs={runs} places={places} />
            ))}
          </tbody>
        </table>
        {!isWhole && evaluators.length > MOST_AT_FIRST && (
          <p className="foot-row">
            <button type="button" className="btn" onClick={() => setIsWhole(true)}>Show all {count(evaluators.length)} evaluators</button>
          </p>
        )}
      </div>
    </section>
  );
}

interface RowProps {
  readonly trend: EvaluatorTrend;
  readonly runs: readonly RunSummary[];
  readonly places: ReadonlyMap<string, number>;
}

function TrendRow({ trend, runs, places }: RowProps) {
  const points = trend.points.filter((point) => point.meanScore !== null && places.has(point.runId));
  const latest = points.at(-1);
  const before = points.at(-2);
  const isGone = latest !== undefined && latest.runId !== runs.at(-1)?.id;
  return (
    <tr>
      <th scope="row">
        <bdi>{shown(trend.evaluatorName)}</bdi>
        <span className="sub">
          {trend.direction === "LOWER_IS_BETTER" ? "lower is better" : latest?.threshold == null ? "" : `at least ${score(latest.threshold)}`}
          {isGone && " not in the latest run"}
        </span>
      </th>
      <td><Spark trend={trend} points={points} runs={runs} places={places} /></td>
      <td className="num muted hide-s">{score(before?.meanScore)}</td>
      <td className="num">{score(latest?.meanScore)}</td>
      <td className="num none hide-s">{latest === undefined ? "–" : count(latest.scoreCount)}</td>
    </tr>
  );
}

interface SparkProps extends RowProps {
  readonly points: EvaluatorTrend["points"];
}

function Spark({ trend, points, runs, places }: SparkProps) {
  const means = points.map((point) => point.meanScore ?? 0);
  const low = Math.min(trend.rangeLow ?? Infinity, ...means);
  const high = Math.max(trend.rangeHigh ?? -Infinity, ...means);
  if (means.length === 0) return <span className="muted">–</span>;
  const x = (runId: string) => 8 + ((places.get(runId) ?? 0) / Math.max(1, runs.length - 1)) * (WIDTH - 16);
  const y = (value: number) => 5 + (1 - (high === low ? 0.5 : (value - low) / (high - low))) * (HEIGHT - 10);
  const label = `${trend.evaluatorName}: mean score ${means.map((mean) => score(mean)).join(", ")}, on an axis from ${score(low)} to ${score(high)}`;
  return (
    <svg className="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <line className="l-axis" x1="0" x2={WIDTH} y1={y(low)} y2={y(low)} />
      <polyline className="l-data" points={points.map((point) => `${x(point.runId)},${y(point.meanScore ?? 0)}`).join(" ")} />
      {points.map((point, index) => {
        const before = points[index - 1];
        const interval = trend.rangeLow === null || trend.rangeHigh === null ? null : meanInterval(point.meanScore ?? 0, point.scoreCount, trend.rangeLow, trend.rangeHigh);
        const isOther = before !== undefined && before.fingerprint !== null && point.fingerprint !== null && before.fingerprint !== point.fingerprint;
        const run = runs[places.get(point.runId) ?? 0];
        return (
          <g key={point.runId}>
            {interval !== null && <line className="l-int" x1={x(point.runId)} x2={x(point.runId)} y1={y(interval[0])} y2={y(interval[1])} />}
            {isOther && <text x={x(point.runId)} y="10" textAnchor="middle">◆</text>}
            <circle className="ring" cx={x(point.runId)} cy={y(point.meanScore ?? 0)} r="2.5">
              <title>{`${time(run?.startedAt ?? "")}: ${score(point.meanScore)} (n = ${count(point.scoreCount)})${isOther ? "; the evaluator changed" : ""}`}</title>
            </circle>
          </g>
        );
      })}
    </svg>
  );
}
