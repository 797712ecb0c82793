/** What any answer of the server may say beside its content: that it was upgraded, or that it needs a sign-in. */
import { makeStore } from "../lib/store";

/** Whether the server has another build than the one that this page was loaded from. */
export const isOutdated = makeStore(false);

/** Whether something was refused because nobody, or nobody any more, is signed in. */
export const needsSignIn = makeStore(false);

/** Whether whoever is signed in here has signed out in another tab: the page waits, out of sight, with what is typed in it. */
export const isSignedOutElsewhere = makeStore(false);

let firstBuild: string | null = null;

export function noteBuild(build: string | null): void {
  if (build === null) return;
  firstBuild ??= build;
  if (build !== firstBuild) isOutdated.set(true);
}

/** Resolves as soon as somebody has signed in; rejects where the page no longer wants the answer. */
export function waitForSignIn(signal?: AbortSignal): Promise<void> {
  needsSignIn.set(true);
  return new Promise((resolve, reject) => {
    const leave = needsSignIn.follow(() => {
      if (needsSignIn.get()) return;
      leave();
      resolve();
    });
    signal?.addEventListener("abort", () => {
      leave();
      reject(signal.reason);
    });
  });
}
