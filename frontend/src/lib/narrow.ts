/** Whether the page is as narrow as a phone, where tables become cards. As in the style sheets; paper is not a screen. */
import { useSyncExternalStore } from "react";

const NARROW = "screen and (max-width: 760px)";

function follow(changed: () => void): () => void {
  const media = matchMedia(NARROW);
  media.addEventListener("change", changed);
  return () => media.removeEventListener("change", changed);
}

export const useNarrow = (): boolean => useSyncExternalStore(follow, () => matchMedia(NARROW).matches);
