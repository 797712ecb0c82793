/** What a sheet of paper needs beside the page: where it is from, and from when. */
import { count, shown, time } from "../lib/format";
import { usePrinting } from "../lib/printing";

export function PrintFoot() {
  if (!usePrinting()) return null;
  return <p className="print-foot label">{shown(decodeAddress())} · printed {time(new Date().toISOString())}</p>;
}

function decodeAddress(): string {
  try {
    return decodeURI(location.href);
  } catch {
    return location.href;
  }
}

/** Lists have only those rows that are in sight or near it. */
export function RowsOnPaper({ rows, all }: { rows: number; all: number }) {
  if (!usePrinting() || rows >= all) return null;
  return <p className="foot-row">{count(rows)} of {count(all)} rows are on paper; filters before printing choose which.</p>;
}

export const ROWS_ON_PAPER = 40;
