import { describe, expect, it } from "vitest";
import type { Budgets, SpendingDay } from "../api/ledger";
import { barsOf, firstUnit, limitOf, sayLimits } from "./ledger";

const day = (name: string, costUsd: number | null): SpendingDay => ({
  day: name, calls: 3, tokens: 40, costUsd, unpricedCalls: costUsd === null ? 3 : 0, lostCalls: 0,
  reservedCalls: 1, reservedTokens: 20, reservedCostUsd: 0.5,
});
const budgets = (limitPerDay: Budgets["limitPerDay"], ...days: SpendingDay[]): Budgets => ({
  today: "2026-03-01", isComplete: true, limitPerDay, days, jobs: [],
});

describe("the ledger of judging", () => {
  it("has a bar for each day, also where a month ends and nothing was spent", () => {
    const bars = barsOf(budgets(null, day("2026-02-27", 2)), 4, "usd");
    expect(bars.map((bar) => bar.day)).toEqual(["2026-02-26", "2026-02-27", "2026-02-28", "2026-03-01"]);
    expect(bars.map((bar) => bar.spent)).toEqual([0, 2, 0, 0]);
    expect(bars[1]?.reserved).toBe(0.5);
  });

  it("shows the unit of the budget first, and never dollars where nothing is priced", () => {
    expect(firstUnit(budgets({ maxTokens: 10 }, day("2026-02-27", 2)))).toBe("tokens");
    expect(firstUnit(budgets(null, day("2026-02-27", 2)))).toBe("usd");
    expect(firstUnit(budgets(null, day("2026-02-27", null)))).toBe("calls");
  });

  it("says a budget with all its limits, of which 0 is one", () => {
    expect(sayLimits({ maxCostUsd: 5, maxCalls: 1000 })).toBe("$5.0000, 1,000 calls");
    expect(sayLimits({})).toBeNull();
    expect(limitOf({ maxCalls: 0 }, "calls")).toBe(0);
  });
});
