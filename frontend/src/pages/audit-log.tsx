/** The audit log: who changed what, and what was refused. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { apiPath } from "../api/client";
import { projectsQuery } from "../api/queries";
import { type AuditRow, auditQuery } from "../api/settings";
import { Failure, Loading, SearchField, State, Time } from "../components/bits";
import { More } from "../components/settings-bits";
import { Crumbs } from "../components/shell";
import { count, plural, shown } from "../lib/format";
import { toField, toMoment } from "../lib/settings";
import type { AuditSearch } from "../settings-routes";
import "../styles/settings.css";
import { saysAnything } from "../lib/address-texts";

const route = getRouteApi("/audit-log");
const OUTCOMES = [["ok", "✓ Done"], ["refused", "✗ Refused"], ["failed", "! Failed"]] as const;
const SIGNS = { ok: ["pass", "✓ done"], refused: ["fail", "✗ refused"], failed: ["error", "! failed"] } as const;
const FIELDS = [
  ["principal", "Who", "id, name or kind"],
  ["action", "Action", "run, run.delete, …"],
  ["target", "Target", "id or name"],
  ["project", "Project", "id or name"],
] as const;

export function AuditPage() {
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const log = useInfiniteQuery(auditQuery(filter));
  const rows = log.data?.pages.flat() ?? [];
  const isFiltered = saysAnything(filter);
  const change = (next: { readonly [name in keyof AuditSearch]?: string | undefined }) => {
    const kept = Object.entries({ ...filter, ...next }).filter(([, value]) => value !== undefined && value !== "");
    void navigate({ search: Object.fromEntries(kept), replace: true, resetScroll: false });
  };
  return (
    <div className="set-page">
      <Crumbs title="Audit log" />
      <div className="head">
        <div>
          <h1>Audit log</h1>
          <p className="facts"><span>each change and each refusal, newest first</span><span>contents and keys are never in it</span></p>
        </div>
        {log.isSuccess && (
          <div className="actions">
            <a className="btn" href={apiPath("/audit-log/export", { ...filter, format: "csv" })} download="audit-log.csv">Export CSV</a>
            <a className="btn" href={apiPath("/audit-log/export", { ...filter, format: "jsonl" })} download="audit-log.jsonl">Export JSONL</a>
          </div>
        )}
      </div>
      <Filters filter={filter} onChange={change} onClear={() => void navigate({ search: {}, replace: true })} />
      {log.isPending ? <Loading />
        : log.isLoadingError ? <Failure error={log.error} retry={() => void log.refetch()} />
        : (
          <>
            <div className="panel gap" aria-busy={log.isFetching}>
              {rows.length === 0 ? (
                <State title={isFiltered ? "No row is like this" : "Nothing was changed yet"} actions={isFiltered && <button type="button" className="btn" onClick={() => void navigate({ search: {} })}>Show all rows</button>}>
                  <p>{isFiltered ? "Names and ids have to be whole; the search takes parts of them." : "The first change has the first row."}</p>
                </State>
              ) : rows.map((row) => <Row key={row.id} row={row} onChange={change} />)}
            </div>
            {rows.length > 0 && (
              <div className="bar">
                <span className="label">{plural(rows.length, "row")} shown{log.hasNextPage ? ", there are more" : ""}</span>
                <More query={log} what="rows" />
              </div>
            )}
          </>
        )}
    </div>
  );
}

interface FilterProps {
  readonly filter: AuditSearch;
  readonly onChange: (next: { readonly [name in keyof AuditSearch]?: string | undefined }) => void;
  readonly onClear: () => void;
}

function Filters({ filter, onChange, onClear }: FilterProps) {
  const [clears, setClears] = useState(0); // a cleared field is made anew, since what is typed in it is its own
  return (
    <>
      <div className="bar">
        <SearchField key={clears} label="Search the log" placeholder="Search who, action, target, address, request id" text={filter.search ?? ""} onSearch={(search) => onChange({ search })} />
      </div>
      <div className="bar" role="group" aria-label="Outcome">
        <button type="button" className="chip" aria-pressed={filter.outcome === undefined} onClick={() => onChange({ outcome: undefined })}>All</button>
        {OUTCOMES.map(([value, label]) => (
          <button key={value} type="button" className="chip" aria-pressed={filter.outcome === value} onClick={() => onChange({ outcome: filter.outcome === value ? undefined : value })}>{label}</button>
        ))}
        {saysAnything(filter) && <button type="button" className="btn bare" onClick={() => { setClears(clears + 1); onClear(); }}>Clear all filters</button>}
      </div>
      <details open={FIELDS.some(([name]) => filter[name] !== undefined) || filter.from !== undefined || filter.to !== undefined} className="spaced-top">
        <summary>Who, what and when</summary>
        <div className="set-fields audit-fields">
          {FIELDS.map(([name, label, example]) => (
            <label key={name} className="set-field">
              <span>{label}</span>
              <input
                className="field"
                placeholder={example}
                key={filter[name] ?? ""}
                defaultValue={filter[name] ?? ""}
                onBlur={({ target }) => onChange({ [name]: target.value.trim() })}
                onKeyDown={(event) => {
                  if (event.key === "Enter") onChange({ [name]: event.currentTarget.value.trim() });
                }}
              />
            </label>
          ))}
          {(["from", "to"] as const).map((name) => (
            <label key={name} className="set-field">
              <span>{name === "from" ? "From" : "Before"}, in your zone</span>
              <input className="field" type="datetime-local" value={toField(filter[name])} onChange={({ target }) => onChange({ [name]: toMoment(target.value) ?? undefined })} />
            </label>
          ))}
        </div>
      </details>
    </>
  );
}

function Row({ row, onChange }: { row: AuditRow; onChange: FilterProps["onChange"] }) {
  const [style, word] = SIGNS[row.outcome];
  const target = row.target.name ?? row.target.id;
  const projectName = useQuery(projectsQuery).data?.find((one) => one.id === row.projectId)?.name;
  return (
    <details className="audit-row">
      <summary>
        <Time value={row.time} />
        <span className="cut">{shown(row.principal.name ?? row.principal.id)}</span>
        <span className="cut mono">{shown(row.action)}</span>
        <span className="cut">{row.target.kind !== null && `${shown(row.target.kind)} `}{target !== null && shown(target)}</span>
        <span className={`sign ${style}`}>{word}{row.count > 1 && ` × ${count(row.count)}`}</span>
      </summary>
      <dl className="facts-list">
        <dt>Who</dt>
        <dd>
          {shown(row.principal.name ?? row.principal.id)} <span className="label">{shown(row.principal.kind)}, {shown(row.principal.id)}</span>{" "}
          <button type="button" className="link plain" onClick={() => onChange({ principal: row.principal.id })}>Only this one</button>
        </dd>
        <dt>Action</dt>
        <dd><span className="mono">{shown(row.action)}</span>{" "}<button type="button" className="link plain" onClick={() => onChange({ action: row.action })}>Only this action</button></dd>
        {target !== null && <><dt>Target</dt><dd>{shown(target)}{row.target.id !== null && row.target.id !== target && <span className="label"> {shown(row.target.id)}</span>}</dd></>}
        {row.count > 1 && <><dt>Times</dt><dd>{count(row.count)}, the last one <Time value={row.lastTime} /></dd></>}
        <dt>Answer</dt><dd>{row.status ?? "–"}</dd>
        {row.address !== null && <><dt>From</dt><dd>{shown(row.address)}</dd></>}
        {row.tenantId !== null && <><dt>Tenant</dt><dd>{shown(row.tenantId)}</dd></>}
        {row.projectId !== null && <><dt>Project</dt><dd>{projectName === undefined ? <span className="mono">{row.projectId}</span> : <>{shown(projectName)} <span className="label">{row.projectId}</span></>}{" "}<button type="button" className="link plain" onClick={() => onChange({ project: row.projectId ?? undefined })}>Only this project</button></dd></>}
        {row.requestId !== null && <><dt>Request id</dt><dd className="mono">{shown(row.requestId)}</dd></>}
        {Object.keys(row.details).length > 0 && <><dt>Details</dt><dd><pre className="text" tabIndex={0}>{shown(JSON.stringify(row.details, null, 2))}</pre></dd></>}
      </dl>
    </details>
  );
}
