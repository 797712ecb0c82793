/** Opens the list of keys with `?`, on every page. */
import { Suspense, lazy } from "react";
import { isKeyHelpOpen, useKeys } from "../lib/keys";
import { useStore } from "../lib/store";

const KeyHelp = lazy(() => import("./key-help").then((module) => ({ default: module.KeyHelp })));

export function KeyHelpHost() {
  const isOpen = useStore(isKeyHelpOpen);
  useKeys({ "?": () => isKeyHelpOpen.set(true) });
  if (!isOpen) return null;
  return <Suspense fallback={null}><KeyHelp onClose={() => isKeyHelpOpen.set(false)} /></Suspense>;
}
