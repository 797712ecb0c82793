/** A dataset: its versions, the items of one of them, and editing them into a new one. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { type Dataset, type DatasetItem, type DatasetVersion, datasetQuery, datasetRunsQuery, exportAddress } from "../api/datasets";
import { Failure, Loading, PassRate, SearchField, State, Time } from "../components/bits";
import { DatasetEdits } from "../components/dataset-edits";
import { DatasetItemDrawer } from "../components/dataset-item";
import { DatasetRows } from "../components/dataset-rows";
import { DatasetUpload } from "../components/dataset-upload";
import { More } from "../components/settings-bits";
import { Crumbs } from "../components/shell";
import { type Edits, type PendingChange, keepEdits, readEdits } from "../lib/datasets";
import { count, plural, shown } from "../lib/format";
import "../styles/datasets.css";

const route = getRouteApi("/datasets/$name");
const VERSIONS_SHOWN = 8;
const EXPORTS = ["jsonl", "json", "csv"] as const;

export function DatasetPage() {
  const { name } = route.useParams();
  const dataset = useQuery(datasetQuery(name));
  if (dataset.data !== undefined) return <DatasetBody key={name} dataset={dataset.data} />;
  if (dataset.isLoadingError) return <Failure error={dataset.error} retry={() => void dataset.refetch()} />;
  return <Loading />;
}

function DatasetBody({ dataset }: { dataset: Dataset }) {
  const { version: chosen, search = "", upload } = route.useSearch();
  const navigate = route.useNavigate();
  const [edits, setEdits] = useState(() => readEdits(dataset.name));
  const { pending } = edits;
  const [open, setOpen] = useState<{ id: string; item: DatasetItem | null; known: number | null } | null>(null);
  const latest = dataset.latestVersion;
  const version = dataset.versions.find((one) => one.version === chosen)?.version ?? latest;
  const change = (next: Record<string, unknown>) =>
    void navigate({
      search: (old) => Object.fromEntries(Object.entries({ ...old, ...next }).filter(([, value]) => value !== undefined && value !== "")),
      replace: true,
      resetScroll: false,
    });
  const keep = (now: Edits) => {
    keepEdits(dataset.name, now);
    setEdits(now);
  };
  const put = (id: string, one: PendingChange | null) => {
    const now = new Map(pending);
    if (one === null) now.delete(id);
    else now.set(id, one);
    // The version that was the latest when the item was opened: one that came since may have changed it.
    keep({ pending: now, known: pending.size === 0 ? (open?.known ?? latest) : edits.known });
    setOpen(null);
  };
  return (
    <>
      <Crumbs title={dataset.name}><Link to="/datasets">Datasets</Link><i>/</i></Crumbs>
      <div className="head">
        <div>
          <h1>{shown(dataset.name)}</h1>
          <p className="facts">
            {dataset.description !== null && <span>{shown(dataset.description)}</span>}
            <span>{plural(dataset.latestItemCount, "item")}</span>
            <span>{latest === null ? "no version yet" : `version ${latest}`}</span>
            <span>changed <Time value={dataset.updatedAt} /></span>
          </p>
        </div>
        <div className="actions">
          <button type="button" className={latest === null ? "btn main" : "btn"} aria-expanded={upload === true} onClick={() => change({ upload: upload === true ? undefined : true })}>
            Upload a version
          </button>
          <button type="button" className="btn" onClick={() => setOpen({ id: `new-${crypto.randomUUID()}`, item: null, known: latest })}>Add an item</button>
        </div>
      </div>
      {upload === true && <DatasetUpload name={dataset.name} onSaved={() => change({ upload: undefined, version: undefined })} />}
      <DatasetEdits dataset={dataset} base={version} edits={edits} onOpen={(id) => setOpen({ id, item: null, known: latest })} onChange={keep} onSaved={() => change({ version: undefined })} />
      <Versions dataset={dataset} version={version} onChoose={(one) => change({ version: one === latest ? undefined : one, search: undefined })} />
      <section>
        <div className="sec">
          <h2>Items</h2>
          {version !== null && <span className="label">of version {version}</span>}
          {version !== null && (
            <span className="label right">
              Download {EXPORTS.map((format) => <a key={format} className="link" download href={exportAddress(dataset.name, version, format)}>{format.toUpperCase()}</a>)}
            </span>
          )}
        </div>
        {version === null ? (
          <div className="panel"><State title="This dataset has no version yet"><p>Upload a file, add items here, or promote some from the review queue.</p></State></div>
        ) : (
          <>
            <div className="bar">
              <SearchField label="Search items" placeholder="Search in inputs, expected outputs and ids" text={search} onSearch={(text) => change({ search: text })} />
            </div>
            <DatasetRows key={`${version} ${search}`} name={dataset.name} version={version} search={search} pending={pending} onOpen={(item) => setOpen({ id: item.lineageId, item, known: latest })} />
          </>
        )}
      </section>
      <Users name={dataset.name} version={dataset.versions.find((one) => one.version === version)} />
      {open !== null && <DatasetItemDrawer key={open.id} id={open.id} item={open.item} pending={pending.get(open.id) ?? null} onKeep={(one) => put(open.id, one)} onClose={() => setOpen(null)} />}
    </>
  );
}

function Versions({ dataset, version, onChoose }: { dataset: Dataset; version: number | null; onChoose: (version: number) => void }) {
  const [isWhole, setIsWhole] = useState(false);
  if (dataset.versions.length === 0) return null;
  const rows = isWhole ? dataset.versions : dataset.versions.slice(0, VERSIONS_SHOWN);
  return (
    <section>
      <div className="sec"><h2>Versions</h2><span className="label">{count(dataset.versions.length)}</span></div>
      <div className="panel">
        <table>
          <thead><tr><th>Version</th><th className="num">Items</th><th className="hide-s">Description</th><th className="hide-s">Created</th><th><span className="label">Difference</span></th></tr></thead>
          <tbody>
            {rows.map((one) => (
              <tr key={one.id} className={one.version === version ? "on" : ""}>
                <th scope="row">
                  <button type="button" className="link plain-button" aria-pressed={one.version === version} onClick={() => onChoose(one.version)}>Version {one.version}</button>
                </th>
                <td className="num">{count(one.itemCount)}</td>
                <td className="hide-s">{shown(one.description ?? "–")}</td>
                <td className="hide-s"><Time value={one.createdAt} /></td>
                <td>
                  {one.version > 1 && (
                    <Link className="link" to="/datasets/$name/diff" params={{ name: dataset.name }} search={{ from: one.baseVersion ?? one.version - 1, to: one.version }}>
                      to version {one.baseVersion ?? one.version - 1}
                    </Link>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        {rows.length < dataset.versions.length && (
          <div className="foot-row"><button type="button" className="link plain-button" onClick={() => setIsWhole(true)}>Show all {count(dataset.versions.length)}</button></div>
        )}
      </div>
    </section>
  );
}

function Users({ name, version }: { name: string; version: DatasetVersion | undefined }) {
  const [isOpen, setIsOpen] = useState(false);
  const [isNarrow, setIsNarrow] = useState(false);
  const runs = useInfiniteQuery(datasetRunsQuery(name, isNarrow ? (version?.id ?? null) : null, isOpen));
  const rows = runs.data?.pages.flat() ?? [];
  return (
    <section>
      <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
        <summary>Runs that used it</summary>
        {version !== undefined && (
          <div className="bar" role="group" aria-label="Version">
            <button type="button" className="chip" aria-pressed={!isNarrow} onClick={() => setIsNarrow(false)}>All versions</button>
            <button type="button" className="chip" aria-pressed={isNarrow} onClick={() => setIsNarrow(true)}>Version {version.version} only</button>
          </div>
        )}
        {runs.isLoadingError ? (
          <Failure error={runs.error} retry={() => void runs.refetch()} />
        ) : runs.isPending ? (
          <Loading />
        ) : rows.length === 0 ? (
          <State title={isNarrow ? "No run has used this version" : "No run has used it"}><p>A run that names it uses it, from the command line or from code.</p></State>
        ) : (
          <div className="panel gap">
            <table>
              <thead><tr><th>Run</th><th className="hide-s">Project</th><th>Experiment</th><th className="num">Version</th><th className="num">Pass rate</th></tr></thead>
              <tbody>
                {rows.map((run) => (
                  <tr key={run.id}>
                    <th scope="row"><Link className="link" to="/runs/$runId" params={{ runId: run.id }}><Time value={run.startedAt} /></Link></th>
                    <td className="hide-s">{shown(run.projectName)}</td>
                    <td><Link className="link" to="/experiments/$experimentId" params={{ experimentId: run.experimentId }}>{shown(run.experimentName)}</Link></td>
                    <td className="num">{run.version}</td>
                    <td className="num"><PassRate run={run} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
            <div className="foot-row"><span>{plural(rows.length, "run")} shown</span> <More query={runs} what="runs" /></div>
          </div>
        )}
      </details>
    </section>
  );
}
