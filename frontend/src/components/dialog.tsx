/**
 * What opens above the page: the browser keeps the focus in it, `esc` closes it if it may be closed, and the focus goes back to
 * where it was, or to the page where that is gone.
 */
import { type ReactNode, useLayoutEffect, useRef } from "react";

interface Props {
  readonly label: string;
  readonly className: string;
  /** Without it, the dialog stays until what it asks for is done. */
  readonly onClose?: () => void;
  readonly children: ReactNode;
}

export function Dialog({ label, className, onClose, children }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  // Before what opens at the same time takes the focus.
  useLayoutEffect(() => {
    const dialog = box.current;
    const before = document.activeElement;
    if (dialog !== null && !dialog.open) dialog.showModal();
    return () => {
      dialog?.close();
      if (!(before instanceof HTMLElement) || before === document.body || !before.isConnected) {
        document.getElementById("main")?.focus({ preventScroll: true });
        return;
      }
      before.focus();
      // What was out of sight takes the focus as soon as it is back.
      if (document.activeElement !== before) requestAnimationFrame(() => before.focus());
    };
  }, []);
  return (
    <dialog
      ref={box}
      className={`dialog ${className}`}
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
      onKeyDown={(event) => {
        if (onClose === undefined && event.key === "Escape") event.preventDefault();
      }}
      // Browsers close a dialog at the second `esc`, whatever the page says to the first.
      onClose={(event) => {
        if (onClose === undefined && event.currentTarget.isConnected) event.currentTarget.showModal();
      }}
      // Only what is outside of the content is the dialog itself.
      onClick={(event) => {
        if (event.target === event.currentTarget) onClose?.();
      }}
    >
      <div className="dialog-content">{children}</div>
    </dialog>
  );
}
