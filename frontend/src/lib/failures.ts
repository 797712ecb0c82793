/** What it means for somebody that something was not saved, and what to do. */
import { ApiError, OfflineError } from "../api/client";

/** Two sentences about a change that failed: `what` is its subject, such as `The verdict`. */
export function describeFailure(error: unknown, what: string, role?: string): string {
  const start = `${what} was not saved`;
  if (error instanceof OfflineError) return `${start}: the server does not answer. It is still here; send it again when the server is back.`;
  if (!(error instanceof ApiError)) return `${start}: ${error instanceof Error ? error.message : String(error)}`;
  const said = withStop(error.message);
  const { status, reference } = error;
  switch (status) {
    case 401:
      return `${start}: nobody is signed in any more. Sign in above, then send it again.`;
    case 403:
      return `${start}. ${neededRole(error.message, role) ?? said} An administrator of the server can give you the role.`;
    case 404:
      return `${start}: it is not there any more, or you may not see it. ${said}`;
    case 409:
    case 412:
      return `${start}: somebody else has changed it in the meantime. ${said}`;
    case 413:
      return `${start}: it is larger than the server takes. ${said}`;
    case 429:
      return `${start}: there were too many requests. ${said}`;
    default:
      if (status < 500) return `${start}. ${said}`;
      return `${start}: the server answered ${status}. ${said}${reference === null ? "" : ` Reference ${reference} helps to find it in the log.`}`;
  }
}

/** `Insufficient role: EDITOR required`, with the role that somebody has. */
export function neededRole(message: string, role?: string): string | null {
  const needed = /role: (\w+) required/.exec(message)?.[1];
  if (needed === undefined) return null;
  const yours = role === undefined || role === "NONE" ? "" : ` Yours is ${role.toLowerCase()}.`;
  return `This needs the role ${needed.toLowerCase()}.${yours}`;
}

export function withStop(message: string): string {
  return /[.!?]$/.test(message) ? message : `${message}.`;
}
