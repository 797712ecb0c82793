/** Names for the filters of a page, beside them: kept, applied, renamed and deleted. */
import { useRouter, useRouterState } from "@tanstack/react-router";
import { type FormEvent, useId, useState } from "react";
import { useActions } from "../lib/actions";
import { cut, shown } from "../lib/format";
import { notify } from "../lib/notices";
import { addressOf } from "../lib/root";
import { type Area, LONGEST_NAME, type SavedView, addView, changeViews, pathOf, readFilters, removeView, savedViews } from "../lib/saved-views";
import { useStore } from "../lib/store";

const AREA_WORDS: Record<Area, string> = { runs: "runs", items: "items of a run", traces: "traces", review: "review queue" };

export function SavedViews({ area }: { area: Area }) {
  const { pathname, searchStr } = useRouterState({ select: (state) => state.location });
  const router = useRouter();
  const views = useStore(savedViews).filter((view) => view.area === area);
  const [isOpen, setIsOpen] = useState(false);
  const [fault, setFault] = useState<string | null>(null);
  const { query } = readFilters(area, searchStr);
  const current = views.find((view) => readFilters(area, view.query).query === query);
  useActions([{ label: "Save these filters as a view", run: () => setIsOpen(true) }]);
  const open = (view: SavedView) => openView(view, pathname, router.history.push);
  const remove = (view: SavedView) => {
    const failure = changeViews((all) => removeView(all, view));
    setFault(failure);
    if (failure === null) notify(`The view “${cut(view.name, 40)}” is deleted`, () => setFault(changeViews((all) => addView(all, view))));
  };
  return (
    <div className="views">
      <div className="bar">
        {views.slice(0, 6).map((view) => (
          <button
            key={view.name}
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
          <NewView area={area} path={pathname} query={query} isKept={current !== undefined} onFault={setFault} />
          {fault !== null && <p className="callout warn" role="alert"><b>! Not saved.</b> {fault}</p>}
          {views.length > 0 && (
            <ul className="view-list">
              {views.map((view) => (
                <ViewRow
                  key={view.name}
                  view={view}
                  isTaken={(name) => views.some((one) => one.name === name && one !== view)}
                  onOpen={() => open(view)}
                  onRemove={() => remove(view)}
                  onFault={setFault}
                />
              ))}
            </ul>
          )}
          <p className="label">Views are kept in this browser alone; others see the same through the address.</p>
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
  readonly isKept: boolean;
  readonly onFault: (fault: string | null) => void;
}

function NewView({ area, path, query, isKept, onFault }: NewViewProps) {
  const [name, setName] = useState("");
  const id = useId();
  const save = (event: FormEvent) => {
    event.preventDefault();
    const view = { area, name: name.trim(), path, query };
    let old: SavedView | undefined;
    const failure = changeViews((all) => {
      old = all.find((one) => one.area === area && one.name === view.name);
      return addView(all, view);
    });
    onFault(failure);
    if (failure !== null) return;
    setName("");
    const before = old;
    if (before === undefined) notify(`Saved as “${cut(view.name, 40)}”`);
    else notify(`“${cut(view.name, 40)}” has these filters now`, () => onFault(changeViews((all) => addView(all, before))));
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
  readonly view: SavedView;
  readonly isTaken: (name: string) => boolean;
  readonly onOpen: () => void;
  readonly onRemove: () => void;
  readonly onFault: (fault: string | null) => void;
}

function ViewRow({ view, isTaken, onOpen, onRemove, onFault }: RowProps) {
  const [name, setName] = useState<string | null>(null);
  const rename = (event: FormEvent) => {
    event.preventDefault();
    const next = (name ?? "").trim();
    if (isTaken(next)) {
      onFault(`Another view of these is called “${cut(next, 40)}”.`);
      return;
    }
    const failure = changeViews((all) => all.map((one) => (one.area === view.area && one.name === view.name ? { ...one, name: next } : one)));
    onFault(failure);
    if (failure === null) setName(null);
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
      <bdi className="cut label">{shown(sayQuery(view.query))}</bdi>
      <span className="actions">
        <button type="button" className="btn bare" aria-label={`Rename ${shown(view.name)}`} onClick={() => setName(view.name)}>Rename</button>
        <button type="button" className="btn bare" aria-label={`Delete ${shown(view.name)}`} onClick={onRemove}>Delete</button>
      </span>
    </li>
  );
}

const sayQuery = (query: string): string => [...new URLSearchParams(query)].map(([name, value]) => `${name} ${value}`).join(", ");

export const areaWord = (area: Area): string => AREA_WORDS[area];
