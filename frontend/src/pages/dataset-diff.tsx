/** What changed between two versions of a dataset, case by case. */
import { useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { type DatasetCase, datasetDiffQuery, datasetQuery } from "../api/datasets";
import { Failure, Loading, State, Text } from "../components/bits";
import { Crumbs } from "../components/shell";
import { nameOfItem } from "../lib/datasets";
import { count, cut, plural, shown, textOf } from "../lib/format";
import { compareWords } from "../lib/words";
import "../styles/datasets.css";

const route = getRouteApi("/datasets/$name/diff");
const SIGNS: Record<string, readonly [string, string]> = {
  CHANGED: ["", "≠ changed"],
  ADDED: ["pass", "+ added"],
  REMOVED: ["fail", "− removed"],
  UNCHANGED: ["none", "= the same"],
};
const FIELDS = [["inputs", "Inputs"], ["expectedOutputs", "Expected outputs"], ["metadata", "Metadata"]] as const;

export function DatasetDiffPage() {
  const { name } = route.useParams();
  const { from, to, status = "", page = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const dataset = useQuery(datasetQuery(name));
  const latest = dataset.data?.latestVersion ?? 1;
  const after = to ?? latest;
  const before = from ?? Math.max(1, after - 1);
  const diff = useQuery({ ...datasetDiffQuery(name, before, after, status, page - 1), enabled: dataset.isSuccess });
  if (dataset.isLoadingError) return <Failure error={dataset.error} retry={() => void dataset.refetch()} />;
  if (diff.isLoadingError) return <Failure error={diff.error} retry={() => void diff.refetch()} />;
  if (dataset.isPending || diff.isPending) return <Loading />;
  const { summary, cases } = diff.data;
  const change = (next: { from?: number; to?: number; status?: string | undefined }) => {
    const kept = Object.entries({ from: before, to: after, status, ...next }).filter(([, value]) => value);
    void navigate({ search: Object.fromEntries(kept), replace: true });
  };
  const numbers = { CHANGED: summary.changed, ADDED: summary.added, REMOVED: summary.removed };
  return (
    <>
      <Crumbs title="Difference">
        <Link to="/datasets">Datasets</Link><i>/</i>
        <Link to="/datasets/$name" params={{ name }}>{shown(name)}</Link><i>/</i>
      </Crumbs>
      <div className="head"><div><h1>{shown(name)}, version {before} to {after}</h1></div></div>
      <div className="versus">
        {([["From", before, "from"], ["To", after, "to"]] as const).map(([label, value, key]) => (
          <label key={key}>
            {label}
            <select className="field" value={value} onChange={(event) => change({ [key]: Number(event.target.value) })}>
              {dataset.data.versions.map((one) => <option key={one.id} value={one.version}>Version {one.version}, {plural(one.itemCount, "item")}</option>)}
            </select>
          </label>
        ))}
      </div>
      <p className="verdict">
        {summary.isEqual ? "Both have the same items in the same order" : `${plural(summary.changed, "item")} changed, ${count(summary.added)} added, ${count(summary.removed)} removed`}
        <span className="of"> · {count(summary.unchanged)} the same</span>
      </p>
      <section>
        <div className="bar" role="group" aria-label="Filters">
          {Object.entries(numbers).filter(([, number]) => number > 0).map(([one, number]) => (
            <button key={one} type="button" className="chip" aria-pressed={status === one} onClick={() => change({ status: status === one ? undefined : one })}>
              <span className={SIGNS[one]?.[0]}>{SIGNS[one]?.[1]}</span> <b>{count(number)}</b>
            </button>
          ))}
        </div>
        {cases.content.length === 0 ? (
          <div className="panel"><State title="No item differs"><p>Choose other versions to compare.</p></State></div>
        ) : (
          <div className="panel cases">{cases.content.map((one) => <Case key={one.lineageId} one={one} />)}</div>
        )}
        {cases.totalPages > 1 && (
          <div className="bar">
            {!cases.first && <Link className="btn" from={route.id} search={(old) => ({ ...old, page: page - 1 })}>Previous</Link>}
            <span className="label">page {page} of {cases.totalPages}</span>
            {!cases.last && <Link className="btn" from={route.id} search={(old) => ({ ...old, page: page + 1 })}>Next</Link>}
          </div>
        )}
      </section>
    </>
  );
}

function Case({ one }: { one: DatasetCase }) {
  const item = one.to ?? one.from;
  const [style, words] = SIGNS[one.status] ?? ["", one.status];
  if (item === null) return null;
  const fields = one.status === "CHANGED" ? FIELDS.filter(([field]) => one.changedFields.includes(field)) : FIELDS.slice(0, 2);
  return (
    <article>
      <h2 className="case-head"><span className={`sign ${style}`}>{words}</span> <span className="mono">{shown(nameOfItem(item))}</span>{one.status === "CHANGED" && !one.changedFields.includes("inputs") && <span className="muted"> {shown(cut(textOf(item.inputs), 200))}</span>}</h2>
      {fields.map(([field, label]) => {
        const left = one.from === null ? null : textOf(one.from[field]);
        const right = one.to === null ? null : textOf(one.to[field]);
        return <Sides key={field} label={label} left={left} right={right} />;
      })}
    </article>
  );
}

// Longer texts are cut where they are shown, which marks in them would not be.
const MOST_MARKED = 50_000;

/** A part of a case before and after; the only one there is takes the whole width. */
function Sides({ label, left, right }: { label: string; left: string | null; right: string | null }) {
  if (left === null || right === null) {
    const text = left ?? right ?? "";
    return text === "" ? null : <div><h3>{label}</h3><Text>{text}</Text></div>;
  }
  const words = left.length + right.length > MOST_MARKED ? null : compareWords(left, right);
  const sides = [["before", words?.[0], left, "want"], ["after", words?.[1], right, "got"]] as const;
  return (
    <div className="pair">
      {sides.map(([when, pieces, text, mark]) => (
        <div key={when}>
          <h3>{label} {when}</h3>
          {pieces === undefined ? (
            <Text>{text}</Text>
          ) : (
            <pre className="text" tabIndex={0} dir="auto">
              {pieces.length === 0 ? "(empty)" : pieces.map((piece, index) => (piece.differs ? <mark key={index} className={mark}>{shown(piece.text)}</mark> : shown(piece.text)))}
            </pre>
          )}
        </div>
      ))}
    </div>
  );
}
