import { afterEach, expect, it, vi } from "vitest";
import { type KeyText, dropKeyText, dropKeyTexts, findKeyText, keepKeyText, keyTexts } from "./key-texts";

const created = (key: string) => ({ key }) as KeyText["created"];

/** Whether a page asks before it is closed. */
function watchPage(): () => boolean {
  const page = new EventTarget();
  vi.stubGlobal("window", page);
  return () => !page.dispatchEvent(new Event("beforeunload", { cancelable: true }));
}

afterEach(() => {
  dropKeyTexts();
  vi.unstubAllGlobals();
});

it("keeps a text until somebody has it, and asks before the page is closed from the request on", async () => {
  const asks = watchPage();
  let answer: (created: KeyText["created"]) => void = () => undefined;

  const kept = keepKeyText(new Promise<KeyText["created"]>((resolve) => { answer = resolve; }), "ana");
  expect([asks(), findKeyText(keyTexts.get(), "ana")]).toEqual([true, undefined]);
  answer(created("dk_1"));
  await kept;
  const text = findKeyText(keyTexts.get(), "ana");
  expect([asks(), text?.created.key]).toEqual([true, "dk_1"]);
  dropKeyText(text?.id ?? 0);

  expect([asks(), keyTexts.get()]).toEqual([false, []]);
});

it("keeps nothing and asks for nothing where no key was made", async () => {
  const asks = watchPage();
  const refused = new Error("refused");

  await expect(keepKeyText(Promise.reject(refused), "ana")).rejects.toBe(refused);

  expect([asks(), keyTexts.get()]).toEqual([false, []]);
});

it("shows a text to nobody but the one who asked for it", async () => {
  await keepKeyText(Promise.resolve(created("dk_1")), "ana");
  await keepKeyText(Promise.resolve(created("dk_2")), null);

  const keyFor = (person: string | null) => findKeyText(keyTexts.get(), person)?.created.key;
  expect([keyFor("ana"), keyFor("ben"), keyFor(null)]).toEqual(["dk_1", "dk_2", "dk_2"]);
});

it("keeps no text that comes when the page is already being loaded for somebody else", async () => {
  let answer: (created: KeyText["created"]) => void = () => undefined;
  const kept = keepKeyText(new Promise<KeyText["created"]>((resolve) => { answer = resolve; }), "ana");

  dropKeyTexts();
  answer(created("dk_1"));
  await kept;

  expect(keyTexts.get()).toEqual([]);
});
