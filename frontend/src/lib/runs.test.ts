import { describe, expect, it } from "vitest";
import { chooseRun, meanInterval, readColumns, sayStatus, toggleColumn } from "./runs";

describe("columns of the table of runs", () => {
  it("are those of the address that there are, in the order of the table", () => {
    expect(readColumns("cost,rate,gone")).toEqual(["rate", "cost"]);
    expect(readColumns("gone")).toEqual(readColumns(undefined));
  });

  it("leave the address when they are the usual ones, or none", () => {
    const usual = readColumns(undefined);
    const more = toggleColumn(usual, "tokens");
    expect(more?.split(",")).toEqual(["status", "rate", "passed", "errors", "cost", "tokens", "latency", "branch"]);
    expect(toggleColumn(readColumns(more), "tokens")).toBeUndefined();
    expect(toggleColumn(["rate"], "rate")).toBeUndefined();
  });
});

describe("runs that are chosen", () => {
  it("are at most as many as a matrix has columns, the last ones that were ticked", () => {
    const runs = Array.from({ length: 26 }, (_, n) => ({ id: String(n) }));
    const chosen = runs.reduce<readonly { id: string }[]>(chooseRun, []);
    expect(chosen.map((run) => run.id)).toEqual(runs.slice(2).map((run) => run.id));
    expect(chooseRun(chosen, { id: "4" }).map((run) => run.id)).not.toContain("4");
  });
});

describe("the interval of a mean", () => {
  it("is that of a rate with the same mean, scaled to the range", () => {
    expect(meanInterval(27 / 46, 46, 0, 1)?.map((end) => end.toFixed(3))).toEqual(["0.443", "0.717"]);
    expect(meanInterval((27 / 46) * 100, 46, 0, 100)?.map((end) => end.toFixed(1))).toEqual(["44.3", "71.7"]);
    expect(meanInterval(0, 10, -1, 1)?.map((end) => end.toFixed(2))).toEqual(["-0.53", "0.53"]);
  });

  it("is not there without scores, without a range, and for a mean beyond it", () => {
    expect(meanInterval(0.5, 0, 0, 1)).toBeNull();
    expect(meanInterval(0.5, 10, 1, 1)).toBeNull();
    expect(meanInterval(1.5, 10, 0, 1)).toBeNull();
  });
});

describe("the status of a run", () => {
  it("does not sound like what the run scored", () => {
    expect(["SUCCESS", "FAILED", "CANCELLED"].map(sayStatus)).toEqual(["completed", "failed", "cancelled"]);
  });
});
