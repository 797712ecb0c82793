/** Whether the page is being put on paper, where nothing scrolls. */
import { useSyncExternalStore } from "react";
import { flushSync } from "react-dom";

let isBetween = false;

function follow(changed: () => void): () => void {
  const media = matchMedia("print");
  const set = (value: boolean) => () => {
    isBetween = value;
    flushSync(changed); // the browser takes the page as it is when the event is over
  };
  const [begin, end] = [set(true), set(false)];
  media.addEventListener("change", changed);
  window.addEventListener("beforeprint", begin);
  window.addEventListener("afterprint", end);
  return () => {
    media.removeEventListener("change", changed);
    window.removeEventListener("beforeprint", begin);
    window.removeEventListener("afterprint", end);
  };
}

export function usePrinting(): boolean {
  return useSyncExternalStore(follow, () => isBetween || matchMedia("print").matches);
}
