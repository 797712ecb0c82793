/** Hears from the server what has changed, so that pages ask again for that alone. */
import { useEffect, useEffectEvent, useState } from "react";
import { apiPath } from "./client";

const NAMES = [
  "ready", "reload", "run.created", "run.items", "run.updated", "run.completed", "run.deleted", "verdict.ready",
  "judge-job.updated", "judge-job.deleted", "annotation.changed", "annotation.deleted",
] as const;

interface Listener {
  /** Something has changed; until what it returns is done, it is not called again, and then once for all that came. */
  readonly onChange: () => Promise<unknown>;
  /** Whether the server tells of changes from now on; where it does not, a page has to look by itself. */
  readonly onTold: (isTold: boolean) => void;
}

/**
 * Hears what changes of a run or an experiment, as long as the page is in sight: a browser has six connections to a
 * server, for all of its tabs together.
 */
export function useChanges(of: { readonly run: string } | { readonly experiment: string }, isNeeded: boolean, listener: Listener): void {
  const change = useEffectEvent(() => listener.onChange());
  const told = useEffectEvent((isTold: boolean) => listener.onTold(isTold));
  const isInSight = useIsInSight();
  const url = apiPath("/events", { ...of });
  useEffect(() => {
    if (!isNeeded || !isInSight) return undefined;
    const source = new EventSource(url);
    const tell = callInTurn(change);
    for (const name of NAMES) source.addEventListener(name, tell);
    source.addEventListener("ready", () => told(true));
    source.onerror = () => told(false);
    return () => {
      source.close();
      told(false);
    };
  }, [url, isNeeded, isInSight]);
}

const PAUSE_MS = 300;

/** A function that calls another one that takes time: never twice at once, and after the last call once more. */
export function callInTurn(act: () => Promise<unknown>): () => void {
  let isBusy = false;
  let isDue = false;
  const call = async () => {
    isBusy = true;
    do {
      isDue = false;
      await act().catch(() => null);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    } while (isDue);
    isBusy = false;
  };
  return () => {
    isDue = true;
    if (!isBusy) void call();
  };
}

function useIsInSight(): boolean {
  const [isInSight, setIsInSight] = useState(document.visibilityState === "visible");
  useEffect(() => {
    const look = () => setIsInSight(document.visibilityState === "visible");
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  return isInSight;
}

const MOST_SHARE = 4;
const LONGEST_PAUSE_MS = 30_000;

/**
 * The version that is shown of something that changes faster than it can be read: the newest one, but after each reading a
 * pause of four times its length.
 */
export function useSteady(version: string, isReading: boolean, isFinal: boolean): string {
  const [shown, setShown] = useState(version);
  const [clock] = useState(() => ({ beganAt: 0, nextAt: 0 }));
  useEffect(() => {
    const now = performance.now();
    if (isReading) clock.beganAt = now;
    else if (clock.beganAt > 0) {
      clock.nextAt = now + Math.min(LONGEST_PAUSE_MS, MOST_SHARE * (now - clock.beganAt));
      clock.beganAt = 0;
    }
  }, [isReading, clock]);
  useEffect(() => {
    const isFirst = shown === ""; // which may be read ahead already
    if (version === shown || (isReading && !isFirst) || isFinal) return undefined;
    const timer = setTimeout(() => setShown(version), isFirst ? 0 : Math.max(0, clock.nextAt - performance.now()));
    return () => clearTimeout(timer);
  }, [version, shown, isReading, isFinal, clock]);
  return isFinal ? version : shown;
}
