/** What can be done on the page that is open, for the command palette: pages declare it where they do it. */
import { useEffect, useRef } from "react";

export interface Action {
  readonly label: string;
  /** Where it leads, or what it does. */
  readonly href?: string;
  readonly run?: () => void;
}

type Provider = () => readonly Action[];
const providers = new Set<Provider>();

export function useActions(actions: readonly Action[]): void {
  const latest = useRef(actions);
  useEffect(() => {
    latest.current = actions;
  });
  useEffect(() => {
    const provider = () => latest.current;
    providers.add(provider);
    return () => {
      providers.delete(provider);
    };
  }, []);
}

export function listActions(): Action[] {
  return [...providers].flatMap((provider) => provider());
}
