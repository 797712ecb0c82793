/** Opens the list of keys with `?`, on every page. */
import { isKeyHelpOpen, useKeys } from "../lib/keys";
import { useStore } from "../lib/store";
import { LazyDialog } from "./lazy-dialog";

const loadKeyHelp = () => import("./key-help").then((module) => module.KeyHelp);
const closeKeyHelp = () => isKeyHelpOpen.set(false);

export function KeyHelpHost() {
  const isOpen = useStore(isKeyHelpOpen);
  useKeys({ "?": () => isKeyHelpOpen.set(true) });
  if (!isOpen) return null;
  return <LazyDialog load={loadKeyHelp} onClose={closeKeyHelp} />;
}
