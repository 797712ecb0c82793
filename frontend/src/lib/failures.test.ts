import { describe, expect, it } from "vitest";
import { ApiError, OfflineError } from "../api/client";
import { safePath } from "../api/session";
import { describeFailure, neededRole } from "./failures";

describe("a change that was not saved", () => {
  it.each([
    [new OfflineError(), "The verdict was not saved: the server does not answer. It is still here"],
    [new ApiError(401, "Invalid or missing API key"), "nobody is signed in any more. Sign in above"],
    [new ApiError(403, "Insufficient role: EDITOR required"), "needs the role editor. Yours is viewer."],
    [new ApiError(409, "Version 4 came"), "somebody else has changed it in the meantime. Version 4 came."],
    [new ApiError(412, "Stale"), "somebody else has changed it in the meantime"],
    [new ApiError(413, "At most 16 MiB."), "larger than the server takes. At most 16 MiB."],
    [new ApiError(400, "note: must be short"), "The verdict was not saved. note: must be short."],
    [new ApiError(500, "Broken.", "7f3a"), "the server answered 500. Broken. Reference 7f3a"],
  ])("says why and what to do", (error, words) => {
    expect(describeFailure(error, "The verdict", "VIEWER")).toContain(words);
  });

  it("names the role that is needed only where the server does", () => {
    expect(neededRole("The comment is somebody else's", "VIEWER")).toBeNull();
    expect(neededRole("Insufficient role: ADMIN required")).toBe("This needs the role admin.");
  });
});

describe("where somebody returns to after signing in", () => {
  it.each([
    ["/runs/1?item=2", "/runs/1?item=2"],
    ["//evil.example", "/"],
    ["/\\evil.example", "/"],
    ["/.//evil.example", "/"],
    ["/a/..//evil.example", "/"],
    ["/%2e//evil.example", "/"],
    ["/\t/evil.example", "/"],
    ["https://evil.example", "/"],
    ["javascript:alert(1)", "/"],
    ["/login?returnTo=/login", "/"],
    [undefined, "/"],
  ])("is a page of this server", (path, expected) => {
    expect(safePath(path)).toBe(expected);
  });
});
