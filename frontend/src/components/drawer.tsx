/** What opens beside a list: it takes the focus, `esc` closes it, and the focus goes back to where it was. */
import { type ReactNode, useEffect, useRef } from "react";
import { type KeyLine, isTyping, useKeyHelp } from "../lib/keys";

const DRAWER_KEYS: readonly KeyLine[] = [["esc", "close it"]];
const STEP_KEYS: readonly KeyLine[] = [["j k", "next, previous"], ...DRAWER_KEYS];

interface Props {
  readonly label: string;
  readonly head: ReactNode;
  readonly foot: ReactNode;
  readonly onClose: () => void;
  /** Keys other than `esc`; whether the key did something, so that it is not typed into a field that it opens. */
  readonly onKey?: (key: string) => boolean;
  readonly children: ReactNode;
}

export function Drawer({ label, head, foot, onClose, onKey, children }: Props) {
  const box = useRef<HTMLElement>(null);
  useKeyHelp("In what is open beside the page", onKey === undefined ? DRAWER_KEYS : STEP_KEYS);
  useEffect(() => {
    const before = document.activeElement;
    box.current?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <aside
      className="drawer"
      ref={box}
      tabIndex={-1}
      aria-label={label}
      onKeyDown={(event) => {
        // In a form, `esc` closes the form.
        if (event.target instanceof Element && event.target.closest("form") !== null) return;
        const field = isTyping(event.target) ? event.target : null;
        // In a field for searching, `esc` clears it first, as browsers have it.
        if (event.key === "Escape") {
          if (!(field instanceof HTMLInputElement && field.value !== "")) onClose();
        } else if (field === null && !event.ctrlKey && !event.metaKey && !event.altKey && onKey?.(event.key) === true) event.preventDefault();
      }}
    >
      <div className="drawer-head">
        {head}
        <button type="button" className="btn bare" onClick={onClose}>Close <kbd>esc</kbd></button>
      </div>
      <div className="drawer-body">{children}</div>
      {foot}
    </aside>
  );
}
