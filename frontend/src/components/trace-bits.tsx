/** Parts that the pages of production share. */
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, type ReactNode } from "react";
import { type EvalJob, type TraceStep } from "../api/traces";
import { projectsQuery } from "../api/queries";
import { count, plural, score, shown, time } from "../lib/format";
import { stepOf } from "../lib/keys";
import { isWaiting, outcomeOfJob } from "../lib/spans";
import { Sign } from "./bits";

export const PERIODS: readonly (readonly [string, string])[] = [
  ["1h", "Last hour"], ["24h", "Last 24 hours"], ["7d", "Last 7 days"], ["30d", "Last 30 days"],
];

/** A choice of one of the projects, or of all. */
export function ProjectChoice({ project, onChoose, all = true }: { project: string | undefined; onChoose: (name: string | undefined) => void; all?: boolean }) {
  const projects = useQuery(projectsQuery);
  const names = projects.data?.map((one) => one.name) ?? [];
  const listed = project === undefined || names.includes(project) ? names : [project, ...names];
  return (
    <select className="field" aria-label="Project" value={project ?? ""} onChange={(event) => onChoose(event.target.value || undefined)}>
      {(all || project === undefined) && <option value="">{all ? "All projects" : "Choose a project"}</option>}
      {listed.map((name) => <option key={name} value={name}>{shown(name)}</option>)}
    </select>
  );
}

export function Judgement({ job, children }: { job: EvalJob; children?: ReactNode }) {
  const outcome = outcomeOfJob(job);
  return (
    <div className="judged">
      <div className="line">
        <Sign outcome={outcome} word={false} />
        <b>{shown(job.evaluatorName)}</b>
        <span className={outcome}>{isWaiting(job) ? "not scored yet" : outcome === "error" ? "not scored" : score(job.score)}</span>
      </div>
      {job.reason !== null && <p dir="auto">{shown(job.reason)}</p>}
      {job.lastError !== null && <p className="error" dir="auto">{shown(job.lastError)}</p>}
      {job.attemptCount > 1 && <p>{plural(job.attemptCount, "attempt")}</p>}
      {children}
    </div>
  );
}

/** Focus goes from row to row by `j` and `k` or the arrows; the rows have `data-index`. */
export function moveFocus(event: KeyboardEvent, last: number, scrollTo: (index: number) => void): void {
  if (event.target instanceof HTMLInputElement) return;
  const step = stepOf(event);
  if (step === 0) return;
  event.preventDefault();
  const box = event.currentTarget as HTMLElement;
  const now = Number((event.target as HTMLElement).closest<HTMLElement>("[data-index]")?.dataset["index"] ?? -1);
  const next = Math.min(last, Math.max(0, now + step));
  scrollTo(next);
  const focus = () => box.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus({ preventScroll: true });
  if (box.querySelector(`[data-index="${next}"]`) === null) requestAnimationFrame(focus);
  else focus();
}

interface HistogramProps {
  readonly steps: readonly TraceStep[];
  readonly stepHours: number;
  readonly onChoose?: (from: string, to: string) => void;
}

/** How many traces there were, those with an error full and orange at the bottom. */
export function TraceHistogram({ steps, stepHours, onChoose }: HistogramProps) {
  const most = Math.max(1, ...steps.map((step) => step.traceCount));
  const width = 960 / Math.max(1, steps.length);
  const all = steps.reduce((sum, step) => sum + step.traceCount, 0);
  const failed = steps.reduce((sum, step) => sum + step.errorCount, 0);
  const unit = stepHours === 1 ? "hour" : stepHours === 24 ? "day" : `${stepHours} hours`;
  const endOf = (step: TraceStep) => new Date(new Date(step.start).getTime() + stepHours * 3_600_000).toISOString();
  const height = (n: number) => (n === 0 ? 0 : Math.max(1.5, (n / most) * 76));
  const middle = steps.length > 4 ? steps[Math.floor(steps.length / 2)] : undefined;
  return (
    <figure className="traffic-box">
      <span className="label num">{count(most)}</span>
      <svg
        className="traffic"
        viewBox="0 0 960 80"
        preserveAspectRatio="none"
        role="img"
        aria-label={`${plural(all, "trace")} by the ${unit}, ${count(failed)} with an error; ${count(most)} in the fullest`}
      >
        <line className="l-axis" x1="0" x2="960" y1="79.5" y2="79.5" />
        {steps.map((step, index) => {
          const bar = height(step.traceCount);
          const bad = Math.min(bar, height(step.errorCount));
          const x = index * width;
          return (
            <g key={step.start}>
              <title>{`${time(step.start)}: ${plural(step.traceCount, "trace")}, ${count(step.errorCount)} with an error`}</title>
              <rect className="f-soft" x={x} y={79 - bar} width={Math.max(1, width - 1)} height={bar - bad} />
              <rect className="f-fail" x={x} y={79 - bad} width={Math.max(1, width - 1)} height={bad} />
              <rect className={onChoose === undefined ? "hit" : "hit can"} x={x} width={width} height="80" onClick={() => onChoose?.(step.start, endOf(step))} />
            </g>
          );
        })}
      </svg>
      <figcaption className="label">
        <span>{time(steps[0]?.start ?? "")}</span>
        {middle !== undefined && <span className="hide-s">{time(middle.start)}</span>}
        <span>{time(steps.at(-1)?.start ?? "")}</span>
      </figcaption>
    </figure>
  );
}
