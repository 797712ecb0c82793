/** Other tabs of this browser on the same server: what is changed in one is read anew in the others. */
import { VERDICTS, type Verdict } from "./review";
import { nameHere } from "./root";

export type TabMessage =
  | { readonly kind: "changed"; readonly keys: readonly (readonly unknown[])[] }
  | ({ readonly kind: "reviewed" } & Reviewed)
  | { readonly kind: "signed-in" }
  | { readonly kind: "signed-out" };

/** What the person of this browser has said about an item by now; null where they took it back. */
export interface Reviewed {
  readonly run: string;
  readonly item: string;
  readonly verdict: Verdict | null;
}

const NAME = nameHere("dokimos");
let channel: BroadcastChannel | null = null;

/** A channel hears nothing of what it says itself. */
function open(): BroadcastChannel | null {
  if (typeof BroadcastChannel === "undefined") return null;
  channel ??= new BroadcastChannel(NAME);
  return channel;
}

export function tellTabs(message: TabMessage): void {
  try {
    open()?.postMessage(message);
  } catch {
    // What cannot be said is read when the other tab comes to the front.
  }
}

export function followTabs(listener: (message: TabMessage) => void): () => void {
  const tabs = open();
  const listen = (event: MessageEvent) => {
    const message = readMessage(event.data);
    if (message !== null) listener(message);
  };
  tabs?.addEventListener("message", listen);
  return () => tabs?.removeEventListener("message", listen);
}

/** A tab may be from another version. */
export function readMessage(value: unknown): TabMessage | null {
  if (typeof value !== "object" || value === null) return null;
  const { kind, keys, run, item, verdict } = value as Record<string, unknown>;
  if (kind === "signed-in" || kind === "signed-out") return { kind };
  if (kind === "reviewed") {
    const known = VERDICTS.find((one) => one.verdict === verdict)?.verdict ?? null;
    const isWhole = typeof run === "string" && typeof item === "string" && (known !== null || verdict === null);
    return isWhole ? { kind, run, item, verdict: known } : null;
  }
  if (kind !== "changed" || !Array.isArray(keys)) return null;
  return { kind, keys: keys.filter((key): key is readonly unknown[] => Array.isArray(key) && key.length > 0) };
}
