/** The API of the server: one function that asks, and errors that pages can show. */

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
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
  return `/api/v1${path}${text && `?${text}`}`;
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return send<T>("GET", apiPath(path, query), undefined, signal);
}

export async function send<T>(method: string, url: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      signal: signal ?? null,
      headers: body === undefined ? { Accept: "application/json" } : { "Content-Type": "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new OfflineError("The server does not answer.");
  }
  const text = await response.text();
  if (!response.ok) throw new ApiError(response.status, messageOf(text) ?? `The server answered ${response.status}.`);
  return (text ? JSON.parse(text) : undefined) as T;
}

function messageOf(text: string): string | null {
  try {
    const body: unknown = JSON.parse(text);
    const message = (body as { message?: unknown } | null)?.message;
    return typeof message === "string" ? message : null;
  } catch {
    return null;
  }
}
