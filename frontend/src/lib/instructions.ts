/** Which instructions for reviewers somebody has folded: kept in this browser, for each person and project. */
import { nameHere } from "./root";

/** By the ids of projects, the version of the text that was folded: a text that has changed is open again. */
export type Folded = Readonly<Record<string, string>>;

const MOST_PROJECTS = 100;
const keyOf = (person: string) => nameHere(`dokimos-folded-instructions-${person}`);

export function readFolded(person: string): Folded {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(keyOf(person)) ?? "{}");
    if (typeof kept !== "object" || kept === null || Array.isArray(kept)) return {};
    return Object.fromEntries(Object.entries(kept).filter((entry): entry is [string, string] => typeof entry[1] === "string"));
  } catch {
    return {};
  }
}

/** What is kept once a text was folded, or opened (null); of many projects, those that were folded last. */
export function fold(folded: Folded, project: string, version: string | null): Folded {
  const others = Object.entries(folded).filter(([one]) => one !== project);
  const all = version === null ? others : [...others, [project, version] as const];
  return Object.fromEntries(all.slice(-MOST_PROJECTS));
}

export function keepFolded(person: string, folded: Folded): void {
  try {
    localStorage.setItem(keyOf(person), JSON.stringify(folded));
  } catch {
    // Without storage it lasts as long as the page.
  }
}
