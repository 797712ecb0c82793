/** What opens above the page: the browser keeps the focus in it, `esc` closes it, and the focus goes back to where it was. */
import { type ReactNode, useLayoutEffect, useRef } from "react";

interface Props {
  readonly label: string;
  readonly className: string;
  readonly onClose: () => void;
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
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      className={`dialog ${className}`}
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      // Only what is outside of the content is the dialog itself.
      onClick={(event) => {
        if (event.target === event.currentTarget) onClose();
      }}
    >
      <div className="dialog-content">{children}</div>
    </dialog>
  );
}
