/** Numbers, durations and times as every page writes them. */

const MINUS = "−";
const NONE = "–";

export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : `${signed(value * 100, 1)} %`;
}

export function score(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : signed(value, 2);
}

/** A change of a rate or a score in points, that is times 100, with its sign. */
export function points(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  const text = Math.abs(value * 100).toFixed(1);
  return Number(text) === 0 ? "0.0" : `${value < 0 ? MINUS : "+"}${text}`;
}

/** By how many percent a value is another one than before, with its sign; nothing where that cannot be said. */
export function percent(before: number | null, now: number | null): string {
  if (before === null || now === null || before === 0) return "";
  const text = Math.abs((now / before - 1) * 100).toFixed(0);
  return text === "0" ? "±0 %" : `${now < before ? MINUS : "+"}${text} %`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

export function cost(value: number | null | undefined): string {
  return value === null || value === undefined ? "unpriced" : `$${value.toFixed(4)}`;
}

/** Three digits with the unit that gives them: `840 ms`, `1.84 s`, `2 min 5 s`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 99.95) return `${seconds.toPrecision(3)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  if (minutes < 100) return `${minutes} min ${Math.round(seconds) % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const DAY_OF_YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const SECONDS = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** A time in the viewer's zone, `22 Nov, 22:14`; the year where it is not this one. */
export function time(value: string, now = new Date()): string {
  const date = new Date(value);
  const day = date.getFullYear() === now.getFullYear() ? DAY : DAY_OF_YEAR;
  return `${day.format(date)}, ${CLOCK.format(date)}`;
}

/** How long ago something was, `2 minutes ago`; a day and more is a time. */
export function ago(value: string, now = new Date()): string {
  const minutes = Math.floor((now.getTime() - Date.parse(value)) / 60_000);
  if (minutes < 1) return "just now"; // also where the clock of the server is ahead
  if (minutes < 60) return `${plural(minutes, "minute")} ago`;
  return minutes < 24 * 60 ? `${plural(Math.floor(minutes / 60), "hour")} ago` : time(value, now);
}

/** The time of day of a moment, in milliseconds since 1970: `22:14:05`. */
export function clock(moment: number): string {
  return SECONDS.format(new Date(moment));
}

export function utc(value: string): string {
  return value.replace("T", " ").replace(/Z$|\+00:00$/, " UTC");
}

/** Text that fits a row: cut at the end, or in the middle where `middle`. */
export function cut(text: string, length: number): string {
  const flat = text.slice(0, length * 4).replace(/\s+/g, " ").trim();
  return flat.length > length || text.length > length * 4 ? `${flat.slice(0, length).trimEnd()}…` : flat;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

function signed(value: number, digits: number): string {
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `${MINUS}${text}` : text;
}

// Characters that change how the text around them reads, or that nobody sees, as what they are.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

/** Text from a model as it is shown: control characters and overrides of direction as `⟨U+202E⟩`. */
export function shown(text: string): string {
  return text.replace(HIDDEN, (one) => `⟨U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** The text of a map of inputs or outputs: its single text as it is, everything else as JSON. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (typeof value === "object" && !Array.isArray(value)) {
    const entries = Object.entries(value as Record<string, unknown>);
    const [first] = entries;
    if (first !== undefined && entries.length === 1 && typeof first[1] !== "object") return String(first[1]);
    const main = (value as Record<string, unknown>)["output"] ?? (value as Record<string, unknown>)["input"];
    if (typeof main === "string") return main;
  }
  return JSON.stringify(value, null, 2);
}
