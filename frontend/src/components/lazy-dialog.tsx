/** A dialog whose file is read when it is opened for the first time. */
import { type ComponentType, useEffect, useState } from "react";
import { notify } from "../lib/notices";

type Dialog = ComponentType<{ onClose: () => void }>;

interface Props {
  readonly load: () => Promise<Dialog>;
  readonly onClose: () => void;
}

/** Closes again, and says so, where its file cannot be read; the page below stays. `load` and `onClose` are of the module. */
export function LazyDialog({ load, onClose }: Props) {
  const [Content, setContent] = useState<Dialog | null>(null);
  useEffect(() => {
    let isGone = false;
    load().then(
      (dialog) => {
        if (!isGone) setContent(() => dialog);
      },
      () => {
        if (isGone) return;
        onClose();
        notify("This could not be loaded: the server is away, or was updated. Load the page again once it answers.");
      },
    );
    return () => {
      isGone = true;
    };
  }, [load, onClose]);
  return Content === null ? null : <Content onClose={onClose} />;
}
