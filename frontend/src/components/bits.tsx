/** Small parts that every page uses. */
import { type ReactNode, useState } from "react";
import { ApiError, OfflineError } from "../api/client";
import { isLive } from "../api/queries";
import { needsSignIn } from "../api/signals";
import { neededRole, withStop } from "../lib/failures";
import { ago, count, rate, shown, time, utc } from "../lib/format";
import { addressOf } from "../lib/root";
import { useStore } from "../lib/store";
import type { Outcome } from "../lib/outline";

const SIGNS: Record<Outcome, readonly [string, string]> = {
  pass: ["✓", "pass"],
  fail: ["✗", "fail"],
  error: ["!", "error"],
  none: ["–", "not judged"],
};

export function Sign({ outcome, word = true }: { outcome: Outcome; word?: boolean }) {
  const [sign, text] = SIGNS[outcome];
  return (
    <span className={`sign ${outcome}`} {...(word ? {} : { role: "img", "aria-label": text })}>
      {word ? `${sign} ${text}` : sign}
    </span>
  );
}

interface PassRateProps {
  readonly run: { readonly status: string; readonly passedCount: number; readonly judgedCount: number; readonly erroredCount: number };
  /** Whether the number of items stands below the rate; not where a column beside it has it. */
  readonly withCounts?: boolean;
}

/** The share of the judged items of a run that passed, with their number; in words where nothing was judged. */
export function PassRate({ run: { status, passedCount, judgedCount, erroredCount }, withCounts = true }: PassRateProps) {
  const errors = withCounts && erroredCount > 0 && <span className="error">{count(erroredCount)} errored</span>;
  if (judgedCount === 0) {
    return (
      <>
        <span className="none" title="No item of this run has a verdict, so it has no pass rate">{isLive(status) ? "not judged yet" : "not judged"}</span>
        {errors && <span className="sub">{errors}</span>}
      </>
    );
  }
  const soFar = isLive(status) && " so far";
  return <>{rate(passedCount / judgedCount)}{withCounts && <span className="sub">n = {count(judgedCount)}{soFar}{errors && <>, {errors}</>}</span>}</>;
}

export function Time({ value }: { value: string }) {
  return (
    <time dateTime={value} title={utc(value)}>
      {time(value)}
    </time>
  );
}

/** The same as how long ago that was. */
export function Ago({ value }: { value: string }) {
  return <time dateTime={value} title={utc(value)}>{ago(value)}</time>;
}

/** Text that came from a model or a dataset: never rendered, with what is hidden in it made visible. */
export function Text({ children, limit = 100_000 }: { children: string; limit?: number }) {
  const text = children.slice(0, limit);
  return (
    <pre className="text" tabIndex={0} dir="auto">
      {shown(text) || "(empty)"}
      {children.length > limit && `\n… ${children.length - limit} more characters`}
    </pre>
  );
}

export function State({ title, children, actions }: { title: string; children?: ReactNode; actions?: ReactNode }) {
  return (
    <div className="state">
      <b>{title}</b>
      {children}
      {actions !== undefined && <div className="actions">{actions}</div>}
    </div>
  );
}

export function Loading() {
  const waits = useStore(needsSignIn);
  if (waits) {
    return (
      <State title="This page needs somebody who is signed in">
        <p>It goes on as soon as you have signed in above.</p>
      </State>
    );
  }
  return (
    <div role="status" aria-label="Loading">
      <span className="skeleton" />
      <span className="skeleton" />
      <span className="skeleton" />
    </div>
  );
}

interface SearchFieldProps {
  readonly label: string;
  readonly placeholder: string;
  readonly text: string;
  readonly onSearch: (text: string) => void;
}

/** A field whose text stands in the address of the page. */
export function SearchField({ label, placeholder, text, onSearch }: SearchFieldProps) {
  const [field, setField] = useState<{ typed: string; seen: string; sent: readonly string[] }>({ typed: text, seen: text, sent: [] });
  if (text !== field.seen) {
    // The address follows what is typed a moment later; any other change of it is somebody's going elsewhere.
    const own = field.sent.lastIndexOf(text);
    setField({ typed: own < 0 ? text : field.typed, seen: text, sent: own < 0 ? [] : field.sent.slice(own + 1) });
  }
  return (
    <input
      type="search"
      className="field search"
      aria-label={label}
      placeholder={placeholder}
      value={field.typed}
      onChange={(event) => {
        const typed = event.target.value;
        setField({ ...field, typed, sent: [...field.sent, typed] });
        onSearch(typed);
      }}
    />
  );
}

/** What went wrong, what it means, and what to do next. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const again = retry !== undefined && (
    <button type="button" className="btn" onClick={retry}>
      Try again
    </button>
  );
  if (error instanceof OfflineError) {
    return (
      <State title="The server does not answer" actions={again}>
        <p>It may be stopped, or the network is away. Nothing was changed.</p>
      </State>
    );
  }
  if (error instanceof Error && /dynamically imported module|Importing a module script failed|Unable to preload CSS/.test(error.message)) {
    return (
      <State
        title="A part of this page could not be loaded"
        actions={<button type="button" className="btn" onClick={() => location.reload()}>Load the page again</button>}
      >
        <p>The server is stopped or away, or it was upgraded while this page was open. Nothing was changed.</p>
      </State>
    );
  }
  if (error instanceof ApiError && error.status === 401) {
    return (
      <State title="This page needs somebody who is signed in" actions={again}>
        <p>Sign in above; nothing was changed.</p>
      </State>
    );
  }
  if (error instanceof ApiError && error.status === 403) {
    return (
      <State title="You may not see this page">
        <p>{neededRole(error.message) ?? withStop(error.message)} An administrator of the server can give you access.</p>
      </State>
    );
  }
  if (error instanceof ApiError && error.status === 404) {
    return (
      <State title="It is not here" actions={<a className="btn" href={addressOf("/")}>Go to the projects</a>}>
        <p>{withStop(error.message)} It may have been deleted, or belong to another tenant.</p>
      </State>
    );
  }
  return (
    <State title="The page could not be loaded" actions={again}>
      <p>{withStop(error instanceof Error ? error.message : String(error))} Nothing was changed.</p>
    </State>
  );
}
