/** Where the server is: at the root of its site, or below a path of it, which its page then names. */
import { dropDrafts, hasDrafts } from "./drafts";
import { dropKeyTexts, hasKeyTexts } from "./key-texts";

const ROOT = (typeof document === "undefined" ? null : document.querySelector<HTMLMetaElement>('meta[name="dokimos-root"]'))?.content ?? "";

/** The root path for the router. */
export const BASE_PATH = `${ROOT}/`;

/** A name of what this browser keeps for this server, rather than for another one on its site. */
export const nameHere = (name: string): string => name + ROOT;

/** The address on the site of a path of the server, such as `/runs/1`: for all that does not go through the router. */
export const addressOf = (path: string): string => ROOT + path;

/** The path of the server that the browser shows. */
export const pathHere = (): string => location.pathname.slice(ROOT.length) || "/";

/** The address that programs are told. */
export const serverAddress = (): string => location.origin + ROOT;

/** Whether something that was typed or made is lost once another page is loaded. */
export const isSomethingLost = (): boolean => hasDrafts() || hasKeyTexts();

/** Goes to another site, for somebody who has agreed to lose what is lost by that. */
export function leaveFor(address: string): void {
  dropDrafts();
  dropKeyTexts();
  location.assign(address);
}

/**
 * Loads a path of this site anew, without what was typed or made. With the origin before it, no path is taken for another host, as
 * `//example.com` would be.
 */
export function loadAnew(path: string): void {
  dropDrafts();
  dropKeyTexts();
  location.replace(location.origin + path);
}
