/** What the forms of connections, keys and settings make of what is typed. */
import type { Connection, ConnectionBody } from "../api/settings";

/** Where a request goes, as far as a stored key may follow: scheme, host and port. Null where it is not an address. */
export function originOf(address: string): string | null {
  try {
    return new URL(address.trim()).origin;
  } catch {
    return null;
  }
}

/** The host of an address, which is what of it may be read by all. */
export function hostOf(address: string): string {
  try {
    return new URL(address).host;
  } catch {
    return address;
  }
}

export type Credential = "stored" | "key" | "variable";

/** A connection as it is typed. */
export interface ConnectionDraft {
  readonly name: string;
  readonly baseUrl: string;
  readonly model: string;
  readonly protocol: Connection["protocol"];
  readonly credential: Credential;
  readonly apiKey: string;
  readonly variable: string;
  readonly numbers: Readonly<Record<NumberName, string>>;
}

export const NUMBERS = {
  inputPricePerMillion: "Input price, US dollars per million tokens",
  outputPricePerMillion: "Output price, US dollars per million tokens",
  maxOutputTokens: "Maximum output tokens",
  requestsPerMinute: "Maximum requests per minute",
  maxConcurrency: "Maximum concurrent requests",
  temperature: "Temperature",
} as const;
export type NumberName = keyof typeof NUMBERS;
export const NUMBER_NAMES = Object.keys(NUMBERS) as readonly NumberName[];

export function draftOf(connection: Connection | null): ConnectionDraft {
  const numbers = NUMBER_NAMES.map((name) => [name, connection?.[name] == null ? "" : String(connection[name])]);
  return {
    name: connection?.name ?? "",
    baseUrl: connection?.baseUrl ?? "",
    model: connection?.model ?? "",
    protocol: connection?.protocol ?? "RESPONSES",
    credential: connection === null ? "key" : "stored",
    apiKey: "",
    variable: connection?.credentialRef ?? "",
    numbers: Object.fromEntries(numbers) as Record<NumberName, string>,
  };
}

/** Whether the draft leads to another host than the one that the stored key is for. */
export function needsKeyAgain(connection: Connection | null, draft: ConnectionDraft): boolean {
  if (connection === null || draft.credential !== "stored") return false;
  const origin = originOf(draft.baseUrl);
  return origin !== null && origin !== originOf(connection.baseUrl);
}

/** What is sent: a credential only where one was given, and null for a number that is left empty. */
export function bodyOf(draft: ConnectionDraft): Partial<ConnectionBody> {
  const numbers = NUMBER_NAMES.map((name) => [name, draft.numbers[name].trim() === "" ? null : Number(draft.numbers[name])]);
  return {
    name: draft.name.trim(),
    baseUrl: draft.baseUrl.trim(),
    model: draft.model.trim(),
    protocol: draft.protocol,
    ...(draft.credential === "key" ? { apiKey: draft.apiKey.trim() } : {}),
    ...(draft.credential === "variable" ? { credentialRef: draft.variable.trim() } : {}),
    ...Object.fromEntries(numbers),
  };
}

/** What a field of a date and a time holds, in the viewer's zone, as the API takes it; null where it is empty. */
export function toMoment(typed: string): string | null {
  if (typed === "") return null;
  const date = new Date(typed);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}

/** A moment as a field of a date and a time shows it, in the viewer's zone. */
export function toField(moment: string | undefined): string {
  if (moment === undefined) return "";
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return "";
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

/** A setting of the server in words. */
export function sayValue(value: string | number | boolean | readonly string[] | null): string {
  if (value === null || value === "") return "not set";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return value.toLocaleString("en-US", { maximumFractionDigits: 6, useGrouping: Math.abs(value) >= 100_000 }).replace("-", "−");
  if (typeof value === "string") return value;
  return value.length === 0 ? "none" : value.join(", ");
}
