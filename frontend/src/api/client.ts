/** The API of the server: one function that asks, and errors that pages can show. */
import { addressOf } from "../lib/root";
import { needsSignIn, noteBuild, waitForSignIn } from "./signals";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** By which the answer is found in the log of the server. */
    readonly reference: string | null = null,
  ) {
    super(message);
  }
}

/** Nothing came back: the server is stopped, or the network is away. */
export class OfflineError extends Error {}

export type Query = Record<string, string | number | boolean | readonly (string | number)[] | null | undefined>;

export function apiPath(path: string, query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) parameters.append(name, String(one));
  }
  const text = parameters.toString();
  return addressOf(`/api/v1${path}${text && `?${text}`}`);
}

/**
 * Reads. Where nobody is signed in (any more), the answer waits until somebody is: the page stays as it was,
 * with what is typed in it.
 */
export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await send<T>("GET", apiPath(path, query), undefined, signal);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 401)) throw error;
      await waitForSignIn(signal);
    }
  }
}

/**
 * Changes something: `body` is sent as JSON, a file or a text as it is. A browser says itself where it comes from.
 * With `version`, the server refuses (412) where what is changed has another one by now.
 */
export async function change<T>(method: string, path: string, body?: unknown, query: Query = {}, version: string | null = null): Promise<T> {
  return send<T>(method, apiPath(path, query), body, undefined, "application/json", version);
}

export async function send<T>(
  method: string,
  url: string,
  body?: unknown,
  signal?: AbortSignal,
  type = "application/json",
  version: string | null = null,
): Promise<T> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, {
      method,
      signal: signal ?? null,
      headers: {
        Accept: "application/json",
        ...(body === undefined ? {} : { "Content-Type": type }),
        ...(version === null ? {} : { "If-Match": `"${version}"` }),
      },
      body: body === undefined ? null : body instanceof Blob || typeof body === "string" ? body : JSON.stringify(body),
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new OfflineError("The server does not answer.");
  }
  noteBuild(response.headers.get("X-Dokimos-Build"));
  if (!response.ok) {
    if (response.status === 401) needsSignIn.set(true);
    const message = messageOf(text) ?? `The server answered ${response.status}.`;
    throw new ApiError(response.status, message, response.headers.get("X-Request-Id"));
  }
  return (text ? JSON.parse(text) : undefined) as T;
}

/** What an error says: most have a message, refusals of access one field of their own. */
function messageOf(text: string): string | null {
  try {
    const body = JSON.parse(text) as { message?: unknown; error?: unknown } | null;
    const message = body?.message ?? body?.error;
    return typeof message === "string" ? message : null;
  } catch {
    return null;
  }
}
