/** A button that opens a panel below it; `esc` closes it and goes back to the button. */
import { type KeyboardEvent, type ReactNode, useRef } from "react";

interface Props {
  readonly title: string;
  readonly children: ReactNode;
}

export function Menu({ title, children }: Props) {
  const box = useRef<HTMLDetailsElement>(null);
  const close = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || box.current?.open !== true) return;
    event.stopPropagation();
    box.current.open = false;
    box.current.querySelector("summary")?.focus();
  };
  return (
    <details className="columns menu" ref={box} onKeyDown={close}>
      <summary className="btn">{title}</summary>
      <div className="panel" role="group" aria-label={title}>{children}</div>
    </details>
  );
}
