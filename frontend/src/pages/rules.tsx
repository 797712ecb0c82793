/** Rules of online evaluation: what they match, what they found, and what they would cost. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { type Rule, type RuleStats, backFillsQuery, bodyOf, replaceRule, ruleStatsQuery, rulesQuery, useChosenProject, withSaved } from "../api/online";
import { change } from "../api/client";
import { sessionQuery } from "../api/session";
import { hasRole } from "../api/settings";
import { useWrite } from "../api/write";
import { Failure, Loading, State, Text, Time } from "../components/bits";
import { IntervalBar } from "../components/intervals";
import { NotSaved } from "../components/notices";
import { RuleForm } from "../components/rule-form";
import { RulePreview } from "../components/rule-preview";
import { RoleNeeded } from "../components/settings-bits";
import { Crumbs } from "../components/shell";
import { ProjectChoice } from "../components/trace-bits";
import { dropDraft } from "../lib/drafts";
import { count, cut, plural, rate, score, shown } from "../lib/format";

const route = getRouteApi("/trace-eval-rules");

export function RulesPage() {
  const { project: chosen, rule, edit } = route.useSearch();
  const navigate = route.useNavigate();
  const { project, id, projects } = useChosenProject(chosen);
  const rules = useQuery({ ...rulesQuery(id ?? ""), enabled: id !== undefined });
  const session = useQuery(sessionQuery).data;
  const mayChange = hasRole(session, "EDITOR", project);
  const current = rules.data?.find((one) => one.id === rule);
  const open = (one: string | undefined, isEdited = false) =>
    void navigate({ search: { ...(project === undefined ? {} : { project }), ...(one === undefined ? {} : { rule: one }), ...(isEdited ? { edit: "true" } : {}) } });
  return (
    <>
      <Crumbs title={current?.name ?? "Trace eval rules"}>
        {project !== undefined && <><Link to="/projects/$name" params={{ name: project }}>{shown(project)}</Link><i>/</i></>}
        {current !== undefined && <><Link to="/trace-eval-rules" search={project === undefined ? {} : { project }}>Trace eval rules</Link><i>/</i></>}
      </Crumbs>
      {edit === "true" && mayChange && id !== undefined && rules.data !== undefined && (rule === undefined || current !== undefined) ? (
        <RuleForm key={`${id}:${current?.id ?? "new"}`} project={id} rule={current} onSaved={open} onCancel={() => open(rule)} />
      ) : current !== undefined && project !== undefined ? (
        <>
          {!mayChange && <RoleNeeded session={session} role="editor" what="Changing rules" />}
          <OneRule key={current.id} rule={current} project={project} mayChange={mayChange} onEdit={() => open(current.id, true)} onDeleted={() => open(undefined)} />
        </>
      ) : (
        <>
          <div className="head">
            <div><h1>Trace eval rules</h1><p className="facts"><span>what is scored of the traces as they come in</span></p></div>
            <div className="actions"><ProjectChoice all={false} project={project} onChoose={(name) => void navigate({ search: name === undefined ? {} : { project: name }, replace: true })} />
              {id !== undefined && mayChange && <button type="button" className="btn main" onClick={() => open(undefined, true)}>New rule</button>}
            </div>
          </div>
          {id !== undefined && !mayChange && <RoleNeeded session={session} role="editor" what="Making rules" />}
          <section>
            {projects.isPending ? <Loading />
              : project === undefined && projects.isSuccess ? <State title="Choose a project"><p>Rules belong to a project. Choose one above.</p></State>
              : project === undefined || projects.isLoadingError ? <Failure error={projects.error} retry={() => void projects.refetch()} />
              : projects.isSuccess && id === undefined ? <State title="This project is not here"><p>It may have been deleted, or its name is another one.</p></State>
              : rules.isPending ? <Loading />
              : rules.isLoadingError ? <Failure error={rules.error} retry={() => void rules.refetch()} />
              : rule !== undefined && rules.data.every((one) => one.id !== rule) ? <State title="This rule is not here" actions={<button type="button" className="btn" onClick={() => open(undefined)}>Show all rules</button>}><p>It may have been deleted.</p></State>
              : <RuleTable rules={rules.data} project={project} />}
          </section>
        </>
      )}
    </>
  );
}

function RuleTable({ rules, project }: { rules: readonly Rule[]; project: string }) {
  if (rules.length === 0) {
    return (
      <State title="No rule scores the traces of this project">
        <p>A rule scores what comes in, with a model as a judge or with an evaluator of the library. "New rule" makes one, and says before what it matches and costs.</p>
      </State>
    );
  }
  return (
    <div className="panel">
      <table>
        <thead><tr><th>Rule</th><th>Enabled</th><th className="hide-s">Matches</th><th className="hide-s">Scored</th><th className="num">Pass rate, last week</th></tr></thead>
        <tbody>
          {rules.map((rule) => (
            <tr key={rule.id}>
              <th scope="row">
                <Link className="link" to="/trace-eval-rules" search={{ project, rule: rule.id }}>{shown(rule.name)}</Link>
                <span className="sub">{shown(rule.evaluatorName)}</span>
              </th>
              <td>{rule.enabled ? "✓ on" : <span className="muted">– off</span>}</td>
              <td className="hide-s"><span className="cut">{shown(cut(matchOf(rule), 60))}</span></td>
              <td className="hide-s">{shareOf(rule)} of {rule.scope}s</td>
              <td className="num"><PassRate rule={rule} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function PassRate({ rule }: { rule: Rule }) {
  const stats = useQuery(ruleStatsQuery(rule.projectId, rule.id));
  if (stats.data === undefined) return stats.isError ? <span className="error">! not known</span> : "…";
  const { passRate, meanScore } = stats.data;
  return (
    <>
      {passRate !== null ? rate(passRate.value) : meanScore !== null ? score(meanScore.value) : "–"}
      <span className="sub">{passRate !== null || meanScore !== null ? `n = ${count((passRate ?? meanScore)?.n ?? 0)}` : "nothing scored"}</span>
    </>
  );
}

function matchOf(rule: Rule): string {
  const what = rule.matchType === "SPAN_NAME" || rule.matchKey === null ? "name" : rule.matchKey;
  const how = rule.matchType === "WILDCARD" ? "fits" : rule.matchType === "PATTERN" ? "has the pattern" : "is";
  return `${what} ${how} ${rule.matchValue}`;
}

function shareOf(rule: Rule): string {
  const share = rule.sampling?.["rate"];
  return typeof share === "number" && share < 1 ? rate(share) : "all";
}

interface OneRuleProps {
  readonly rule: Rule;
  readonly project: string;
  readonly mayChange: boolean;
  readonly onEdit: () => void;
  readonly onDeleted: () => void;
}

function OneRule({ rule, project, mayChange, onEdit, onDeleted }: OneRuleProps) {
  const queries = useQueryClient();
  const [isSure, setIsSure] = useState(false);
  const remove = useWrite<null, unknown>({
    what: "The deletion",
    send: () => change("DELETE", `/projects/${rule.projectId}/trace-eval-rules/${rule.id}`),
    keys: () => [["trace-eval-rules", rule.projectId]],
    notice: () => ({ text: `The rule ${rule.name} is deleted, with its results.` }),
    onSaved: () => {
      dropDraft(`rule:${rule.projectId}:${rule.id}`);
      onDeleted();
    },
  });
  const stats = useQuery(ruleStatsQuery(rule.projectId, rule.id));
  const write = useWrite<boolean, Rule>({
    what: "The rule",
    send: (enabled) => replaceRule(rule, { ...bodyOf(rule), enabled }),
    keys: () => [["trace-eval-rules", rule.projectId]],
    notice: (answer) => ({ text: answer.enabled ? "The rule scores what comes from now on." : "The rule is off; what it has queued waits." }),
    onSaved: (saved) => queries.setQueryData(rulesQuery(rule.projectId).queryKey, (list) => withSaved(list, saved)),
  });
  return (
    <>
      <div className="head">
        <div>
          <h1>{shown(rule.name)}</h1>
          <p className="facts">
            <span>{rule.enabled ? "enabled" : "not enabled"}</span>
            <span>{shown(rule.evaluatorName)}</span>
            <span>{shareOf(rule)} of {rule.scope}s where the {shown(cut(matchOf(rule), 80))}</span>
            <span>changed <Time value={rule.updatedAt} /></span>
          </p>
        </div>
        <div className="actions">
          {mayChange && <button type="button" className="btn" disabled={write.isSaving} onClick={() => write.save(!rule.enabled)}>{rule.enabled ? "Disable" : "Enable"}</button>}
          {mayChange && <button type="button" className="btn" onClick={onEdit}>Edit</button>}
          {!mayChange ? null : isSure
            ? <button type="button" className="btn" disabled={remove.isSaving} onClick={() => remove.save(null)}><span className="fail">Delete it with its results</span></button>
            : <button type="button" className="btn" onClick={() => setIsSure(true)}>Delete …</button>}
          <Link className="btn" to="/traces" search={{ project, evaluator: rule.evaluatorName, result: "failed" }}>Failed traces</Link>
          <Link className="btn" to="/traces" search={{ project, evaluator: rule.evaluatorName, sort: "score,asc" }}>Lowest scores</Link>
        </div>
      </div>
      <NotSaved write={write} />
      <NotSaved write={remove} />
      {stats.isPending ? <Loading /> : stats.isLoadingError ? <Failure error={stats.error} retry={() => void stats.refetch()} /> : <Findings rule={rule} stats={stats.data} />}
      <section>
        <div className="sec"><h2>Which spans it scores</h2><span className="label">held against the stored traces of the last week; nothing is scored</span></div>
        <RulePreview project={rule.projectId} body={bodyOf(rule)} />
      </section>
      <BackFills rule={rule} />
      <section>
        <div className="sec"><h2>How it scores</h2></div>
        {rule.criteria !== null && <Text>{rule.criteria}</Text>}
        <details open={rule.criteria === null}>
          <summary>All fields</summary>
          <Text>{JSON.stringify(bodyOf(rule), null, 2)}</Text>
        </details>
      </section>
    </>
  );
}

function Findings({ rule, stats }: { rule: Rule; stats: RuleStats }) {
  const { passRate, meanScore } = stats;
  const of = passRate ?? meanScore;
  return (
    <>
      <p className="verdict">
        {passRate !== null ? <>{rate(passRate.value)} passed <span className="of">· 95 % between {rate(passRate.low)} and {rate(passRate.high)}</span></>
          : meanScore !== null ? <>Mean score {score(meanScore.value)} <span className="of">· 95 % between {score(meanScore.low)} and {score(meanScore.high)}</span></>
          : <span className="none">– Nothing was scored in the last week</span>}
      </p>
      <p className="sentence muted">
        {of !== null && `n = ${plural(of.n, "trace")}; an estimate for all that the rule matches, of which ${rate(of.sampledShare)} were sampled.`}
        {!stats.isComplete && " There were more scores than are read; this is a part of them."}
      </p>
      <div className="cards">
        <div className="card"><p className="title">Pass rate</p><div className="value">{rate(passRate?.value)}</div>{passRate !== null && <IntervalBar estimate={passRate} />}<p className="note">{passRate === null ? "needs a threshold and scores" : `n = ${count(passRate.n)}`}</p></div>
        <div className="card"><p className="title">Mean score</p><div className="value">{score(meanScore?.value)}</div><p className="note">{meanScore === null ? "no score yet" : `between ${score(meanScore.low)} and ${score(meanScore.high)}`}</p></div>
        <div className="card"><p className="title">Scored</p><div className="value">{count(stats.scoredCount)}</div><p className="note">{plural(stats.openCount, "job")} waiting{rule.enabled ? "" : " until it is enabled"}</p></div>
        {stats.reviews.failed.queuedCount + stats.reviews.other.queuedCount > 0 && <Reviewed reviews={stats.reviews} />}
        <div className="card"><p className="title">Errors</p><div className={stats.errorCount > 0 ? "value error" : "value"}>{count(stats.errorCount)}</div><p className="note">in no rate and no mean</p></div>
      </div>
    </>
  );
}

/** How often the rule is right, by what people said of the scores that it queued. */
function Reviewed({ reviews: { failed, other, correctRate, limitedDayCount } }: { reviews: RuleStats["reviews"] }) {
  const queued = failed.queuedCount + other.queuedCount;
  return (
    <div className="card">
      <p className="title">Answers that people find correct</p>
      <div className="value">{rate(correctRate?.value)}</div>
      {correctRate !== null && <IntervalBar estimate={correctRate} />}
      <p className="note">
        {count(failed.reviewedCount + other.reviewedCount)} of {count(queued)} queued are reviewed
        {correctRate === null && ", which is too few for all that the rule matches"}
        {failed.correctRate !== null && `; ${rate(failed.correctRate.value)} of those that failed`}
        {limitedDayCount > 0 && `; the limit was reached on ${plural(limitedDayCount, "day")}`}
      </p>
    </div>
  );
}

const DAYS = [1, 7, 30] as const;
const DAY_MS = 86_400_000;

function BackFills({ rule }: { rule: Rule }) {
  const fills = useQuery(backFillsQuery(rule.projectId, rule.id));
  const [days, setDays] = useState<number>(7);
  const write = useWrite<number, unknown>({
    what: "The back-fill",
    send: (since) => change("POST", `/projects/${rule.projectId}/trace-eval-rules/${rule.id}/back-fill`, { from: new Date(Date.now() - since * DAY_MS).toISOString() }),
    keys: () => [["back-fills", rule.projectId, rule.id], ["rule-stats", rule.projectId, rule.id]],
    notice: () => ({ text: "The stored traces are scored as the rule samples them." }),
  });
  return (
    <section>
      <div className="sec"><h2>Score stored traces</h2><span className="label">with the sampling and the budget of the rule; nothing is scored twice</span></div>
      <div className="bar">
        <select className="field" aria-label="Since when" value={days} onChange={(event) => setDays(Number(event.target.value))}>
          {DAYS.map((one) => <option key={one} value={one}>{one === 1 ? "of the last day" : `of the last ${one} days`}</option>)}
        </select>
        <button type="button" className="btn" disabled={write.isSaving} onClick={() => write.save(days)}>Score them</button>
      </div>
      <NotSaved write={write} />
      {fills.data !== undefined && fills.data.length > 0 && (
        <div className="panel">
          <table>
            <thead><tr><th>Period</th><th>Status</th><th className="num">Traces</th><th className="num">Jobs</th></tr></thead>
            <tbody>
              {fills.data.map((one) => (
                <tr key={one.id}>
                  <td><Time value={one.from} /> – <Time value={one.to} /></td>
                  <td>{one.status === "PENDING" ? (rule.enabled ? "going on" : "waits for the rule") : "done"}</td>
                  <td className="num">{count(one.traceCount)}</td>
                  <td className="num">{count(one.jobCount)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
