/** What can be done on the page that is open, for the command palette: pages declare it where they do it. */
import { useEffect, useRef } from "react";
import { makeStore } from "./store";

export interface Action {
  readonly label: string;
  /** Where it leads, or what it does. */
  readonly href?: string;
  readonly run?: () => void;
}

type Provider = () => readonly Action[];
/** Of what is on the page, in the order in which it appeared; the palette may have been opened before it. */
export const actionProviders = makeStore<readonly Provider[]>([]);

export function useActions(actions: readonly Action[]): void {
  const latest = useRef(actions);
  useEffect(() => {
    latest.current = actions;
  });
  useEffect(() => {
    const provider = () => latest.current;
    actionProviders.set([...actionProviders.get(), provider]);
    return () => actionProviders.set(actionProviders.get().filter((one) => one !== provider));
  }, []);
}
