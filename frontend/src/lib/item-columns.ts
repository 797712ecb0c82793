/** What the rows of the list of items show, and how high they are: in the address, else as this browser keeps it. */
import { nameHere } from "./root";
import { makeStore } from "./store";

export const PARTS = [
  { name: "got", title: "Output" },
  { name: "want", title: "Expected output" },
  { name: "scores", title: "Scores" },
  { name: "latency", title: "Latency" },
  { name: "cost", title: "Cost" },
  { name: "tokens", title: "Tokens" },
] as const;
export type Part = (typeof PARTS)[number]["name"];

export const HEIGHTS = ["low", "usual", "high"] as const;
export type RowHeight = (typeof HEIGHTS)[number];

export interface Look {
  readonly parts: readonly Part[];
  readonly height: RowHeight;
}

const USUAL: readonly Part[] = ["got", "want", "scores", "latency"];
const LINE = 20;
const AROUND = 16;
/** How many lines outputs have in each height; a low row has one line in all. */
export const LINES: Record<RowHeight, number> = { low: 0, usual: 1, high: 3 };

/** The parts of a text such as `got,scores`; null where it is not one, `none` for the input alone. */
export function readParts(text: string | null | undefined): readonly Part[] | null {
  if (text == null) return null;
  const wanted = text.split(",");
  const named = PARTS.map((one) => one.name).filter((name) => wanted.includes(name));
  return named.length > 0 || text === "none" ? named : null;
}

export const sayParts = (parts: readonly Part[]): string => (parts.length === 0 ? "none" : parts.join());

export const readHeight = (text: string | null | undefined): RowHeight | null => HEIGHTS.find((one) => one === text) ?? null;

export function togglePart(parts: readonly Part[], name: Part): readonly Part[] {
  return PARTS.map((one) => one.name).filter((one) => (one === name) !== parts.includes(one));
}

/** What the address says, else what is kept, else the usual. */
export function chooseLook(address: { readonly columns?: string; readonly rows?: string }, kept: Partial<Look>): Look {
  return {
    parts: readParts(address.columns) ?? kept.parts ?? USUAL,
    height: readHeight(address.rows) ?? kept.height ?? "usual",
  };
}

/** The pixels of a row, with the same parts for all items. */
export function heightOf({ parts, height }: Look): number {
  const texts = ["got", "want"].filter((name) => parts.includes(name as Part)).length;
  return AROUND + LINE * (height === "low" ? 1 : Math.max(2, 1 + texts * LINES[height]));
}

const KEY = nameHere("dokimos-item-rows");

/** What this browser keeps by now; a list whose address says nothing of it follows what is chosen in another one. */
export const keptLook = makeStore<Partial<Look>>(readKept());

export function readKept(): Partial<Look> {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    const { parts, height } = kept as { readonly parts?: unknown; readonly height?: unknown };
    const known = typeof parts === "string" ? readParts(parts) : null;
    const high = typeof height === "string" ? readHeight(height) : null;
    return { ...(known !== null && { parts: known }), ...(high !== null && { height: high }) };
  } catch {
    return {};
  }
}

export function keepLook({ parts, height }: Look): void {
  keptLook.set({ parts, height });
  try {
    localStorage.setItem(KEY, JSON.stringify({ parts: sayParts(parts), height }));
  } catch {
    // Without storage it lasts as long as the address.
  }
}
