/** The dashboard of a project: quality, errors, latency and cost of its traces. */
import { useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { ruleStatsQuery, rulesQuery, useProjectId } from "../api/online";
import { type TraceStats, startOf, traceStatsQuery } from "../api/traces";
import { LineChart } from "../charts/lines";
import { Failure, Loading, State } from "../components/bits";
import { IntervalBar } from "../components/intervals";
import { Crumbs } from "../components/shell";
import { PERIODS, TraceHistogram } from "../components/trace-bits";
import { cost, count, duration, plural, rate, score, shown } from "../lib/format";
import { costInWords, leastCost, unpricedNote } from "../lib/pricing";

const route = getRouteApi("/projects/$name/dashboard");

export function DashboardPage() {
  const { name } = route.useParams();
  const { period = "7d" } = route.useSearch();
  const navigate = route.useNavigate();
  const stats = useQuery(traceStatsQuery(name, null, period));
  return (
    <>
      <Crumbs title="Dashboard"><Link to="/projects/$name" params={{ name }}>{shown(name)}</Link><i>/</i></Crumbs>
      <div className="head">
        <div><h1>{shown(name)}</h1><p className="facts"><span>traces of production</span></p></div>
        <div className="actions">
          <select className="field" aria-label="Period" value={period} onChange={(event) => void navigate({ search: event.target.value === "7d" ? {} : { period: event.target.value }, replace: true })}>
            {PERIODS.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
          </select>
          <Link className="btn" to="/traces" search={{ project: name, period }}>Traces</Link>
          <Link className="btn" to="/trace-alerts" search={{ project: name }}>Alerts</Link>
        </div>
      </div>
      {stats.isPending ? <Loading /> : stats.data === undefined ? <Failure error={stats.error} retry={() => void stats.refetch()} />
        : stats.data.total.traceCount === 0 ? <State title="No trace came in this period"><p>A longer period may have some, or an exporter has to be pointed at this server.</p></State>
        : <Figures stats={stats.data} name={name} period={period} />}
      <Quality name={name} period={period} />
    </>
  );
}

/** How much of the cost is known: of calls, or of traces where these were stored before calls were counted. */
function coverageOf(total: TraceStats["total"]): string {
  if (total.pricedTraceCount === 0) return "";
  if (total.pricedCallCount + total.unpricedCallCount > 0) return total.unpricedCallCount > 0 ? `${unpricedNote(total)} · ` : "";
  return total.pricedTraceCount < total.traceCount ? `${count(total.pricedTraceCount)}/${count(total.traceCount)} traces priced · ` : "";
}

function ModelCost({ model }: { model: TraceStats["models"][number] }) {
  if (model.costUsd === 0) return "unpriced";
  return <>{leastCost(model)}{unpricedNote(model) !== "" && <span className="sub">{unpricedNote(model)}</span>}</>;
}

function Figures({ stats, name, period }: { stats: TraceStats; name: string; period: string }) {
  const { total, steps } = stats;
  const navigate = route.useNavigate();
  const times = steps.map((step) => step.start);
  const errors = steps.map((step) => step.errorRate);
  const worst = Math.max(...errors.map((value) => value ?? 0));
  return (
    <>
      <p className="verdict">
        {total.errorCount > 0 ? <span className="error">! {rate(total.errorRate)} of the traces had an error</span> : <span className="pass">✓ No trace had an error</span>}
        <span className="of"> ({count(total.errorCount)}/{count(total.traceCount)})</span>
      </p>
      <div className="cards">
        <div className="card"><p className="title">Traces</p><div className="value">{count(total.traceCount)}</div><p className="note">{plural(total.spanCount, "span")}</p></div>
        <div className="card">
          <p className="title">Errors</p><div className={total.errorCount > 0 ? "value error" : "value"}>{count(total.errorCount)}</div>
          <p className="note"><Link className="link" to="/traces" search={{ project: name, period, status: "error" }}>{rate(total.errorRate)} of traces</Link></p>
        </div>
        <div className="card"><p className="title">Latency, median</p><div className="value">{duration(total.latencyMs.p50)}</div><p className="note">p95 {duration(total.latencyMs.p95)} · p99 {duration(total.latencyMs.p99)}</p></div>
        <div className="card">
          <p className="title">Cost</p><div className="value">{leastCost(total)}</div>
          <p className="note">{coverageOf(total)}{count(total.tokensIn)} in, {count(total.tokensOut)} out</p>
        </div>
      </div>
      <section>
        <div className="sec"><h2>Traffic</h2><span className="label">traces by the {stats.stepHours === 1 ? "hour" : "day"}; <span className="fail">full: with an error</span></span></div>
        <div className="panel pad">
          <TraceHistogram steps={steps} stepHours={stats.stepHours} onChoose={(from, to) => void navigate({ to: "/traces", search: { project: name, from, to } })} />
        </div>
      </section>
      <section className="two charts">
        <div>
          <div className="sec"><h2>Latency</h2><span className="label">median and 95th percentile</span></div>
          <div className="panel pad">
            <LineChart times={times} form={duration} label={`Latency: median ${duration(total.latencyMs.p50)}, 95th percentile ${duration(total.latencyMs.p95)}`}
              lines={[{ name: "p50", values: steps.map((step) => step.latencyMs.p50) }, { name: "p95", values: steps.map((step) => step.latencyMs.p95) }]} />
          </div>
        </div>
        <div>
          <div className="sec"><h2>Error rate</h2><span className="label">of the traces of each {stats.stepHours === 1 ? "hour" : "day"}</span></div>
          <div className="panel pad">
            <LineChart times={times} form={rate} most={worst > 0.5 ? 1 : Math.max(0.05, worst)} label={`Error rate ${rate(total.errorRate)}, at most ${rate(worst)} in a step`} lines={[{ name: "", values: errors }]} />
          </div>
        </div>
        <div>
          <div className="sec"><h2>Tokens</h2><span className="label">in and out</span></div>
          <div className="panel pad">
            <LineChart times={times} form={(value) => count(Math.round(value))} label={`${count(total.tokensIn)} tokens in, ${count(total.tokensOut)} out`}
              lines={[{ name: "in", values: steps.map((step) => step.tokensIn) }, { name: "out", values: steps.map((step) => step.tokensOut) }]} />
          </div>
        </div>
        {total.pricedTraceCount > 0 && (
          <div>
            <div className="sec"><h2>Cost</h2><span className="label">of the priced calls</span></div>
            <div className="panel pad">
              <LineChart times={times} form={cost} label={`Cost: ${costInWords(total)} in all`} lines={[{ name: "", values: steps.map((step) => (step.pricedTraceCount === 0 ? null : step.costUsd)) }]} />
            </div>
          </div>
        )}
      </section>
      {stats.models.length > 0 && (
        <section>
          <div className="sec"><h2>Models</h2></div>
          <div className="panel">
            <table>
              <thead><tr><th>Model</th><th className="num">Calls</th><th className="num">Errors</th><th className="num hide-s">Tokens in</th><th className="num hide-s">Tokens out</th><th className="num">Cost</th></tr></thead>
              <tbody>
                {stats.models.map((one) => (
                  <tr key={one.model ?? ""}>
                    <th scope="row">{shown(one.model ?? "not named")}</th>
                    <td className="num">{count(one.callCount)}</td>
                    <td className="num">{one.errorCount > 0 ? <span className="error">{count(one.errorCount)} !</span> : "–"}</td>
                    <td className="num hide-s">{count(one.tokensIn)}</td>
                    <td className="num hide-s">{count(one.tokensOut)}</td>
                    <td className="num"><ModelCost model={one} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
    </>
  );
}

function Quality({ name, period }: { name: string; period: string }) {
  const { id } = useProjectId(name);
  const rules = useQuery({ ...rulesQuery(id ?? ""), enabled: id !== undefined });
  if (rules.data === undefined) return null;
  return (
    <section>
      <div className="sec"><h2>Quality</h2><span className="label">what the rules of online evaluation say of all that they match</span></div>
      {rules.data.length === 0 ? <p className="muted">No rule scores the traces of this project. <Link className="link" to="/trace-eval-rules" search={{ project: name }}>Trace eval rules</Link></p> : (
        <div className="panel">
          <table>
            <thead><tr><th>Rule</th><th className="num">Pass rate</th><th className="hide-s">95 % interval</th><th className="num hide-s">Mean</th><th className="num">Errors</th></tr></thead>
            <tbody>{rules.data.map((rule) => <QualityRow key={rule.id} project={rule.projectId} rule={rule.id} label={rule.name} name={name} period={period} />)}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function QualityRow({ project, rule, label, name, period }: { project: string; rule: string; label: string; name: string; period: string }) {
  const stats = useQuery(ruleStatsQuery(project, rule, startOf(period), period));
  const passRate = stats.data?.passRate ?? null;
  return (
    <tr>
      <th scope="row"><Link className="link" to="/trace-eval-rules" search={{ project: name, rule }}>{shown(label)}</Link></th>
      <td className="num">{stats.isError ? <span className="error">! not known</span> : rate(passRate?.value)}<span className="sub">{passRate === null ? (stats.isPending ? "…" : "nothing judged") : `n = ${count(passRate.n)}`}</span></td>
      <td className="hide-s">{passRate !== null && <IntervalBar estimate={passRate} />}</td>
      <td className="num hide-s">{score(stats.data?.meanScore?.value)}</td>
      <td className="num">{stats.data !== undefined && stats.data.errorCount > 0 ? <span className="error">{count(stats.data.errorCount)} !</span> : "–"}</td>
    </tr>
  );
}
