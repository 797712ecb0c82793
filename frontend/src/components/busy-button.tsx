/** A button that keeps the focus while what it has started goes on: one that is `disabled` loses it, and the place in the page. */
import type { MouseEvent, ReactNode, Ref } from "react";

interface Props {
  readonly isBusy: boolean;
  /** What it says meanwhile. */
  readonly busy?: string;
  readonly className?: string;
  readonly type?: "button" | "submit";
  readonly ref?: Ref<HTMLButtonElement>;
  readonly onClick?: (event: MouseEvent<HTMLButtonElement>) => void;
  readonly children: ReactNode;
}

export function BusyButton({ isBusy, busy, className = "btn", type = "button", ref, onClick, children }: Props) {
  return (
    <button
      {...(ref === undefined ? {} : { ref })}
      type={type}
      className={className}
      aria-disabled={isBusy || undefined}
      onClick={(event) => {
        if (isBusy) event.preventDefault();
        else onClick?.(event);
      }}
    >
      {isBusy && busy !== undefined ? busy : children}
    </button>
  );
}
