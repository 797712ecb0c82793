/** The datasets of the server, or of a project. */
import { useQuery } from "@tanstack/react-query";
import { Link, getRouteApi, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { type DatasetSummary, MOST_DATASETS, createDataset, datasetsQuery, projectDatasetsQuery } from "../api/datasets";
import { projectsQuery } from "../api/queries";
import { useWrite } from "../api/write";
import { Failure, Loading, SearchField, State, Time } from "../components/bits";
import { NotSaved } from "../components/notices";
import { Crumbs } from "../components/shell";
import { count, plural, shown } from "../lib/format";
import "../styles/datasets.css";

const route = getRouteApi("/datasets");

export function DatasetsPage() {
  const { search = "", project } = route.useSearch();
  const navigate = route.useNavigate();
  const datasets = useQuery(datasetsQuery(search));
  const projects = useQuery(projectsQuery);
  const names = useQuery(projectDatasetsQuery(project));
  const [isMaking, setIsMaking] = useState(false);
  const change = (next: { search?: string | undefined; project?: string | undefined }) => {
    const kept = Object.entries({ search, project, ...next }).filter(([, value]) => value);
    void navigate({ search: Object.fromEntries(kept), replace: true });
  };
  if (datasets.isLoadingError) return <Failure error={datasets.error} retry={() => void datasets.refetch()} />;
  if (names.isLoadingError) return <Failure error={names.error} retry={() => void names.refetch()} />;
  if (datasets.isPending || (project !== undefined && names.isPending)) return <Loading />;
  const rows = project === undefined ? datasets.data : datasets.data.filter((one) => names.data?.includes(one.name));
  return (
    <>
      <Crumbs title="Datasets" />
      <div className="head">
        <div>
          <h1>Datasets</h1>
          <p className="facts"><span>{plural(rows.length, "dataset")}</span>{project !== undefined && <span>that {shown(project)} uses or was given</span>}</p>
        </div>
        <div className="actions">
          <button type="button" className="btn main" aria-expanded={isMaking} onClick={() => setIsMaking(!isMaking)}>New dataset</button>
        </div>
      </div>
      {isMaking && <NewDataset />}
      <section>
        <div className="bar">
          <SearchField label="Search datasets" placeholder="Search by name or description" text={search} onSearch={(text) => change({ search: text })} />
          <select className="field" aria-label="Project" value={project ?? ""} onChange={(event) => change({ project: event.target.value })}>
            <option value="">All projects</option>
            {projects.data?.map((one) => <option key={one.id} value={one.name}>{shown(one.name)}</option>)}
          </select>
        </div>
        {datasets.data.length >= MOST_DATASETS && <p className="callout">The first {count(MOST_DATASETS)} datasets are shown; a search finds the others.</p>}
        <div className="panel"><DatasetsTable rows={rows} isFiltered={search !== "" || project !== undefined} /></div>
      </section>
    </>
  );
}

function DatasetsTable({ rows, isFiltered }: { rows: readonly DatasetSummary[]; isFiltered: boolean }) {
  if (rows.length === 0) {
    return (
      <State title={isFiltered ? "No dataset is found" : "No dataset is here yet"}>
        <p>{isFiltered ? "Another search or project may have some." : "Make one and upload a file, or promote items from the review queue."}</p>
      </State>
    );
  }
  return (
    <table>
      <thead>
        <tr><th>Dataset</th><th className="num">Items</th><th className="num">Version</th><th className="hide-s">Changed</th></tr>
      </thead>
      <tbody>
        {rows.map((one) => (
          <tr key={one.id}>
            <th scope="row">
              <Link className="link" to="/datasets/$name" params={{ name: one.name }}>{shown(one.name)}</Link>
              {one.description !== null && <span className="sub">{shown(one.description)}</span>}
            </th>
            <td className="num">{count(one.latestItemCount)}</td>
            <td className="num">{one.latestVersion === null ? "–" : count(one.latestVersion)}</td>
            <td className="hide-s"><Time value={one.updatedAt} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function NewDataset() {
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const making = useWrite({
    what: "The dataset",
    send: createDataset,
    keys: () => [["datasets"]],
    onSaved: (made) => void navigate({ to: "/datasets/$name", params: { name: made.name }, search: { upload: true } }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    making.save({ name: name.trim(), description: description.trim() || null });
  };
  return (
    <form className="panel pad form" aria-label="New dataset" onSubmit={submit}>
      <label>Name<input className="field" required autoFocus maxLength={255} value={name} onChange={(event) => setName(event.target.value)} /></label>
      <label>Description<input className="field" maxLength={10_000} value={description} onChange={(event) => setDescription(event.target.value)} /></label>
      <div className="actions"><button type="submit" className="btn main" disabled={making.isSaving}>Make the dataset</button></div>
      <NotSaved write={making} />
    </form>
  );
}
