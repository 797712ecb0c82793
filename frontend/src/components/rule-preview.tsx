/** What a rule matches of the last week, and the forecast of what it costs. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type DryRun, dryRunQuery } from "../api/online";
import { useAnnounced } from "../lib/announce";
import { cost, count, plural, rate, shown } from "../lib/format";
import { Failure, Loading } from "./bits";
import { BusyButton } from "./busy-button";

export function RulePreview({ project, body }: { project: string; body: Record<string, unknown> }) {
  const [asked, setAsked] = useState<Record<string, unknown> | null>(null);
  const query = useQuery({ ...dryRunQuery(project, asked ?? {}), enabled: asked !== null });
  const isCurrent = asked !== null && JSON.stringify(asked) === JSON.stringify(body);
  const isBusy = isCurrent && query.isFetching;
  const result = isCurrent ? query : null;
  useAnnounced(isBusy ? null : result?.isError ? "The preview failed." : result?.data !== undefined ? sayForecast(result.data) : null, query.dataUpdatedAt + query.errorUpdatedAt);
  return (
    <>
      <BusyButton isBusy={isBusy} busy="Counting …" onClick={() => (isCurrent ? void query.refetch() : setAsked(body))}>Preview matches and cost</BusyButton>
      {isBusy && query.data === undefined ? <Loading />
        : !isBusy && result?.isError ? <Failure error={result.error} />
        : result?.data !== undefined && <Forecast run={result.data} />}
    </>
  );
}

function sayForecast({ matchCount, traceCount, sampledCount, forecast }: DryRun): string {
  const jobs = plural(Math.round(forecast.jobsPerDay), "job");
  const spent = forecast.tokensPerJob === null ? "without a model" : `for ${cost(forecast.costUsdPerDay)}`;
  return `${plural(matchCount, "match", "matches")} in ${plural(traceCount, "trace")}, ${count(sampledCount)} sampled; ${jobs} per day, ${spent}.`;
}

function Forecast({ run }: { run: DryRun }) {
  const { forecast } = run;
  const asksModel = forecast.tokensPerJob !== null;
  return (
    <>
      <div className="cards">
        <div className="card"><h3>Matches</h3><div className="value">{count(run.matchCount)}</div><p className="note">in {plural(run.traceCount, "trace")}{run.isComplete ? "" : ", the latest ones"}</p></div>
        <div className="card"><h3>Sampled</h3><div className="value">{count(run.sampledCount)}</div><p className="note">{rate(run.matchCount === 0 ? null : run.sampledCount / run.matchCount)} of the matches</p></div>
        <div className="card"><h3>Jobs per day</h3><div className="value">{count(Math.round(forecast.jobsPerDay))}</div><p className="note">{asksModel ? `about ${count(Math.round(forecast.tokensPerJob ?? 0))} tokens each` : "no model is asked"}</p></div>
        <div className="card"><h3>Cost per day</h3><div className="value">{asksModel ? cost(forecast.costUsdPerDay) : "–"}</div><p className="note">{asksModel ? "an estimate from the lengths of texts" : "evaluated on the server"}</p></div>
      </div>
      <h3 className="spaced">Examples</h3>
      {run.examples.length === 0 ? <p className="muted">Nothing of the last week matches.</p> : (
        <ul className="plain-list">
          {run.examples.map((one) => (
            <li key={one.spanId + one.traceId}>
              <Link className="link mono" to="/traces/$traceId" params={{ traceId: one.traceId }} search={{ span: one.spanId }}>{shown(one.traceId)}</Link>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
