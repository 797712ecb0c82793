/** Two to four runs compared: the sentence first, then where they differ, item by item. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import {
  type DiffSummary, RUNS_LISTED, type Run, type RunSummary, baselineQuery, diffQuery, itemAttributesQuery, outlineQuery, runQuery, runsQuery,
  trendsQuery,
} from "../api/queries";
import { type Change, ChangeChart } from "../charts/charts";
import { Failure, Loading, State } from "../components/bits";
import { CompareItems } from "../components/compare-items";
import { Slices } from "../components/compare-slices";
import { Costs } from "../components/compare-costs";
import { ExperimentCrumbs } from "../components/experiment-crumbs";
import { count, cut, plural, points, rate, shown, time } from "../lib/format";
import { type Outcome, readOutline } from "../lib/outline";
import { type Kind, type PairedBy, type Pairing, countKinds, pairRuns } from "../lib/pairing";

const route = getRouteApi("/experiments/$experimentId/runs/$runId/diff");
const MOST_RUNS = 4;

export function ComparePage() {
  const { experimentId, runId } = route.useParams();
  const search = route.useSearch();
  const trends = useQuery(trendsQuery(experimentId));
  const runs = useQuery(runsQuery(experimentId));
  const chosen = useQuery({ ...baselineQuery(experimentId, runId), enabled: search.baselineRunId === undefined });
  const baseline = search.baselineRunId ?? chosen.data?.baselineRunId ?? undefined;
  const candidates = [...new Set([runId, ...(search.also ?? [])])].filter((id) => id !== baseline);
  if (trends.isLoadingError) return <Failure error={trends.error} retry={() => void trends.refetch()} />;
  if (runs.isLoadingError) return <Failure error={runs.error} retry={() => void runs.refetch()} />;
  if (trends.data === undefined || runs.data === undefined) return <Loading />;
  return (
    <>
      <ExperimentCrumbs title="Compare" projectName={trends.data.projectName} experimentId={experimentId} experimentName={trends.data.experimentName} />
      <div className="head">
        <div><h1>Compare</h1></div>
        <div className="actions">
          {baseline !== undefined && candidates.length > 0 && (
            <Link className="btn" to="/experiments/$experimentId/matrix" params={{ experimentId }} search={{ runs: [baseline, ...candidates].join() }}>
              Show as matrix
            </Link>
          )}
          <button type="button" className="btn" onClick={() => print()}>Print</button>
        </div>
      </div>
      <RunPickers runs={runs.data} baseline={baseline} candidates={candidates} />
      {baseline === undefined && !chosen.isPending && !chosen.isError && (
        <State title="Choose a run to compare with">
          <p>{chosen.data?.reason ?? "An earlier run that succeeded, or one that is pinned as baseline, would be taken."}</p>
        </State>
      )}
      {chosen.isLoadingError && baseline === undefined && <Failure error={chosen.error} retry={() => void chosen.refetch()} />}
      {baseline !== undefined && candidates.length > 0 && (
        <Comparison key={[baseline, ...candidates].join()} experimentId={experimentId} baseline={baseline} candidates={candidates} />
      )}
    </>
  );
}

interface PickersProps {
  readonly runs: readonly RunSummary[];
  readonly baseline: string | undefined;
  readonly candidates: readonly string[];
}

function RunPickers({ runs, baseline, candidates }: PickersProps) {
  const { experimentId } = route.useParams();
  const navigate = route.useNavigate();
  const taken = new Set([baseline, ...candidates]);
  const options = runs.filter((run) => run.completedAt !== null);
  const go = (nextBaseline: string | undefined, [first, ...also]: readonly string[]) => {
    if (first === undefined) return;
    void navigate({
      params: { experimentId, runId: first },
      search: {
        ...(nextBaseline === undefined ? {} : { baselineRunId: nextBaseline }),
        ...(also.length > 0 ? { also } : {}),
      },
      resetScroll: false,
    });
  };
  const picker = (label: string, value: string, choose: (next: string) => void, remove?: () => void) => (
    <span key={label} className="picker">
      <label>
        <span className="label">{label} </span>
        <select className="field" value={value} onChange={(event) => choose(event.target.value)}>
          {(value === "" || !options.some((run) => run.id === value)) && <option value={value}>{value === "" ? "choose a run" : `run ${value.slice(0, 8)}`}</option>}
          {options.filter((run) => run.id === value || !taken.has(run.id)).map((run) => (
            <option key={run.id} value={run.id}>{nameOfRun(run)}</option>
          ))}
        </select>
      </label>
      {remove !== undefined && <button type="button" className="btn bare" aria-label={`Remove ${label}`} onClick={remove}>×</button>}
    </span>
  );
  return (
    <div className="versus">
      {picker("Baseline", baseline ?? "", (next) => go(next, candidates))}
      {candidates.map((id, index) =>
        picker(
          candidates.length === 1 ? "Candidate" : `Candidate ${index + 1}`,
          id,
          (next) => go(baseline, candidates.with(index, next)),
          candidates.length > 1 ? () => go(baseline, candidates.filter((_, at) => at !== index)) : undefined,
        ),
      )}
      {baseline !== undefined && candidates.length + 1 < MOST_RUNS && options.some((run) => !taken.has(run.id)) &&
        picker("Add run", "", (next) => next !== "" && go(baseline, [...candidates, next]))}
      {runs.length >= RUNS_LISTED && <span className="label">Of the latest {count(RUNS_LISTED)} runs; older ones are chosen in the list of the <Link className="link" to="/experiments/$experimentId" params={{ experimentId }}>experiment</Link>.</span>}
    </div>
  );
}

// The rate that comparisons use: what errored did not pass.
const nameOfRun = (run: RunSummary): string =>
  `${run.name ?? run.id} · ${run.judgedCount === 0 ? "not judged" : rate(run.passRate)} · ${time(run.startedAt)}`;

interface ComparisonProps {
  readonly experimentId: string;
  readonly baseline: string;
  readonly candidates: readonly string[];
}

function Comparison({ experimentId, baseline, candidates }: ComparisonProps) {
  const ids = [baseline, ...candidates];
  const diffs = useQueries({ queries: candidates.map((id) => diffQuery(experimentId, id, baseline)) });
  const runs = useQueries({ queries: ids.map((id) => runQuery(id)) });
  const outlines = useQueries({ queries: ids.map((id) => outlineQuery(id, "ended")) });
  const attributes = useQueries({ queries: ids.map((id) => itemAttributesQuery(id, "ended")) });
  const all = [...diffs, ...runs, ...outlines, ...attributes];
  const summaries = diffs.flatMap((one) => one.data ?? []);
  const described = runs.flatMap((one) => one.data ?? []);
  const by = pairedBy(summaries);
  const isWhole = all.every((one) => one.data !== undefined);
  const answers = [...outlines, ...attributes].map((one) => one.data);
  const pairing = useMemo(() => {
    if (!isWhole) return null;
    const sides = outlines.map((one, index) => ({
      outline: readOutline(one.data ?? NOTHING),
      attributes: attributes[index]?.data ?? null,
    }));
    return pairRuns(sides, by, lowerIsBetter(summaries));
    // The answers themselves stay the same until they are read again.
  }, [isWhole, by, ...answers]);
  const failed = all.find((one) => one.isLoadingError);
  if (failed !== undefined) return <Failure error={failed.error} retry={() => all.forEach((one) => one.isError && void one.refetch())} />;
  if (pairing === null) return <Loading />;
  const [summary] = summaries;
  return (
    <>
      {candidates.length === 1 && summary !== undefined ? (
        <>
          <Facts summary={summary} />
          <Sentence summary={summary} pairing={pairing} />
        </>
      ) : (
        <Verdicts summaries={summaries} runs={described} pairing={pairing} />
      )}
      {summaries.length > 1 && new Set(summaries.map((one) => one.pairedBy)).size > 1 && (
        <p className="callout warn">The items are paired by their place here, since not all runs are of one dataset.</p>
      )}
      <Warnings summaries={summaries} runs={described} />
      {candidates.length === 1 && summary !== undefined && (
        <section>
          <div className="sec">
            <h2>Change, in points</h2>
            <span className="label">scores × 100; bars are 95 % intervals; left of zero is worse</span>
          </div>
          <div className="panel pad"><ChangeChart changes={changesOf(summary)} /></div>
        </section>
      )}
      <Costs pairing={pairing} runs={described} />
      <Slices pairing={pairing} runs={described} />
      <CompareItems pairing={pairing} runs={described} />
    </>
  );
}

const NOTHING = { ordinals: [], repetitions: [], outcomes: "", latenciesMs: [], evaluators: [], excludedEvaluators: [] };

function pairedBy(summaries: readonly DiffSummary[]): PairedBy {
  const all = new Set(summaries.map((one) => one.pairedBy));
  const [first] = all;
  return all.size === 1 && (first === "dataset_item_id" || first === "lineage") ? first : "ordinal";
}

function lowerIsBetter(summaries: readonly DiffSummary[]): Set<string> {
  const metrics = summaries.flatMap((one) => one.metrics as unknown as readonly Metric[]);
  return new Set(metrics.filter((one) => one.direction === "lower_is_better").map((one) => one.evaluator));
}

function Warnings({ summaries, runs }: { summaries: readonly DiffSummary[]; runs: readonly Run[] }) {
  const warnings = [...new Set(summaries.flatMap((summary, index) =>
    summary.warnings.map((one) =>
      summaries.every((other) => other.warnings.includes(one)) ? one : `${runs[index + 1]?.name ?? summary.candidateRunId}: ${one}`,
    ),
  ))];
  const changed = [...new Set(summaries.flatMap((one) => one.evaluatorChanges.map((change) => change.evaluator)))];
  return (
    <>
      {warnings.map((warning) => <p key={warning} className="callout warn">{shown(warning)}</p>)}
      {changed.length > 0 && (
        <p className="callout warn">
          <b>Not the same evaluator in all runs:</b> {shown(changed.join(", "))}. Its scores may differ for that reason alone.
        </p>
      )}
    </>
  );
}

function Facts({ summary }: { summary: DiffSummary }) {
  return (
    <p className="facts">
      <span>{plural(summary.pairedCount - summary.notJudgedCount, "item")} compared</span>
      {summary.notJudgedCount > 0 && <span>{count(summary.notJudgedCount)} left out, not judged in both</span>}
      {summary.pairedBy != null && <span>paired by {PAIRED_BY[summary.pairedBy] ?? summary.pairedBy}</span>}
    </p>
  );
}

const PAIRED_BY: Record<string, string> = {
  dataset_item_id: "dataset item",
  lineage: "case of the dataset",
  ordinal: "place in the run",
};

const outcomeOf = (summary: DiffSummary): Outcome =>
  !summary.significant || !summary.pairedDelta ? "none" : summary.pairedDelta < 0 ? "fail" : "pass";

const SIGNS: Record<Outcome, string> = { none: "–", fail: "✗", pass: "✓", error: "!" };

function Sentence({ summary, pairing }: { summary: DiffSummary; pairing: Pairing }) {
  const delta = summary.pairedDelta ?? null;
  const [low, high] = summary.pairedDeltaInterval ?? [];
  if (delta === null) {
    return <p className="verdict"><span className="none">– No item is judged in both runs.</span></p>;
  }
  const outcome = outcomeOf(summary);
  const size = points(Math.abs(delta)).replace("+", "");
  const moved = delta === 0 ? "did not change" : `${delta < 0 ? "fell" : "rose"} ${size} points`;
  return (
    <>
      <p className="verdict">
        <span className={outcome}>{SIGNS[outcome]} Pass rate {moved}</span>
        <span className="of">
          , from {rate(summary.pairedBaselinePassRate)} to {rate(summary.pairedCandidatePassRate)}
          {low !== undefined && high !== undefined && `; 95 % between ${points(low)} and ${points(high)}`}.
        </span>
      </p>
      <p className="sentence">
        <Flips pairing={pairing} run={1} />{" "}
        {summary.pValue != null && (summary.significant
          ? `Chance alone would do this with a probability of ${summary.pValue < 0.001 ? "less than 0.001" : summary.pValue.toFixed(3)}.`
          : "That is no more than chance alone does.")}{" "}
        {summary.minimumDetectableDrop != null &&
          `With ${plural(summary.pairedCount, "item")} a drop of ${points(summary.minimumDetectableDrop).replace("+", "")} points is seen 8 times in 10; smaller ones often stay hidden.`}
      </p>
    </>
  );
}

const FLIPS: readonly (readonly [Kind, Outcome, string])[] = [
  ["failed", "fail", "✗ newly failed"],
  ["errored", "error", "! newly errored"],
  ["passed", "pass", "✓ newly passed"],
];

function Flips({ pairing, run }: { pairing: Pairing; run: number }) {
  const counts = countKinds(pairing.items, run);
  const changed = counts.failed + counts.errored + counts.passed;
  if (changed === 0) return <>No item changed its outcome.</>;
  const parts = FLIPS.filter(([kind]) => counts[kind] > 0);
  return (
    <>
      {plural(changed, "item")} changed {changed === 1 ? "its" : "their"} outcome:{" "}
      {parts.map(([kind, outcome, word], index) => (
        <span key={kind}>{index > 0 && ", "}<b className={outcome}>{count(counts[kind])} {word}</b></span>
      ))}.
    </>
  );
}

/** Several candidates against one baseline, a row each. */
function Verdicts({ summaries, runs, pairing }: { summaries: readonly DiffSummary[]; runs: readonly Run[]; pairing: Pairing }) {
  return (
    <section>
      <div className="panel">
        <table role="table" className="cards-s">
          <thead role="rowgroup">
            <tr role="row">
              <th role="columnheader">Against {shown(cut(runs[0]?.name ?? "the baseline", 40))}, {summaries[0]?.pairedBaselinePassRate == null ? "of which no item is judged in both" : `${rate(summaries[0].pairedBaselinePassRate)} passed`}</th>
              <th role="columnheader" className="num">Pass rate</th>
              <th role="columnheader" className="num">Change, in points</th>
              <th role="columnheader" className="num">95 % between</th>
              <th role="columnheader">Items that changed</th>
              <th role="columnheader">Verdict</th>
            </tr>
          </thead>
          <tbody role="rowgroup">
            {summaries.map((summary, index) => {
              const outcome = outcomeOf(summary);
              const run = runs[index + 1];
              const [low, high] = summary.pairedDeltaInterval ?? [];
              return (
                <tr role="row" key={summary.candidateRunId}>
                  <th scope="row" role="rowheader">
                    <Link className="link" to="/runs/$runId" params={{ runId: summary.candidateRunId }}>{shown(run?.name ?? summary.candidateRunId)}</Link>
                  </th>
                  <td role="cell" className="num" data-label="Pass rate">{summary.pairedCandidatePassRate == null ? <span className="none" title="No item is judged in both runs">not judged</span> : rate(summary.pairedCandidatePassRate)}</td>
                  <td role="cell" className={`num ${outcome}`} data-label="Change, in points">{points(summary.pairedDelta)}</td>
                  <td role="cell" className="num muted" data-label="95 % between">{low === undefined || high === undefined ? "–" : `${points(low)} and ${points(high)}`}</td>
                  <td role="cell" data-label="Items that changed"><Flips pairing={pairing} run={index + 1} /></td>
                  <td role="cell" data-label="Verdict"><span className={`sign ${outcome}`}>{SIGNS[outcome]} {outcome === "none" ? "no clear change" : outcome === "fail" ? "regressed" : "improved"}</span></td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface Metric {
  readonly evaluator: string;
  readonly direction: string;
  readonly delta: number | null;
  readonly interval: readonly [number, number] | null;
  readonly status: string;
  readonly significant: boolean;
}

function changesOf(summary: DiffSummary): Change[] {
  const whole: Change[] = summary.pairedDelta == null ? [] : [{
    name: "Pass rate",
    raw: summary.pairedDelta,
    delta: summary.pairedDelta,
    interval: (summary.pairedDeltaInterval as [number, number] | null | undefined) ?? null,
    outcome: !summary.significant ? "none" : summary.pairedDelta < 0 ? "fail" : "pass",
  }];
  const metrics = (summary.metrics as unknown as readonly Metric[]).flatMap((metric): Change[] => {
    if (metric.delta === null) return [];
    const lowerIsBetter = metric.direction === "lower_is_better";
    const sign = lowerIsBetter ? -1 : 1;
    const ends = metric.interval?.map((end) => sign * end).sort((a, b) => a - b) as [number, number] | undefined;
    return [{
      name: lowerIsBetter ? `${metric.evaluator} (lower is better)` : metric.evaluator,
      raw: metric.delta,
      delta: sign * metric.delta,
      interval: ends ?? null,
      outcome: !metric.significant || metric.delta === 0 ? "none" : sign * metric.delta < 0 ? "fail" : "pass",
    }];
  });
  return [...whole, ...metrics];
}
