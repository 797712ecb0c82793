/** Names for the filters of a page, beside them: kept, applied, renamed and deleted. */
import { useQuery } from "@tanstack/react-query";
import { useRouter, useRouterState } from "@tanstack/react-router";
import { type FormEvent, useId, useState } from "react";
import { type ViewChange, deleteView, keepView, moveViews, renameView, restoreView, shareView, useKeptViews, useViewChanges } from "../api/views";
import { mayWrite, sessionQuery } from "../api/session";
import { useActions } from "../lib/actions";
import { cut, shown } from "../lib/format";
import { notify } from "../lib/notices";
import { addressOf } from "../lib/root";
import { type Area, type KeptView, LONGEST_NAME, type SavedView, pathOf, readFilters } from "../lib/saved-views";
import { NotSaved } from "./notices";

const AREA_WORDS: Record<Area, string> = { runs: "runs", items: "items of a run", traces: "traces", review: "review queue" };

export function SavedViews({ area }: { area: Area }) {
  const { pathname, searchStr } = useRouterState({ select: (state) => state.location });
  const router = useRouter();
  const { views: all, isOnServer, failure } = useKeptViews();
  const views = all.filter((view) => view.area === area);
  const here = isOnServer ? views.filter((view) => view.id === null) : [];
  const [isOpen, setIsOpen] = useState(false);
  const write = useViewChanges();
  const { query } = readFilters(area, searchStr);
  const current = views.find((view) => readFilters(area, view.query).query === query);
  useActions([{ label: "Save these filters as a view", run: () => setIsOpen(true) }]);
  const open = (view: SavedView) => openView(view, pathname, router.history.push);
  const remove = (view: KeptView) =>
    write.save({
      send: () => deleteView(view),
      notice: { text: `The view “${cut(view.name, 40)}” is deleted`, undo: () => write.save({ send: () => restoreView(view) }) },
    });
  return (
    <div className="views">
      <div className="bar">
        {views.slice(0, 6).map((view) => (
          <button
            key={view.id ?? view.name}
            type="button"
            className="chip"
            aria-pressed={view === current}
            onClick={() => open(view)}
          >
            <bdi className="cut short">{shown(view.name)}</bdi>
          </button>
        ))}
        <button type="button" className="btn bare" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
          {views.length === 0 ? "Save view" : `Views (${views.length})`}
        </button>
      </div>
      {isOpen && (
        <section className="panel pad" aria-label="Saved views" onKeyDown={(event) => event.key === "Escape" && setIsOpen(false)}>
          <NewView area={area} path={pathname} query={query} views={views} isOnServer={isOnServer} isKept={current !== undefined} onChange={write.save} />
          <NotSaved write={write} submits={false} />
          {failure !== null && <p className="callout warn" role="alert"><b>! Views on the server could not be read.</b> {shown(failure)}</p>}
          {views.length > 0 && (
            <ul className="view-list">
              {views.map((view) => (
                <ViewRow
                  key={view.id ?? view.name}
                  view={view}
                  isHere={here.includes(view)}
                  isTaken={(name) => views.some((one) => one.name === name && one !== view && (one.id === null) === (view.id === null) && one.isOwn)}
                  onOpen={() => open(view)}
                  onRemove={() => remove(view)}
                  onChange={write.save}
                />
              ))}
            </ul>
          )}
          {here.length > 0 && (
            <p className="bar">
              <button type="button" className="btn" disabled={write.isSaving} onClick={() => write.save({ send: (queries) => moveViews(queries, here), notice: { text: "They are on the server now" } })}>
                Move {here.length === 1 ? "the one" : `the ${here.length}`} of this browser to the server
              </button>
            </p>
          )}
          <p className="label">
            {isOnServer ? "The server keeps views: you have them in every browser." : "Views are kept in this browser alone; others see the same through the address."}
          </p>
        </section>
      )}
    </div>
  );
}

/** Goes to the filters of a view. */
export function openView(view: SavedView, pathname: string, go: (address: string) => void): void {
  const { query, unknown } = readFilters(view.area, view.query);
  if (unknown.length > 0) notify(`This version does not understand all of the view: ${cut(unknown.join(", "), 60)} is left out`);
  const path = pathOf(view, pathname);
  go(addressOf(query === "" ? path : `${path}?${query}`));
}

interface NewViewProps {
  readonly area: Area;
  readonly path: string;
  readonly query: string;
  readonly views: readonly KeptView[];
  readonly isOnServer: boolean;
  readonly isKept: boolean;
  readonly onChange: (change: ViewChange) => void;
}

function NewView({ area, path, query, views, isOnServer, isKept, onChange }: NewViewProps) {
  const [name, setName] = useState("");
  const id = useId();
  const save = (event: FormEvent) => {
    event.preventDefault();
    const view = { area, name: name.trim(), path, query };
    const old = views.find((one) => one.name === view.name && one.isOwn);
    onChange({
      send: () => keepView(view, old, isOnServer),
      notice: old === undefined
        ? { text: `Saved as “${cut(view.name, 40)}”` }
        : { text: `“${cut(view.name, 40)}” has these filters now`, undo: () => onChange({ send: () => keepView(old, old, isOnServer) }) },
      onSaved: () => setName((now) => (now.trim() === view.name ? "" : now)),
    });
  };
  if (query === "") return <p className="label">Choose filters first; then they can be saved under a name.</p>;
  return (
    <form className="bar" onSubmit={save}>
      <label htmlFor={id} className="label">{isKept ? "Save once more, as" : "Save these filters as"}</label>
      <input id={id} className="field" dir="auto" required pattern=".*\S.*" maxLength={LONGEST_NAME} value={name} autoFocus onChange={(event) => setName(event.target.value)} />
      <button type="submit" className="btn main">Save view</button>
    </form>
  );
}

interface RowProps {
  readonly view: KeptView;
  /** Whether this browser alone has it although the server could. */
  readonly isHere: boolean;
  readonly isTaken: (name: string) => boolean;
  readonly onOpen: () => void;
  readonly onRemove: () => void;
  readonly onChange: (change: ViewChange) => void;
}

function ViewRow({ view, isHere, isTaken, onOpen, onRemove, onChange }: RowProps) {
  const [name, setName] = useState<string | null>(null);
  const session = useQuery(sessionQuery).data;
  const mayShare = view.id !== null && session?.needsKey === true && mayWrite(session);
  const note = !view.isOwn ? "shared by somebody else" : view.isShared ? "shared" : isHere ? "in this browser alone" : "";
  const rename = (event: FormEvent) => {
    event.preventDefault();
    const next = (name ?? "").trim();
    onChange({
      send: async () => {
        if (isTaken(next)) throw new Error(`another view of these is called “${cut(next, 40)}”.`);
        await renameView(view, next);
      },
      onSaved: () => setName(null),
    });
  };
  if (name !== null) {
    return (
      <li>
        <form className="bar" onSubmit={rename}>
          <input className="field" aria-label="New name" dir="auto" required pattern=".*\S.*" maxLength={LONGEST_NAME} value={name} autoFocus onChange={(event) => setName(event.target.value)} />
          <button type="submit" className="btn">Rename</button>
          <button type="button" className="btn bare" onClick={() => setName(null)}>Cancel</button>
        </form>
      </li>
    );
  }
  return (
    <li>
      <button type="button" className="plain-button link cut" onClick={onOpen}><bdi>{shown(view.name)}</bdi></button>
      <span className="cut label">{note !== "" && <b>{note} · </b>}<bdi>{shown(sayQuery(view.query))}</bdi></span>
      {view.isOwn && (
        <span className="actions">
          {mayShare && (
            <button type="button" className="btn bare" aria-label={`${view.isShared ? "Stop sharing" : "Share"} ${shown(view.name)}`} onClick={() => onChange({ send: () => shareView(view, !view.isShared) })}>
              {view.isShared ? "Stop sharing" : "Share"}
            </button>
          )}
          <button type="button" className="btn bare" aria-label={`Rename ${shown(view.name)}`} onClick={() => setName(view.name)}>Rename</button>
          <button type="button" className="btn bare" aria-label={`Delete ${shown(view.name)}`} onClick={onRemove}>Delete</button>
        </span>
      )}
    </li>
  );
}

const sayQuery = (query: string): string => [...new URLSearchParams(query)].map(([name, value]) => `${name} ${value}`).join(", ");

export const areaWord = (area: Area): string => AREA_WORDS[area];
