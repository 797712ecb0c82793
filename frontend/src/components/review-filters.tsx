/** Which items of the queue are shown, and in which order: all of it stands in the address. */
import { useQuery } from "@tanstack/react-query";
import { projectsQuery } from "../api/queries";
import type { QueueFilter } from "../api/reviews";
import { shown } from "../lib/format";
import { SavedViews } from "./saved-views";

interface Props {
  readonly filter: QueueFilter;
  readonly onChange: (next: { [K in keyof QueueFilter]?: QueueFilter[K] | undefined }) => void;
}

const NEAR = 0.05;
const SAMPLE = 0.1;

export function ReviewFilters({ filter, onChange }: Props) {
  const projects = useQuery(projectsQuery);
  const chips = [
    ["✗ Failed", filter.outcome === "failed", { outcome: filter.outcome === "failed" ? undefined : "failed" }],
    ["! Errored", filter.outcome === "errored", { outcome: filter.outcome === "errored" ? undefined : "errored" }],
    ["Evaluators disagree", filter.disagree === true, { disagree: filter.disagree === true ? undefined : true }],
    [`Within ${(filter.near ?? NEAR) * 100} % of a threshold`, filter.near !== undefined, { near: filter.near === undefined ? NEAR : undefined }],
    [`A sample of ${(filter.sample ?? SAMPLE) * 100} %`, filter.sample !== undefined, { sample: filter.sample === undefined ? SAMPLE : undefined }],
    ["Mine", filter.assigned === "me", { assigned: filter.assigned === "me" ? undefined : "me" }],
    ["Nobody’s", filter.assigned === "nobody", { assigned: filter.assigned === "nobody" ? undefined : "nobody" }],
  ] as const;
  return (
    <>
      <div className="bar">
        <select
          className="field"
          aria-label="Project"
          value={filter.project ?? ""}
          onChange={(event) => onChange({ project: event.target.value || undefined, experimentId: undefined, runId: undefined })}
        >
          <option value="">All projects</option>
          {projects.data?.map((project) => <option key={project.id} value={project.name}>{shown(project.name)}</option>)}
        </select>
        <select
          className="field"
          aria-label="Order"
          value={filter.order ?? "informative"}
          onChange={(event) => onChange({ order: event.target.value === "oldest" ? "oldest" : undefined })}
        >
          <option value="informative">Most informative first</option>
          <option value="oldest">Oldest first</option>
        </select>
        {filter.runId !== undefined && <button type="button" className="chip" aria-pressed onClick={() => onChange({ runId: undefined })}>One run ✕</button>}
        {filter.experimentId !== undefined && <button type="button" className="chip" aria-pressed onClick={() => onChange({ experimentId: undefined })}>One experiment ✕</button>}
      </div>
      <div className="bar" role="group" aria-label="Filters">
        {chips.map(([label, isOn, next]) => (
          <button key={label} type="button" className="chip" aria-pressed={isOn} onClick={() => onChange(next)}>{label}</button>
        ))}
      </div>
      <SavedViews area="review" />
    </>
  );
}
