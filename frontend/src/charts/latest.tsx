/** A box for a chart over time: what is wider than a narrow page scrolls, and shows at first what is latest. */
import { type ReactNode, useLayoutEffect, useRef } from "react";

export function LatestInSight({ className = "gap", children }: { className?: string; children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (box.current !== null) box.current.scrollLeft = box.current.scrollWidth;
  }, []);
  return <div className={`panel pad ${className}`} tabIndex={0} ref={box}>{children}</div>;
}
