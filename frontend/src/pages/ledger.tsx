/** The ledger of a project's judging: what was spent on each day and by each job, and every call to a model. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { type Budgets, type CallTotals, type JudgeCall, budgetsQuery, callTotalsQuery, callsQuery } from "../api/ledger";
import { connectionsQuery } from "../api/settings";
import { DayChart } from "../charts/days";
import { LatestInSight } from "../charts/latest";
import { Failure, Loading, State, Time } from "../components/bits";
import { More } from "../components/settings-bits";
import { Crumbs } from "../components/shell";
import { PERIODS } from "../components/trace-bits";
import { cost, count, cut, duration, plural, shown } from "../lib/format";
import { type Unit, UNITS, amountOf, barsOf, firstUnit, limitOf, sayAmount, sayLimits } from "../lib/ledger";
import type { LedgerSearch } from "../settings-routes";
import "../styles/settings.css";
import "../styles/ledger.css";
import { saysAnything } from "../lib/address-texts";

const route = getRouteApi("/projects/$name/judge-calls");
const DAYS = 30;
const MOST_TEXT = 300;

const STATES: readonly (readonly [JudgeCall["state"], string, string])[] = [
  ["ANSWERED", "pass", "✓ answered"],
  ["IN_FLIGHT", "none", "… in flight"],
  ["UNUSABLE", "error", "! unusable reply"],
  ["FAILED", "fail", "✗ failed"],
  ["LOST", "error", "! lost"],
  ["REPLACED", "none", "– replaced"],
];

type Change = (next: { readonly [name in keyof LedgerSearch]?: string | undefined }) => void;

export function LedgerPage() {
  const { name } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change: Change = (next) => {
    const kept = Object.entries({ ...search, ...next }).filter(([, value]) => value !== undefined && value !== "");
    void navigate({ search: Object.fromEntries(kept), replace: true, resetScroll: false });
  };
  return (
    <div className="set-page ledger">
      <Crumbs title="Judge calls"><Link to="/projects/$name" params={{ name }}>{shown(name)}</Link><i>/</i></Crumbs>
      <div className="head">
        <div>
          <h1>Judge calls</h1>
          <p className="facts"><span>what judging the runs of {shown(name)} has cost</span><span>each call is in here before it is made</span></p>
        </div>
      </div>
      <Spending name={name} search={search} onChange={change} />
      <Calls name={name} search={search} onChange={change} onClear={() => void navigate({ search: search.unit === undefined ? {} : { unit: search.unit }, replace: true, resetScroll: false })} />
    </div>
  );
}

interface PartProps {
  readonly name: string;
  readonly search: LedgerSearch;
  readonly onChange: Change;
}

function Spending({ name, search, onChange }: PartProps) {
  const budgets = useQuery(budgetsQuery(name, DAYS));
  if (budgets.isPending) return <Loading />;
  if (budgets.isLoadingError) return <Failure error={budgets.error} retry={() => void budgets.refetch()} />;
  const { data } = budgets;
  const unit = (search.unit as Unit | undefined) ?? firstUnit(data);
  const bars = barsOf(data, DAYS, unit);
  const limit = limitOf(data.limitPerDay, unit);
  const form = (value: number) => sayAmount(value, unit);
  return (
    <>
      <Today budgets={data} unit={unit} />
      <section>
        <div className="sec"><h2>Spent by day</h2><span className="label">{limit === null ? "no budget of a day in this unit" : `budget ${form(limit)} a day`}</span></div>
        <div className="bar" role="group" aria-label="Unit">
          {(Object.keys(UNITS) as Unit[]).map((one) => (
            <button key={one} type="button" className="chip" aria-pressed={one === unit} onClick={() => onChange({ unit: one })}>{UNITS[one]}</button>
          ))}
        </div>
        <LatestInSight className="spaced-top">
          <DayChart bars={bars} limit={limit} form={form} label={`Spent on each of the last ${DAYS} days: ${form(bars.at(-1)?.spent ?? 0)} today, at most ${form(Math.max(...bars.map((bar) => bar.spent)))}`} />
        </LatestInSight>
        <p className="label">
          {data.isComplete ? "Rules of online evaluation count here, too; their calls are not listed below." : "Only the judge jobs that you see are counted here; the budget is that of the whole project."}
          {unit === "usd" && data.days.some((day) => day.unpricedCalls > 0) && ` ${plural(data.days.reduce((sum, day) => sum + day.unpricedCalls, 0), "call")} unpriced and not in it.`}
        </p>
      </section>
      {data.jobs.length > 0 && <Jobs jobs={data.jobs} search={search} onChange={onChange} />}
    </>
  );
}

/** The sentence that answers first whether judging goes on today. */
function Today({ budgets, unit }: { budgets: Budgets; unit: Unit }) {
  const today = budgets.days.find((day) => day.day === budgets.today);
  const { spent, reserved } = today === undefined ? { spent: 0, reserved: 0 } : amountOf(today, unit);
  const limit = limitOf(budgets.limitPerDay, unit);
  const isUsed = limit !== null && spent + reserved >= limit && budgets.isComplete;
  return (
    <p className="verdict">
      {isUsed ? <span className="fail">✗ Today's budget is used up</span> : <span>{sayAmount(spent, unit)} spent today</span>}
      <span className="of">
        {limit === null ? " · no budget of a day is set" : isUsed ? ` (${sayAmount(spent, unit)} of ${sayAmount(limit, unit)})` : ` of ${sayAmount(limit, unit)}`}
        {reserved > 0 && ` · ${sayAmount(reserved, unit)} reserved for calls in flight`}
      </span>
    </p>
  );
}

function Jobs({ jobs, search, onChange }: { jobs: Budgets["jobs"]; search: LedgerSearch; onChange: Change }) {
  return (
    <section>
      <div className="sec"><h2>Jobs</h2><span className="label">the latest {jobs.length > 1 ? count(jobs.length) : "one"}</span></div>
      <div className="panel">
        <table role="table" className="stack-s">
          <thead role="rowgroup"><tr role="row"><th role="columnheader">Evaluator</th><th role="columnheader">Created</th><th role="columnheader" className="num">Calls</th><th role="columnheader" className="num">Tokens</th><th role="columnheader" className="num">Spent</th><th role="columnheader">Budget</th><th role="columnheader" className="num">Actions</th></tr></thead>
          <tbody role="rowgroup">
            {jobs.map((job) => (
              <tr role="row" key={job.jobId} className={job.jobId === search.job ? "on" : undefined}>
                <th scope="row" role="rowheader">
                  <Link className="link" to="/runs/$runId" params={{ runId: job.runId }}>{shown(job.evaluatorName)}</Link>
                  <span className="sub">{job.status.toLowerCase()}</span>
                </th>
                <td role="cell"><Time value={job.createdAt} /></td>
                <td role="cell" className="num">{count(job.calls)}<span className="only-stacked"> calls</span>{job.lostCalls > 0 && <span className="sub">{count(job.lostCalls)} lost</span>}</td>
                <td role="cell" className="num">{count(job.tokens)}<span className="only-stacked"> tokens</span></td>
                <td role="cell" className="num">
                  {job.calls === 0 ? "–" : cost(job.costUsd)}
                  {job.reservedCalls > 0 && <span className="sub">{plural(job.reservedCalls, "call")} in flight</span>}
                </td>
                <td role="cell">{sayLimits(job.budget) ?? "none"}</td>
                <td role="cell">
                  <div className="row-actions">
                    <button type="button" className="btn" aria-pressed={job.jobId === search.job} onClick={() => onChange({ job: job.jobId === search.job ? undefined : job.jobId, run: undefined })}>
                      {job.jobId === search.job ? "Show all calls" : "Show its calls"}
                    </button>
                  </div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Calls({ name, search, onChange, onClear }: PartProps & { readonly onClear: () => void }) {
  const { unit: _unit, ...filter } = search;
  const calls = useInfiniteQuery(callsQuery(name, filter));
  const totals = useQuery(callTotalsQuery(name, filter));
  const rows = calls.data?.pages.flat() ?? [];
  const isFiltered = saysAnything(filter);
  if (calls.isLoadingError && totals.isLoadingError && !isFiltered) return null; // the failure stands above already
  return (
    <section aria-label="Calls">
      <div className="sec"><h2>Calls</h2><span className="label">newest first</span></div>
      <Filters search={search} onChange={onChange} {...(isFiltered ? { onClear } : {})} />
      {totals.data !== undefined && <Totals totals={totals.data} isFiltered={isFiltered} />}
      {calls.isPending ? <Loading />
        : calls.isLoadingError ? <Failure error={calls.error} retry={() => void calls.refetch()} />
        : (
          <>
            <div className="panel gap" aria-busy={calls.isFetching}>
              {rows.length === 0 ? (
                <State title={isFiltered ? "No call is like this" : "No model was asked yet"} actions={isFiltered && <button type="button" className="btn" onClick={onClear}>Show all calls</button>}>
                  <p>{isFiltered ? "Another state or a longer period may have some." : "“Run LLM judge” on the page of a run makes a job that asks one."}</p>
                </State>
              ) : (
                <table role="table" className="stack-s">
                  <thead role="rowgroup"><tr role="row"><th role="columnheader">Time</th><th role="columnheader">Job</th><th role="columnheader">Model</th><th role="columnheader">Outcome</th><th role="columnheader" className="num">Tokens</th><th role="columnheader" className="num">Cost</th><th role="columnheader" className="num">Duration</th></tr></thead>
                  <tbody role="rowgroup">{rows.map((one) => <CallRow key={one.id} call={one} />)}</tbody>
                </table>
              )}
            </div>
            {rows.length > 0 && (
              <div className="bar">
                <span className="label">{plural(rows.length, "call")} shown{calls.hasNextPage ? ", there are more" : ""}</span>
                <More query={calls} what="calls" />
              </div>
            )}
          </>
        )}
    </section>
  );
}

function Filters({ search, onChange, onClear }: Pick<PartProps, "search" | "onChange"> & { readonly onClear?: () => void }) {
  const connections = useQuery(connectionsQuery(""));
  return (
    <>
      <div className="bar" role="group" aria-label="Outcome">
        <button type="button" className="chip" aria-pressed={search.state === undefined} onClick={() => onChange({ state: undefined })}>All</button>
        {STATES.map(([state, , label]) => (
          <button key={state} type="button" className="chip" aria-pressed={search.state === state} onClick={() => onChange({ state: search.state === state ? undefined : state })}>{label}</button>
        ))}
      </div>
      <div className="bar">
        <select className="field" aria-label="Period" value={search.period ?? ""} onChange={(event) => onChange({ period: event.target.value })}>
          <option value="">All times</option>
          {PERIODS.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
        </select>
        <select className="field" aria-label="Connection" value={search.connection ?? ""} onChange={(event) => onChange({ connection: event.target.value })}>
          <option value="">All connections</option>
          {search.connection !== undefined && connections.data?.every((one) => one.id !== search.connection) && <option value={search.connection}>{search.connection}</option>}
          {connections.data?.map((one) => <option key={one.id} value={one.id}>{`${shown(one.name)} · ${shown(one.model)}`}</option>)}
        </select>
        {search.job !== undefined && <button type="button" className="chip" aria-pressed="true" onClick={() => onChange({ job: undefined })}>Only one job ✕</button>}
        {search.run !== undefined && <button type="button" className="chip" aria-pressed="true" onClick={() => onChange({ run: undefined })}>Only one run ✕</button>}
        {onClear !== undefined && <button type="button" className="btn bare" onClick={onClear}>Clear all filters</button>}
      </div>
    </>
  );
}

function Totals({ totals, isFiltered }: { totals: CallTotals; isFiltered: boolean }) {
  const bad = totals.failed + totals.lost + totals.unusable;
  return (
    <div className="cards">
      <div className="card"><p className="title">Calls{isFiltered && ", of these"}</p><div className="value">{count(totals.calls)}</div><p className="note">{totals.inFlight > 0 ? `${count(totals.inFlight)} more in flight` : "none in flight"}</p></div>
      <div className="card"><p className="title">Tokens</p><div className="value">{count(totals.tokens)}</div><p className="note">in and out</p></div>
      <div className="card">
        <p className="title">Cost</p><div className="value">{totals.calls === 0 ? "–" : cost(totals.costUsd)}</div>
        <p className="note">{totals.unpricedCalls > 0 ? `${count(totals.calls - totals.unpricedCalls)}/${count(totals.calls)} calls priced` : totals.calls === 0 ? "no calls" : "each call is priced"}</p>
      </div>
      <div className="card">
        <p className="title">Without a usable reply</p><div className={bad > 0 ? "value error" : "value"}>{count(bad)}</div>
        <p className="note">{count(totals.failed)} failed · {count(totals.lost)} lost · {count(totals.unusable)} unusable</p>
      </div>
    </div>
  );
}

function CallRow({ call }: { call: JudgeCall }) {
  const [, style, word] = STATES.find(([state]) => state === call.state) ?? ["", "none", call.state];
  const isShared = call.calls === 0;
  return (
    <tr role="row">
      <th scope="row" role="rowheader"><Time value={call.createdAt} /></th>
      <td role="cell">
        <Link className="link" to="/runs/$runId" params={{ runId: call.runId }}>{shown(call.evaluatorName)}</Link>
        <span className="sub">{call.runName === null ? "a run" : shown(cut(call.runName, 60))}</span>
      </td>
      <td role="cell" title={shown(call.judge)}>{shown(cut(call.model ?? call.judge, 60))}{call.connectionName !== null && <span className="sub">{shown(cut(call.connectionName, 60))}</span>}</td>
      <td role="cell" className="why">
        <span className={`sign ${style}`}>{word}</span>
        {isShared && <span className="sub">together with another call</span>}
        {call.problem !== null && <span className="sub">{shown(cut(call.problem, MOST_TEXT))}</span>}
        {call.state === "ANSWERED" && !call.hasReply && <span className="sub">its reply is not kept any more</span>}
      </td>
      <td role="cell" className="num">{count(call.tokens)}<span className="only-stacked"> tokens</span>{call.state === "IN_FLIGHT" && <span className="sub">reserved</span>}</td>
      <td role="cell" className="num">{isShared ? "–" : cost(call.costUsd)}</td>
      <td role="cell" className="num">{duration(call.durationMs)}</td>
    </tr>
  );
}
