/** What changes at each key or with each scrolled row, and is acted on once it stays. */
import { useEffect, useState } from "react";

/** The latest value that has stood for a while; the first one stands at once. */
export function useSettled(value: string, milliseconds: number): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    if (value === settled) return undefined;
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, settled, milliseconds]);
  return settled;
}

/** Whether a value has stood for a while. */
export const useIsSettled = (value: string, milliseconds: number): boolean => useSettled(value, milliseconds) === value;
