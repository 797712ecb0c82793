/** Judge jobs of a run: how far they are, what they cost, and a new one. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { type Job, type JobAction, addJob, changeJob, jobsQuery } from "../api/judging";
import { connectionsQuery } from "../api/online";
import type { Run } from "../api/queries";
import { mayWrite, sessionQuery } from "../api/session";
import { useWrite } from "../api/write";
import { cost, count, duration, plural, shown } from "../lib/format";
import { Failure } from "./bits";
import { NotSaved } from "./notices";

const WORDS: Record<Job["status"], string> = {
  PENDING: "waits for its turn",
  CLAIMED: "running",
  SUCCEEDED: "✓ done",
  FAILED: "! failed",
  PAUSED: "paused",
  CANCELLED: "cancelled",
};

const ACTIONS: Record<Job["status"], readonly (readonly [JobAction, string])[]> = {
  PENDING: [["pause", "Pause"], ["cancel", "Cancel"]],
  CLAIMED: [["pause", "Pause"], ["cancel", "Cancel"]],
  PAUSED: [["resume", "Resume"], ["cancel", "Cancel"]],
  SUCCEEDED: [],
  FAILED: [["retry", "Score what is missing"]],
  CANCELLED: [["retry", "Score what is missing"]],
};

export function JudgeJobs({ run, isAdding, onClose }: { run: Run; isAdding: boolean; onClose: () => void }) {
  const jobs = useQuery(jobsQuery(run.id));
  if (jobs.isPending && !isAdding) return null;
  if (!isAdding && (jobs.data?.length ?? 0) === 0 && !jobs.isLoadingError) return null;
  return (
    <section>
      <div className="sec"><h2>Judge jobs</h2></div>
      {isAdding && <JobForm run={run} onClose={onClose} />}
      {jobs.isLoadingError && <Failure error={jobs.error} retry={() => void jobs.refetch()} />}
      {jobs.data !== undefined && jobs.data.length > 0 && (
        <div className="panel">
          <table>
            <thead>
              <tr><th>Evaluator</th><th>Status</th><th className="num">Scored</th><th className="num hide-s">Errors</th><th className="num hide-s">Calls</th><th className="num">Spent</th><th><span className="label">Actions</span></th></tr>
            </thead>
            <tbody>{jobs.data.map((job) => <JobRow key={job.id} run={run} job={job} />)}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function JobRow({ run, job }: { run: Run; job: Job }) {
  const session = useQuery(sessionQuery);
  const write = useWrite({ what: "The job", send: changeJob(run.id), keys: () => [["jobs", run.id], ["run", run.id]] });
  const actions = job.errorCount > 0 && job.status === "SUCCEEDED" ? ([["retry", "Score the errored again"]] as const) : ACTIONS[job.status];
  return (
    <tr>
      <th scope="row">{shown(job.evaluatorName)}</th>
      <td>
        <span className={job.status === "FAILED" ? "error" : job.status === "SUCCEEDED" ? "pass" : ""}>{WORDS[job.status]}</span>
        {job.remainingSeconds !== null && <span className="sub">about {duration(job.remainingSeconds * 1_000)} left</span>}
        {job.lastError !== null && <span className="sub error">{shown(job.lastError)}</span>}
      </td>
      <td className="num">
        {count(job.scoredCount)}/{count(job.itemCount)}
        {job.skippedCount > 0 && <span className="sub">{count(job.skippedCount)} skipped</span>}
      </td>
      <td className="num hide-s">{job.errorCount > 0 ? <span className="error">{count(job.errorCount)} !</span> : "–"}</td>
      <td className="num hide-s">
        {job.connectionId === null ? count(job.calls) : (
          <Link className="link" aria-label={plural(job.calls, "judge call")} to="/projects/$name/judge-calls" params={{ name: run.projectName }} search={{ job: job.id }}>{count(job.calls)}</Link>
        )}
      </td>
      <td className="num">
        {cost(job.costUsd)}
        {job.unpricedCalls > 0 && job.costUsd !== null && <span className="sub">{plural(job.unpricedCalls, "call")} unpriced</span>}
      </td>
      <td>
        {mayWrite(session.data) && (
          <span className="actions">
            {actions.map(([action, label]) => (
              <button key={action} type="button" className="btn" disabled={write.isSaving} onClick={() => write.save({ job, action })}>{label}</button>
            ))}
          </span>
        )}
        <NotSaved write={write} />
      </td>
    </tr>
  );
}

const PARAMS: readonly (readonly [string, string])[] = [
  ["INPUT", "Input"],
  ["EXPECTED_OUTPUT", "Expected output"],
  ["ACTUAL_OUTPUT", "Actual output"],
];

function JobForm({ run, onClose }: { run: Run; onClose: () => void }) {
  const queries = useQueryClient();
  const connections = useQuery(connectionsQuery);
  const [connection, setConnection] = useState("");
  const [name, setName] = useState("");
  const [criteria, setCriteria] = useState("");
  const [params, setParams] = useState<readonly string[]>(["INPUT", "ACTUAL_OUTPUT"]);
  const [range, setRange] = useState({ min: "0", max: "1", threshold: "0.5" });
  const chosen = connection || connections.data?.[0]?.id || "";
  const write = useWrite({
    what: "The job",
    send: addJob(run.id),
    keys: () => [["jobs", run.id], ["run", run.id]],
    notice: () => ({ text: `${plural(run.totalItems, "item")} will be judged` }),
    onSaved: () => {
      void queries.invalidateQueries({ queryKey: ["outline", run.id] });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    write.save({
      connectionId: chosen,
      evaluatorName: name.trim(),
      criteria: criteria.trim(),
      evaluationParams: params,
      minScore: Number(range.min),
      maxScore: Number(range.max),
      threshold: range.threshold.trim() === "" ? null : Number(range.threshold),
    });
  };
  const calls = plural(run.totalItems, "call");
  return (
    <form
      className="panel pad form"
      aria-label="Run LLM judge"
      onSubmit={submit}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <label>
        Model
        <select className="field" required value={chosen} onChange={(event) => setConnection(event.target.value)}>
          {connections.data?.length === 0 && <option value="">no connection yet</option>}
          {connections.data?.map((one) => <option key={one.id} value={one.id}>{`${shown(one.name)} · ${shown(one.model)}`}</option>)}
        </select>
      </label>
      <label>Evaluator name <input className="field" required autoFocus value={name} onChange={(event) => setName(event.target.value)} /></label>
      <label className="wide">
        Criteria
        <textarea className="field" required rows={3} value={criteria} placeholder="Is the answer correct and complete?" onChange={(event) => setCriteria(event.target.value)} />
      </label>
      <fieldset className="wide">
        <legend className="label">What the judge sees</legend>
        {PARAMS.map(([value, label]) => (
          <label key={value} className="check">
            <input
              type="checkbox"
              checked={params.includes(value)}
              onChange={(event) => setParams(event.target.checked ? [...params, value] : params.filter((one) => one !== value))}
            />{" "}
            {label}
          </label>
        ))}
      </fieldset>
      {([["min", "Minimum score"], ["max", "Maximum score"], ["threshold", "Pass threshold (empty: informational)"]] as const).map(([key, label]) => (
        <label key={key}>
          {label} <input className="field" type="number" step="any" required={key !== "threshold"} value={range[key]} onChange={(event) => setRange({ ...range, [key]: event.target.value })} />
        </label>
      ))}
      <p className="label wide">
        At least {calls} to the model, one for each item; what they cost is shown while the job runs.
        {connections.data?.length === 0 && " A connection to a model is made under “LLM connections”."}
      </p>
      {connections.isLoadingError && <Failure error={connections.error} retry={() => void connections.refetch()} />}
      <div className="actions wide">
        <button type="submit" className="btn main" disabled={write.isSaving || chosen === ""}>Judge {plural(run.totalItems, "item")}</button>
        <button type="button" className="btn bare" onClick={onClose}>Close<kbd>esc</kbd></button>
      </div>
      <NotSaved write={write} />
    </form>
  );
}
