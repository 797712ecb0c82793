/** Two runs compared: the sentence first, then where they differ, item by item. */
import { useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { type Diff, type DiffCase, type Item, baselineQuery, diffQuery, itemByIdQuery, runsQuery, trendsQuery } from "../api/queries";
import { type Change, ChangeChart } from "../charts/charts";
import { Failure, Loading, Sign, State, Text } from "../components/bits";
import { Crumbs } from "../components/shell";
import { count, cut, plural, points, rate, score, shown, textOf, time } from "../lib/format";
import { reasonOf } from "../lib/items";
import type { Outcome } from "../lib/outline";

const route = getRouteApi("/experiments/$experimentId/runs/$runId/diff");
const STATUS: Record<string, readonly [Outcome, string]> = {
  REGRESSED: ["fail", "✗ regressed"],
  IMPROVED: ["pass", "✓ improved"],
  UNCHANGED: ["none", "same"],
  NEW: ["none", "new"],
  REMOVED: ["none", "dropped"],
};

type Summary = Diff["summary"];

export function ComparePage() {
  const { experimentId, runId } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const trends = useQuery(trendsQuery(experimentId));
  const runs = useQuery(runsQuery(experimentId));
  const chosen = useQuery({ ...baselineQuery(experimentId, runId), enabled: search.baselineRunId === undefined });
  const baseline = search.baselineRunId ?? chosen.data?.baselineRunId ?? undefined;
  const status = search.status ?? "ALL";
  const diff = useQuery({
    ...diffQuery(experimentId, runId, baseline ?? "", status, search.page ?? 0),
    enabled: baseline !== undefined,
  });
  if (trends.isPending || runs.isPending) return <Loading />;
  if (trends.isError) return <Failure error={trends.error} />;
  if (runs.isError) return <Failure error={runs.error} />;
  const options = runs.data.filter((run) => run.completedAt !== null);
  return (
    <>
      <Crumbs title="Compare">
        <Link to="/projects/$name" params={{ name: trends.data.projectName }}>{shown(trends.data.projectName)}</Link>
        <i>/</i>
        <Link to="/experiments/$experimentId" params={{ experimentId }}>{shown(trends.data.experimentName)}</Link>
        <i>/</i>
      </Crumbs>
      <div className="head">
        <div><h1>Compare</h1>{diff.data !== undefined && <Facts summary={diff.data.summary} />}</div>
        <div className="actions"><button type="button" className="btn" onClick={() => print()}>Print</button></div>
      </div>
      <div className="versus">
        {([["Baseline", baseline ?? "", runId], ["Candidate", runId, baseline]] as const).map(([label, value, other]) => (
          <label key={label}>
            <span className="label">{label} </span>
            <select
              className="field"
              value={value}
              onChange={(event) => {
                const next = event.target.value;
                void navigate(
                  label === "Baseline"
                    ? { search: { baselineRunId: next } }
                    : { params: { experimentId, runId: next }, search: baseline === undefined ? {} : { baselineRunId: baseline } },
                );
              }}
            >
              {value === "" && <option value="">choose a run</option>}
              {options.filter((run) => run.id !== other).map((run) => (
                <option key={run.id} value={run.id}>{`${run.name ?? run.id} · ${rate(run.passRate)} · ${time(run.startedAt)}`}</option>
              ))}
            </select>
          </label>
        ))}
      </div>
      {baseline === undefined && !chosen.isPending && (
        <State title="Choose a run to compare with">
          <p>{chosen.data?.reason ?? "An earlier run that succeeded, or one that is pinned as baseline, would be taken."}</p>
        </State>
      )}
      {chosen.isError && baseline === undefined && <Failure error={chosen.error} />}
      {diff.isError && <Failure error={diff.error} retry={() => void diff.refetch()} />}
      {baseline !== undefined && diff.isPending && <Loading />}
      {diff.data !== undefined && <Comparison diff={diff.data} status={status} baseline={baseline ?? ""} />}
    </>
  );
}

function Facts({ summary }: { summary: Summary }) {
  return (
    <p className="facts">
      <span>{plural(summary.pairedCount, "item")} judged in both</span>
      {summary.notJudgedCount > 0 && <span>{count(summary.notJudgedCount)} left out, not judged in both</span>}
      {summary.pairedBy != null && <span>paired by {summary.pairedBy.replaceAll("_", " ")}</span>}
    </p>
  );
}

function Comparison({ diff, status, baseline }: { diff: Diff; status: string; baseline: string }) {
  const search = route.useSearch();
  const { summary, cases } = diff;
  const open = cases.content.find((one) => one.index === search.item) ?? cases.content[0];
  return (
    <>
      <Sentence summary={summary} />
      {summary.warnings.map((warning) => <p key={warning} className="callout warn">{shown(warning)}</p>)}
      {summary.evaluatorChanges.length > 0 && (
        <p className="callout warn">
          <b>Not the same evaluator in both runs:</b>{" "}
          {shown(summary.evaluatorChanges.map((one) => one.evaluator).join(", "))}. Its scores may differ for that reason alone.
        </p>
      )}
      <section>
        <div className="sec">
          <h2>Change, in points</h2>
          <span className="label">scores × 100; bars are 95 % intervals; left of zero is worse</span>
        </div>
        <div className="panel pad"><ChangeChart changes={changesOf(summary)} /></div>
      </section>
      <Cases diff={diff} status={status} open={open} />
      {open !== undefined && <SideBySide one={open} baseline={baseline} candidate={summary.candidateRunId} />}
    </>
  );
}

function Sentence({ summary }: { summary: Summary }) {
  const delta = summary.pairedDelta ?? null;
  const [low, high] = summary.pairedDeltaInterval ?? [];
  if (delta === null) {
    return <p className="verdict"><span className="none">– No item is judged in both runs.</span></p>;
  }
  const outcome: Outcome = !summary.significant || delta === 0 ? "none" : delta < 0 ? "fail" : "pass";
  const size = points(Math.abs(delta)).replace("+", "");
  const moved = delta === 0 ? "did not change" : `${delta < 0 ? "fell" : "rose"} ${size} points`;
  return (
    <>
      <p className="verdict">
        <span className={outcome}>{outcome === "none" ? "–" : outcome === "fail" ? "✗" : "✓"} Pass rate {moved}</span>
        <span className="of">
          , from {rate(summary.pairedBaselinePassRate)} to {rate(summary.pairedCandidatePassRate)}
          {low !== undefined && high !== undefined && `; 95 % between ${points(low)} and ${points(high)}`}.
        </span>
      </p>
      <p className="sentence">
        Beyond chance, {plural(summary.regressedCount + summary.improvedCount, "item")} changed:{" "}
        <b className="fail">{count(summary.regressedCount)} ✗ regressed</b>,{" "}
        <b className="pass">{count(summary.improvedCount)} ✓ improved</b>.{" "}
        {summary.pValue != null && (summary.significant
          ? `Chance alone would do this with a probability of ${summary.pValue < 0.001 ? "less than 0.001" : summary.pValue.toFixed(3)}.`
          : "That is no more than chance alone does.")}{" "}
        {summary.minimumDetectableDrop != null &&
          `With ${plural(summary.pairedCount, "item")} a drop of ${points(summary.minimumDetectableDrop).replace("+", "")} points is seen 8 times in 10; smaller ones often stay hidden.`}
      </p>
    </>
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

function changesOf(summary: Summary): Change[] {
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

function Cases({ diff, status, open }: { diff: Diff; status: string; open: DiffCase | undefined }) {
  const navigate = route.useNavigate();
  const { summary, cases } = diff;
  const evaluators = [...new Set(cases.content.flatMap((one) => one.evaluators.map((score) => score.name)))];
  const changed = summary.regressedCount + summary.improvedCount;
  const chips = [
    ["CHANGED", "Changed beyond chance", changed],
    ["REGRESSED", "✗ Regressed", summary.regressedCount],
    ["IMPROVED", "✓ Improved", summary.improvedCount],
    ["ALL", "All", changed + summary.unchangedCount + summary.addedCount + summary.removedCount],
  ] as const;
  return (
    <section>
      <div className="sec"><h2>Items</h2></div>
      <div className="bar" role="group" aria-label="Filters">
        {chips.map(([value, label, n]) => (
          <button
            key={value}
            type="button"
            className="chip"
            aria-pressed={status === value}
            onClick={() => void navigate({ search: ({ baselineRunId }) => ({ ...(baselineRunId ? { baselineRunId } : {}), status: value }), resetScroll: false })}
          >
            {label} <b>{count(n)}</b>
          </button>
        ))}
      </div>
      <div className="panel">
        {cases.content.length === 0 ? (
          <State title={status === "CHANGED" ? "No item changed beyond chance" : "No such item"}><p>“All” shows every item of both runs.</p></State>
        ) : (
          <table className="matrix">
            <thead>
              <tr>
                <th>Change</th>
                <th className="sticky">Item</th>
                {evaluators.map((name) => <th key={name} className="num">{shown(name)}</th>)}
              </tr>
            </thead>
            <tbody>
              {cases.content.map((one) => (
                <CaseRow key={one.index} one={one} evaluators={evaluators} isOpen={one === open} />
              ))}
            </tbody>
          </table>
        )}
        {cases.totalPages > 1 && (
          <p className="foot-row">
            <span>page {cases.number + 1} of {count(cases.totalPages)}</span>
            <span className="actions">
              {cases.number > 0 && <PageLink page={cases.number - 1}>Previous</PageLink>}
              {!cases.last && <PageLink page={cases.number + 1}>Next</PageLink>}
            </span>
          </p>
        )}
      </div>
    </section>
  );
}

function PageLink({ page, children }: { page: number; children: string }) {
  return (
    <Link
      className="link"
      from="/experiments/$experimentId/runs/$runId/diff"
      to="."
      search={({ item: _, page: __, ...rest }) => (page === 0 ? rest : { ...rest, page })}
      resetScroll={false}
    >
      {children}
    </Link>
  );
}

function CaseRow({ one, evaluators, isOpen }: { one: DiffCase; evaluators: readonly string[]; isOpen: boolean }) {
  const [outcome, word] = one.passFlip ? flipOf(one) : (STATUS[one.status] ?? ["none", one.status.toLowerCase()]);
  return (
    <tr className={isOpen ? "on" : ""}>
      <td><span className={`sign ${outcome}`}>{word}</span></td>
      <th scope="row" className="sticky">
        <Link
          className="cut"
          from="/experiments/$experimentId/runs/$runId/diff"
          to="."
          search={(old) => ({ ...old, item: one.index })}
          resetScroll={false}
        >
          <span className="mono muted">{shown(one.index)}</span> {shown(cut(one.input ?? "", 160))}
        </Link>
      </th>
      {evaluators.map((name) => {
        const found = one.evaluators.find((score) => score.name === name);
        if (found === undefined) return <td key={name} className="num none">–</td>;
        if (found.delta === 0) return <td key={name} className="num none">{score(found.candidateMean)}</td>;
        const side = found.status === "REGRESSED" ? "fail" : found.status === "IMPROVED" ? "pass" : "none";
        return (
          <td key={name} className="num">
            {score(found.baselineMean)} → {score(found.candidateMean)}{" "}
            <span className={side}>{found.delta < 0 ? "▾" : "▴"} {score(Math.abs(found.delta))}</span>
          </td>
        );
      })}
    </tr>
  );
}

function flipOf(one: DiffCase): readonly [Outcome, string] {
  return (one.candidatePass ?? 0) < (one.baselinePass ?? 0) ? ["fail", "✗ newly failed"] : ["pass", "✓ newly passed"];
}

function SideBySide({ one, baseline, candidate }: { one: DiffCase; baseline: string; candidate: string }) {
  const before = useQuery(itemByIdQuery(baseline, one.baselineItemId ?? null));
  const after = useQuery(itemByIdQuery(candidate, one.candidateItemId ?? null));
  const expected = after.data?.expectedOutput ?? before.data?.expectedOutput;
  return (
    <section>
      <div className="sec">
        <h2>Side by side</h2>
        <span className="mono muted">{shown(one.index)}</span>
        {after.data != null && (
          <Link
            className="link label right"
            to="/runs/$runId"
            params={{ runId: candidate }}
            search={{ item: `${after.data.ordinal}.${after.data.repetition}` }}
          >
            Open item
          </Link>
        )}
      </div>
      <div className="panel three">
        <div><h3>Expected</h3><Text>{textOf(expected)}</Text></div>
        <Side title="Baseline" item={before.data} pass={one.baselinePass} />
        <Side title="Candidate" item={after.data} pass={one.candidatePass} />
      </div>
    </section>
  );
}

function Side({ title, item, pass }: { title: string; item: Item | null | undefined; pass: number | null | undefined }) {
  return (
    <div>
      <h3>{title} {pass != null && <Sign outcome={pass >= 1 ? "pass" : "fail"} />}</h3>
      {item == null ? <p className="muted">not in this run</p> : (
        <>
          <Text>{item.error ?? textOf(item.actualOutput["output"] ?? item.actualOutput)}</Text>
          <p className="label">{shown(cut(reasonOf(item), 400))}</p>
        </>
      )}
    </div>
  );
}
