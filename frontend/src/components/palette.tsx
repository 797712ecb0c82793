/** The command palette: everything by text, with the keyboard alone. */
import { useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { type AnyRouter, useRouter } from "@tanstack/react-router";
import { type KeyboardEvent, useDeferredValue, useEffect, useId, useMemo, useState } from "react";
import { OfflineError } from "../api/client";
import { SOURCES, projectEntry, sourceQuery, useKnownRuns } from "../api/palette";
import { projectsQuery } from "../api/queries";
import { needsSignIn } from "../api/signals";
import { useKeptViews } from "../api/views";
import { type Action, actionProviders } from "../lib/actions";
import { count, shown } from "../lib/format";
import { type Entry, type Group, KIND_WORDS, groupEntries, listEntries, markWords, matchOnly, stepThrough } from "../lib/palette";
import { isKeyHelpOpen } from "../lib/keys";
import { addressOf } from "../lib/root";
import { type SavedView, pathOf } from "../lib/saved-views";
import { useStore } from "../lib/store";
import { isDark, toggleTheme } from "../lib/theme";
import "../styles/palette.css";
import { Dialog } from "./dialog";
import { areaWord, openView } from "./saved-views";
import { MENU } from "./shell";

const PAUSE_MS = 150;
const LONGEST = 200;
const TRACES_WITH = "traces with";

export function Palette({ onClose }: { onClose: () => void }) {
  const router = useRouter();
  const [text, setText] = useState("");
  const [current, setCurrent] = useState<string | null>(null);
  const found = useFound(text);
  const local = useLocalEntries();
  const shownText = useDeferredValue(text);
  const all = [...local, ...searchEntries(text), ...found.entries];
  const groups = groupEntries(all, shownText);
  const entries = groups.flatMap((group) => group.entries);
  const active = entries.find((one) => one.key === current) ?? entries[0];
  const id = useId();
  const idOf = (entry: Entry) => `${id}-${entries.indexOf(entry)}`;
  const choose = ({ href, run }: Entry, inNewTab: boolean) => {
    onClose();
    if (href === undefined) run?.();
    else if (inNewTab) window.open(addressOf(href), "_blank", "noopener");
    else router.history.push(addressOf(href));
  };
  // Keys may come before the list has followed the text: they are about what the text finds, not about what is still shown.
  const press = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const matching = text === shownText ? entries : listEntries(all, text);
    const chosen = matching.find((one) => one.key === current) ?? matching[0];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setCurrent(stepThrough(matching.map((one) => one.key), chosen?.key ?? null, event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" && chosen !== undefined) {
      event.preventDefault();
      choose(chosen, event.ctrlKey || event.metaKey);
    }
  };
  return (
    <Dialog label="Search or jump to" className="palette" onClose={onClose}>
      <input
        type="text"
        role="combobox"
        aria-label="Search or jump to"
        aria-expanded="true"
        aria-autocomplete="list"
        aria-controls={`${id}-list`}
        aria-activedescendant={active === undefined ? undefined : idOf(active)}
        placeholder="Pages, projects, experiments, runs, datasets, a trace by its id"
        autoComplete="off"
        spellCheck={false}
        maxLength={LONGEST}
        dir="auto"
        autoFocus
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setCurrent(null);
        }}
        onKeyDown={press}
      />
      <div className="palette-list" role="listbox" aria-label="Found" id={`${id}-list`} tabIndex={-1}>
        {groups.map((group) => (
          <EntryGroup key={group.kind} group={group} text={text} idOf={idOf} active={active?.key} onChoose={choose} />
        ))}
      </div>
      <Progress text={text} isEmpty={entries.every((one) => one.key === TRACES_WITH)} found={found} />
      <p className="palette-keys" aria-hidden="true">
        <span><kbd>↑</kbd> <kbd>↓</kbd> move</span><span><kbd>enter</kbd> open</span><span><kbd>ctrl enter</kbd> in a new tab</span><span><kbd>esc</kbd> close</span>
      </p>
    </Dialog>
  );
}

interface GroupProps {
  readonly group: Group;
  readonly text: string;
  readonly idOf: (entry: Entry) => string;
  readonly active: string | undefined;
  readonly onChoose: (entry: Entry, inNewTab: boolean) => void;
}

function EntryGroup({ group, text, idOf, active, onChoose }: GroupProps) {
  return (
    <div role="group" aria-label={KIND_WORDS[group.kind]}>
      <h3 aria-hidden="true">{KIND_WORDS[group.kind]}{group.more > 0 && ` · ${count(group.more)} more, type on to find them`}</h3>
      {group.entries.map((entry) => (
        <div
          key={entry.key}
          id={idOf(entry)}
          role="option"
          aria-selected={entry.key === active}
          className="palette-entry"
          // The one that the keys have reached is in sight.
          ref={entry.key === active ? (row) => row?.scrollIntoView({ block: "nearest" }) : undefined}
          onMouseDown={(event) => event.preventDefault()}
          onClick={(event) => onChoose(entry, event.ctrlKey || event.metaKey)}
        >
          <bdi className="cut">
            {markWords(entry.label, text).map((piece, index) => (piece.isMarked ? <mark key={index}>{piece.text}</mark> : piece.text))}
          </bdi>
          {entry.note !== undefined && entry.note !== "" && <bdi className="cut note">{shown(entry.note)}</bdi>}
        </div>
      ))}
    </div>
  );
}

/** What is being looked for, what could not be, and that nothing was found. */
function Progress({ text, isEmpty, found }: { text: string; isEmpty: boolean; found: Found }) {
  const waits = useStore(needsSignIn);
  return (
    <div className="palette-state" role="status">
      {waits && <p className="error">! What the server has is found once you have signed in.</p>}
      {found.isOffline && <p className="error">! The server does not answer; only what this page knows is found.</p>}
      {found.failures.map((failure) => <p key={failure} className="error">! {shown(failure)}</p>)}
      {found.isReading && !waits && <p>Looking …</p>}
      {isEmpty && !found.isReading && <p>Nothing is found for “{shown(text.trim())}”. Names, branches and whole ids are searched.</p>}
    </div>
  );
}

interface Found {
  readonly entries: readonly Entry[];
  readonly failures: readonly string[];
  readonly isReading: boolean;
  readonly isOffline: boolean;
}

/** What the server finds, a moment after the last key; what was asked before is no longer waited for. */
function useFound(typed: string): Found {
  const queries = useQueryClient();
  const text = typed.trim();
  const [asked, setAsked] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const answers = useQueries({ queries: SOURCES.map((source) => sourceQuery(source, asked, queries)) });
  const isOffline = answers.some((answer) => answer.error instanceof OfflineError);
  const failures = answers.flatMap((answer, index) =>
    answer.error === null || answer.error instanceof OfflineError ? [] : [`${SOURCES[index]?.what} could not be searched: ${answer.error.message}`]);
  const isReading = text !== asked || answers.some((answer) => answer.isFetching);
  // Until the server is asked for the text, what it found before has to match by itself.
  const entries = text === "" ? [] : matchOnly(answers.flatMap((answer) => answer.data ?? []), text === asked);
  return { entries, failures, isReading, isOffline };
}

/** What is known without the server; it follows the page, which may still be read when the palette opens. */
function useLocalEntries(): readonly Entry[] {
  const projects = useQuery(projectsQuery);
  const router = useRouter();
  const providers = useStore(actionProviders);
  const actions = useMemo(() => actionEntries(providers.flatMap((provider) => provider())), [providers]);
  const { views } = useKeptViews();
  const fixed = useMemo(() => [...viewEntries(views, router), ...pageEntries()], [views, router]);
  const runs = useKnownRuns();
  return useMemo(() => [...actions, ...fixed, ...runs, ...(projects.data ?? []).map(projectEntry)], [actions, fixed, runs, projects.data]);
}

function actionEntries(actions: readonly Action[]): Entry[] {
  const own = actions.map((action): Entry => ({ kind: "action", key: `action ${action.label}`, ...action }));
  return [
    ...own,
    { kind: "action", key: "theme", label: isDark() ? "Switch to light" : "Switch to dark", also: "theme", run: toggleTheme },
    { kind: "action", key: "keys", label: "Show all keys of this page", run: () => isKeyHelpOpen.set(true) },
    { kind: "action", key: "print", label: "Print this page", run: () => setTimeout(() => window.print()) },
  ];
}

function viewEntries(views: readonly SavedView[], { state, history }: AnyRouter): Entry[] {
  const { pathname } = state.location;
  return views.filter((view) => pathOf(view, pathname) !== "").map((view, index): Entry => ({
    kind: "view", key: `view ${index} ${view.area} ${view.name}`, label: view.name, note: areaWord(view.area), run: () => openView(view, pathname, history.push),
  }));
}

function pageEntries(): Entry[] {
  return MENU.flatMap(([title, links]) => links.map(({ label, to }): Entry => ({ kind: "page", key: `page ${to}`, label, note: title, href: to })));
}

/** Texts are searched in the page of traces, where what is found has room. */
function searchEntries(typed: string): Entry[] {
  const text = typed.trim();
  if (text === "") return [];
  return [{ kind: "trace", key: TRACES_WITH, label: `Traces with “${text}”`, href: `/traces?${new URLSearchParams({ search: text })}` }];
}
