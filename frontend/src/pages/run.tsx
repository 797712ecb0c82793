/** A run: the verdict, then what to look at first, then evaluators and every item. */
import { useIsFetching, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { memo, useCallback, useMemo, useRef, useState } from "react";
import { useChanges, useSteady } from "../api/live";
import { jobsQuery, isOpenJob } from "../api/judging";
import { type Run, isLive, itemsQuery, outlineQuery, runQuery, versionOf } from "../api/queries";
import { HeatMap, OutcomeBar, RateBar } from "../charts/charts";
import { Failure, Loading, Sign, State, Time } from "../components/bits";
import { EvaluatorTable } from "../components/evaluator-table";
import { ExperimentCrumbs } from "../components/experiment-crumbs";
import { HumanCheck } from "../components/human-check";
import { ItemDrawer } from "../components/item-drawer";
import { ItemList } from "../components/item-list";
import { JudgeJobs } from "../components/judge-jobs";
import { RunActions } from "../components/run-actions";
import { RunSlices } from "../components/run-slices";
import { useActions } from "../lib/actions";
import { cost, count, cut, duration, plural, rate, shown, textOf } from "../lib/format";
import { nameOf, reasonOf } from "../lib/items";
import { type Counts, type Outline, countOutcomes, findStep, findWorst, placeOf, quantile, readOutline, wilson } from "../lib/outline";

const route = getRouteApi("/runs/$runId");
const FIRST = 3;

export function RunPage() {
  const { runId } = route.useParams();
  const queries = useQueryClient();
  const [isJudging, setIsJudging] = useState(false);
  const jobs = useQuery(jobsQuery(runId));
  const [isTold, setIsTold] = useState(false);
  const run = useQuery(runQuery(runId, isTold));
  const goesOn = isLive(run.data?.status) || jobs.data?.some(isOpenJob) === true;
  useChanges({ run: runId }, goesOn, {
    onChange: () => Promise.all([["run", runId], ["jobs", runId]].map((queryKey) => queries.invalidateQueries({ queryKey }))),
    onTold: setIsTold,
  });
  const isReading = useIsFetching({ queryKey: ["outline", runId, ""] }) > 0;
  const version = useSteady(run.data === undefined ? "" : versionOf(run.data), isReading, !goesOn);
  const answer = useQuery({ ...outlineQuery(runId, version, "", goesOn), enabled: version !== "" });
  const outline = useMemo(() => (answer.data === undefined ? null : readOutline(answer.data)), [answer.data]);
  if (run.isLoadingError) return <Failure error={run.error} retry={() => void run.refetch()} />;
  if (run.data === undefined) return <Loading />;
  return (
    <>
      <Head run={run.data} onJudge={() => setIsJudging(true)} />
      {answer.isLoadingError && <Failure error={answer.error} retry={() => void answer.refetch()} />}
      {outline === null ? !answer.isLoadingError && <Loading /> : (
        <Body run={run.data} outline={outline} version={version} isJudging={isJudging} onJudged={() => setIsJudging(false)} />
      )}
    </>
  );
}

function Head({ run, onJudge }: { run: Run; onJudge: () => void }) {
  const model = run.config?.["model"];
  useActions([
    { label: "Compare with baseline", href: `/experiments/${run.experimentId}/runs/${run.id}/diff` },
    { label: "Review items of this run", href: `/review-queue?${new URLSearchParams({ runId: run.id })}` },
    { label: `Go to the experiment ${run.experimentName}`, href: `/experiments/${run.experimentId}` },
  ]);
  return (
    <>
      <ExperimentCrumbs title={run.name ?? run.id} projectName={run.projectName} experimentId={run.experimentId} experimentName={run.experimentName} />
      <div className="head">
        <div>
          <h1>{shown(run.name ?? run.experimentName)}</h1>
          <p className="facts">
            <span>{plural(run.totalItems, "item")}</span>
            {typeof model === "string" && <span>{shown(model)}</span>}
            {run.datasetName != null && (
              <Link className="link" to="/datasets/$name" params={{ name: run.datasetName }} search={run.datasetVersion == null ? {} : { version: run.datasetVersion }}>
                {`${shown(run.datasetName)} v${run.datasetVersion ?? "?"}`}
              </Link>
            )}
            {run.gitBranch != null && (
              <span>{shown(run.gitBranch)} <span className="mono">{run.gitSha?.slice(0, 7)}</span></span>
            )}
            <span><Time value={run.startedAt} /></span>
            {run.isBaseline && <span>baseline</span>}
            {(run.tags ?? []).map((tag) => <span key={tag} className="tag">{shown(tag)}</span>)}
          </p>
        </div>
        <div className="actions">
          <Link
            className="btn"
            to="/experiments/$experimentId/runs/$runId/diff"
            params={{ experimentId: run.experimentId, runId: run.id }}
          >
            Compare with baseline
          </Link>
          <Link className="btn" to="/review-queue" search={{ runId: run.id }}>Review items</Link>
          <RunActions run={run} onJudge={onJudge} />
        </div>
      </div>
      {run.notes != null && <p className="sentence muted notes">{shown(run.notes)}</p>}
    </>
  );
}

interface BodyProps {
  readonly run: Run;
  readonly outline: Outline;
  readonly version: string;
  readonly isJudging: boolean;
  readonly onJudged: () => void;
}

function Body({ run, outline, version, isJudging, onJudged }: BodyProps) {
  const navigate = route.useNavigate();
  const counts = useMemo(() => countOutcomes(outline.outcomes), [outline]);
  const open = useCallback((item: string | undefined, replace = false) => {
    void navigate({ search: ({ item: _, ...rest }) => (item === undefined ? rest : { ...rest, item }), replace, resetScroll: false });
  }, [navigate]);
  const order = useRef<readonly number[]>([]);
  const noteOrder = useCallback((positions: readonly number[]) => {
    order.current = positions;
  }, []);
  const step = useCallback((by: 1 | -1, place: string) => {
    const next = findStep(outline, order.current, place, by);
    if (next !== null) open(next, true); // Back leaves the drawer, however many items were read in it
  }, [open, outline]);
  const openPosition = useCallback((position: number) => open(placeOf(outline, position)), [open, outline]);
  if (outline.size === 0) {
    return isLive(run.status) ? (
      <State title="The run has begun"><p>Its items appear here as they are scored.</p></State>
    ) : (
      <State title="This run has no items"><p>{run.statusReason ?? "Nothing was sent before it ended."}</p></State>
    );
  }
  return (
    <>
      <VerdictLine run={run} counts={counts} />
      <OutcomeBar counts={counts} />
      <p className="counts">
        <span className="pass"><b>{count(counts.pass)}</b> ✓ passed</span>
        <span className="fail"><b>{count(counts.fail)}</b> ✗ failed</span>
        <span className="error"><b>{count(counts.error)}</b> ! errored</span>
        <span className="none"><b>{count(counts.none)}</b> – not judged</span>
      </p>
      <Cards run={run} outline={outline} counts={counts} />
      <LookFirst run={run} outline={outline} version={version} onOpen={open} />
      <JudgeJobs run={run} isAdding={isJudging} onClose={onJudged} />
      <EvaluatorTable run={run} outline={outline} />
      <RunSlices run={run} outline={outline} version={version} />
      <HumanCheck run={run} />
      {outline.columns.length > 0 && (
        <section className="hide-s">
          <div className="sec">
            <h2>Items by evaluators</h2>
            <span className="legend right">
              <span className="fail">full: ✗ fail</span><span className="error">full: ! error</span><span>half: ✓ pass</span><span>gap: not applied</span>
            </span>
          </div>
          <div className="panel pad">
            <HeatMap outline={outline} onOpen={openPosition} />
          </div>
        </section>
      )}
      <ItemList run={run} outline={outline} counts={counts} version={version} onOpen={open} onOrder={noteOrder} />
      <HowItWasRun run={run} />
      <OpenItem run={run} version={version} onOpen={open} onStep={step} />
    </>
  );
}

interface OpenItemProps {
  readonly run: Run;
  readonly version: string;
  readonly onOpen: (place: string | undefined) => void;
  readonly onStep: (by: 1 | -1, place: string) => void;
}

/** The item of the address. Only this and the list read the address, so a filter leaves the charts alone. */
function OpenItem({ run, version, onOpen, onStep }: OpenItemProps) {
  const place = route.useSearch({ select: (search) => search.item });
  if (place === undefined) return null;
  return <ItemDrawer run={run} place={place} version={version} onClose={() => onOpen(undefined)} onStep={(by) => onStep(by, place)} />;
}

function VerdictLine({ run, counts }: { run: Run; counts: Counts }) {
  const judged = run.judgedCount;
  if (isLive(run.status)) {
    const planned = run.plannedItems ?? null;
    return (
      <p className="verdict" role="status">
        Running: {count(run.totalItems)}{planned !== null && `/${count(planned)}`} items{" "}
        <span className="of">{judged === 0 ? "nothing judged so far" : `${rate(run.passedItems / judged)} passed so far`}</span>
      </p>
    );
  }
  const ended = run.status === "SUCCESS" ? null : run.status.toLowerCase();
  return (
    <>
      <p className="verdict">
        {judged === 0 ? (
          <span className={counts.error > 0 ? "error" : "none"}>{counts.error > 0 ? "! Nothing was judged" : "– Nothing was judged"}</span>
        ) : (
          <>
            <span className={counts.pass === judged ? "pass" : "fail"}>{counts.pass === judged ? "✓" : "✗"} {rate(counts.pass / judged)} passed</span>{" "}
            <span className="of">({count(counts.pass)}/{count(judged)})</span>
          </>
        )}
      </p>
      {ended !== null && (
        <p className="callout warn"><b>The run is {ended}.</b> {run.statusReason}</p>
      )}
      {counts.error > 0 && <ErrorsSentence counts={counts} judged={judged} />}
    </>
  );
}

/** The command, versions and configuration behind the run. */
function HowItWasRun({ run }: { run: Run }) {
  const facts = Object.entries({ ...run.provenance, ...(run.config === null ? {} : { config: run.config }) }).filter(([, value]) => value !== null);
  if (facts.length === 0) return null;
  return (
    <section>
      <details>
        <summary>How it was run</summary>
        <dl className="pairs">
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{shown(name)}</dt>
              <dd className="mono">{shown(Array.isArray(value) ? value.map(String).join(" ") : textOf(value))}</dd>
            </div>
          ))}
        </dl>
      </details>
    </section>
  );
}

/** Which errors are in the rate, and what the rate is where all of them are. */
function ErrorsSentence({ counts, judged }: { counts: Counts; judged: number }) {
  const decided = counts.pass + counts.fail + counts.error;
  const leftOut = Math.max(0, decided - judged);
  const counted = counts.error - leftOut;
  const isAre = leftOut === 1 ? "is" : "are";
  return (
    <p className="sentence muted">
      {plural(counts.error, "item")} errored
      {leftOut > 0 && (counted > 0 ? `; ${count(leftOut)} ${isAre} left out of this rate` : ` and ${isAre} left out of this rate`)}
      {counted > 0 && `; ${count(counted)} that another evaluator judged ${counted === 1 ? "counts" : "count"} as not passed`}.
      {leftOut > 0 && ` Comparisons, the gate and the terminal count what errored as not passed: ${rate(counts.pass / decided)} (${count(counts.pass)}/${count(decided)}).`}
    </p>
  );
}

const Cards = memo(function Cards({ run, outline, counts }: { run: Run; outline: Outline; counts: Counts }) {
  const { passedItems: passed, judgedCount: judged } = run;
  const interval = wilson(passed, judged);
  const isPartlyPriced = run.pricedItemCount < run.tokenizedItemCount;
  return (
    <div className="cards">
      <div className="card">
        <p className="title">Pass rate</p>
        <div className="value">{rate(judged ? passed / judged : null)}</div>
        <RateBar passed={passed} judged={judged} />
        <p className="note">
          n = {count(judged)}
          {interval !== null && ` · 95 % between ${(interval[0] * 100).toFixed(1)} and ${(interval[1] * 100).toFixed(1)}`}
        </p>
      </div>
      <div className="card">
        <p className="title">Errors</p>
        <div className={counts.error ? "value error" : "value"}>{count(counts.error)}</div>
        <p className="note">{rate(counts.error / outline.size)} of items</p>
      </div>
      <div className="card">
        <p className="title">Cost</p>
        <div className="value">{cost(run.totalCostUsd)}</div>
        <p className="note">
          {isPartlyPriced && `${count(run.pricedItemCount)}/${count(run.tokenizedItemCount)} items priced · `}
          {run.totalTokensIn === null ? "no tokens recorded" : `${count(run.totalTokensIn)} in, ${count(run.totalTokensOut ?? 0)} out`}
        </p>
      </div>
      <div className="card">
        <p className="title">Latency, median</p>
        <div className="value">{duration(quantile(outline.latencies, 0.5))}</div>
        <p className="note">95th percentile {duration(quantile(outline.latencies, 0.95))}</p>
      </div>
    </div>
  );
});

interface LookFirstProps {
  readonly run: Run;
  readonly outline: Outline;
  readonly version: string;
  readonly onOpen: (place: string) => void;
}

function LookFirst({ run, outline, version, onOpen }: LookFirstProps) {
  const worst = useMemo(() => findWorst(outline, FIRST), [outline]);
  const items = useQuery(itemsQuery(run.id, [...new Set(worst.map((p) => outline.ordinals[p] ?? 0))], version));
  if (worst.length === 0) return null;
  return (
    <section>
      <div className="sec"><h2>Look first at</h2></div>
      <ul className="look">
        {worst.map((position) => {
          const place = placeOf(outline, position);
          const item = items.data?.find((one) => `${one.ordinal}.${one.repetition}` === place);
          return (
            <li key={place}>
              <Sign outcome={outline.outcomes[position] ?? "none"} word={false} />
              <button type="button" className="btn bare mono" onClick={() => onOpen(place)}>
                <span className="cut">{item === undefined ? `#${outline.ordinals[position]}` : shown(nameOf(item))}</span>
              </button>
              <span className="cut muted">{item === undefined ? "…" : shown(cut(reasonOf(item), 300))}</span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
