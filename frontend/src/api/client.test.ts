import { afterEach, describe, expect, it, vi } from "vitest";
import { ApiError, OfflineError, change, get } from "./client";
import { isOutdated, needsSignIn } from "./signals";

function answer(status: number, body: unknown, build = "one"): Response {
  return new Response(JSON.stringify(body), { status, headers: { "X-Dokimos-Build": build, "X-Request-Id": "7f3a" } });
}

afterEach(() => {
  vi.unstubAllGlobals();
  needsSignIn.set(false);
  isOutdated.set(false);
});

describe("asking the server", () => {
  it("waits for a sign-in where one is needed, and asks again then", async () => {
    const ask = vi.fn().mockResolvedValueOnce(answer(401, { error: "Invalid key" })).mockResolvedValueOnce(answer(200, [1]));
    vi.stubGlobal("fetch", ask);
    const asked = get<number[]>("/projects");
    await vi.waitUntil(() => needsSignIn.get());
    expect(ask).toHaveBeenCalledTimes(1);
    needsSignIn.set(false);
    expect(await asked).toEqual([1]);
  });

  it("stops waiting where the page no longer wants the answer", async () => {
    vi.stubGlobal("fetch", vi.fn().mockResolvedValue(answer(401, {})));
    const stop = new AbortController();
    const asked = get("/projects", {}, stop.signal);
    await vi.waitUntil(() => needsSignIn.get());
    stop.abort(new Error("gone"));
    await expect(asked).rejects.toThrow("gone");
  });

  it("does not send a change again by itself", async () => {
    const ask = vi.fn().mockResolvedValue(answer(401, { error: "Invalid key" }));
    vi.stubGlobal("fetch", ask);
    await expect(change("POST", "/datasets", {})).rejects.toEqual(new ApiError(401, "Invalid key", "7f3a"));
    expect(ask).toHaveBeenCalledTimes(1);
    expect(needsSignIn.get()).toBe(true);
  });

  it("says where nothing came back", async () => {
    vi.stubGlobal("fetch", vi.fn().mockRejectedValue(new TypeError("failed")));
    await expect(get("/projects")).rejects.toBeInstanceOf(OfflineError);
  });

  it("notices another build of the server", async () => {
    vi.stubGlobal("fetch", vi.fn().mockResolvedValueOnce(answer(200, 1)).mockResolvedValueOnce(answer(200, 1, "two")));
    await get("/projects");
    expect(isOutdated.get()).toBe(false);
    await get("/projects");
    expect(isOutdated.get()).toBe(true);
  });
});
