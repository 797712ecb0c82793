import { describe, expect, it } from "vitest";
import type { Connection } from "../api/settings";
import { bodyOf, draftOf, needsKeyAgain, sayValue, toField, toMoment } from "./settings";

const CONNECTION: Connection = {
  id: "1", name: "judge", baseUrl: "https://models.example.com/v1", model: "m", protocol: "RESPONSES", credentialRef: null, hasInlineKey: true,
  createdAt: "2026-01-01T00:00:00Z", updatedAt: "2026-01-01T00:00:00Z", version: "1", inputPricePerMillion: 0.5, outputPricePerMillion: 0, maxOutputTokens: null,
  requestsPerMinute: null, maxConcurrency: null, temperature: 0, problem: null,
};

describe("a connection that is changed", () => {
  it("keeps its key as long as scheme, host and port stay", () => {
    const draft = draftOf(CONNECTION);
    expect(needsKeyAgain(CONNECTION, { ...draft, baseUrl: "https://models.example.com:443/v2" })).toBe(false);
    expect(needsKeyAgain(CONNECTION, { ...draft, baseUrl: "http://models.example.com/v1" })).toBe(true);
    expect(needsKeyAgain(CONNECTION, { ...draft, baseUrl: "https://evil.example/v1", credential: "key" })).toBe(false);
  });

  it("sends a credential only where one was given, and null for what is empty", () => {
    const body = bodyOf({ ...draftOf(CONNECTION), apiKey: "typed, then not chosen" });
    expect(body).not.toHaveProperty("apiKey");
    expect(body).not.toHaveProperty("credentialRef");
    expect(body).toMatchObject({ inputPricePerMillion: 0.5, outputPricePerMillion: 0, temperature: 0, maxOutputTokens: null });
  });
});

describe("moments", () => {
  it("come back from a field as they were", () => {
    expect(toMoment(toField("2026-11-28T10:30:00.000Z"))).toBe("2026-11-28T10:30:00.000Z");
    expect(toMoment("")).toBeNull();
    expect(toField("not a time")).toBe("");
  });
});

describe("values of settings", () => {
  it("are words", () => {
    expect([null, true, 8080, -1, 16_777_216, [], ["a", "b"]].map(sayValue)).toEqual(["not set", "yes", "8080", "−1", "16,777,216", "none", "a, b"]);
  });
});
