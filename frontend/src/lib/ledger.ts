/** What the ledger of judging makes of the days and budgets that the server tells. */
import type { Budgets, SpendingDay } from "../api/ledger";
import { cost, count } from "./format";

export const UNITS = { usd: "Dollars", tokens: "Tokens", calls: "Calls" } as const;
export type Unit = keyof typeof UNITS;
const LIMITS = { usd: "maxCostUsd", tokens: "maxTokens", calls: "maxCalls" } as const;
const DAY_MS = 86_400_000;

export interface DayBar {
  readonly day: string;
  readonly spent: number;
  readonly reserved: number;
}

export type Limits = Readonly<Record<string, unknown>> | null;

/** The limit of a budget in a unit; null where it has none. */
export function limitOf(limits: Limits, unit: Unit): number | null {
  const limit = limits?.[LIMITS[unit]];
  return typeof limit === "number" ? limit : null;
}

/** The unit that somebody wants to see first: one with a limit, or dollars where anything is priced. */
export function firstUnit({ limitPerDay, days }: Budgets): Unit {
  const limited = (["usd", "tokens", "calls"] as const).find((unit) => limitOf(limitPerDay, unit) !== null);
  return limited ?? (days.length === 0 || days.some((day) => day.costUsd !== null) ? "usd" : "calls");
}

type Spent = Pick<SpendingDay, "calls" | "tokens" | "costUsd" | "reservedCalls" | "reservedTokens" | "reservedCostUsd">;

export function amountOf(each: Spent, unit: Unit): { readonly spent: number; readonly reserved: number } {
  if (unit === "usd") return { spent: each.costUsd ?? 0, reserved: each.reservedCostUsd };
  return unit === "tokens" ? { spent: each.tokens, reserved: each.reservedTokens } : { spent: each.calls, reserved: each.reservedCalls };
}

/** A bar for each of the last days, those without calls included. */
export function barsOf({ today, days }: Pick<Budgets, "today" | "days">, length: number, unit: Unit): DayBar[] {
  const known = new Map(days.map((one) => [one.day, one]));
  const end = Date.parse(`${today}T00:00:00Z`);
  return Array.from({ length }, (_, index) => {
    const day = new Date(end - (length - 1 - index) * DAY_MS).toISOString().slice(0, 10);
    const one = known.get(day);
    return { day, ...(one === undefined ? { spent: 0, reserved: 0 } : amountOf(one, unit)) };
  });
}

export function sayAmount(value: number, unit: Unit): string {
  return unit === "usd" ? cost(value) : `${count(Math.round(value))} ${unit}`;
}

/** The limits of a budget in words, such as `$5.0000, 1,000 calls`; null without any. */
export function sayLimits(limits: Limits): string | null {
  const said = (["usd", "tokens", "calls"] as const).flatMap((unit) => {
    const limit = limitOf(limits, unit);
    return limit === null ? [] : [sayAmount(limit, unit)];
  });
  return said.length === 0 ? null : said.join(", ");
}
