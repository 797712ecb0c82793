/** Opens the command palette: by its button in the menu, by the one of narrow pages, and by its key. */
import { useLayoutEffect } from "react";
import { type KeyLine, useKeyHelp } from "../lib/keys";
import { makeStore, useStore } from "../lib/store";
import { LazyDialog } from "./lazy-dialog";

const loadPalette = () => import("./palette").then((module) => module.Palette);
const isPaletteOpen = makeStore(false);
const closePalette = () => isPaletteOpen.set(false);
const isMac = () => /Mac|iP(hone|ad)/.test(navigator.platform);
const HELP: readonly KeyLine[] = [["?", "these keys"], ["esc", "close what is open, leave a field"]];
const KEYS: readonly KeyLine[] = [["ctrl+k", "search or jump to"], ...HELP];
const MAC_KEYS: readonly KeyLine[] = [["⌘+k", "search or jump to"], ...HELP];
/** The key as it stands on buttons. */
export const paletteKey = () => (isMac() ? "⌘K" : "Ctrl K");

export function PaletteHost() {
  const isOpen = useStore(isPaletteOpen);
  useLayoutEffect(() => { // as soon as the page is in sight
    const press = (event: KeyboardEvent) => {
      const isKey = event.key.toLowerCase() === "k" && (isMac() ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey);
      if (!isKey || event.altKey || event.shiftKey) return;
      event.preventDefault();
      isPaletteOpen.set(!isPaletteOpen.get());
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
  useKeyHelp("Anywhere", isMac() ? MAC_KEYS : KEYS);
  if (!isOpen) return null;
  return <LazyDialog load={loadPalette} onClose={closePalette} />;
}

export function PaletteButton({ isNarrow = false }: { isNarrow?: boolean }) {
  return (
    <button
      type="button"
      className={isNarrow ? "btn bare find-narrow" : "find"}
      aria-keyshortcuts={isMac() ? "Meta+K" : "Control+K"}
      aria-label="Search or jump to"
      onClick={() => isPaletteOpen.set(true)}
    >
      <svg className="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.7 10.7 14 14" /></svg>
      {!isNarrow && <>Search<kbd>{paletteKey()}</kbd></>}
    </button>
  );
}
