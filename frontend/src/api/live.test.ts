import { describe, expect, it, vi } from "vitest";
import { callInTurn } from "./live";

describe("what is asked again as changes are told", () => {
  it("is not asked while it is being answered, and once more for all that came meanwhile", async () => {
    vi.useFakeTimers();
    let calls = 0;
    let answer = () => {};
    const tell = callInTurn(() => {
      calls += 1;
      return new Promise<void>((resolve) => (answer = resolve));
    });
    tell();
    for (let event = 0; event < 20; event += 1) tell();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(calls).toBe(1);
    answer();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(calls).toBe(2);
    answer();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(calls).toBe(2);
    tell();
    expect(calls).toBe(3);
    vi.useRealTimers();
  });

  it("goes on after a failure", async () => {
    vi.useFakeTimers();
    let calls = 0;
    const tell = callInTurn(async () => {
      calls += 1;
      throw new Error("away");
    });
    tell();
    await vi.advanceTimersByTimeAsync(1_000);
    tell();
    expect(calls).toBe(2);
    vi.useRealTimers();
  });
});
