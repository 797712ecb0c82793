/** Where an item goes into a dataset, as a case that the next run is tested on. */
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { datasetsQuery } from "../api/datasets";
import { promoteItem } from "../api/reviews";
import { useWrite } from "../api/write";
import { shown } from "../lib/format";
import type { fromEditable } from "../lib/review";
import "../styles/promote.css";
import { NotSaved } from "./notices";

interface Props {
  readonly itemId: string;
  /** The corrected expected output, or what is wrong with it; null where the item has no correction that is not sent. */
  readonly correction: ReturnType<typeof fromEditable> | null;
  readonly onPromoted?: () => void;
  readonly onClose: () => void;
}

// The dataset of the last promotion of this page: the next item usually goes into the same one.
let lastName = "";

export function PromoteForm({ itemId, correction, onPromoted, onClose }: Props) {
  const datasets = useQuery(datasetsQuery(""));
  const [typed, setTyped] = useState<string | null>(null);
  const name = typed ?? (lastName || datasets.data?.[0]?.name || "");
  const known = datasets.data?.find((one) => one.name === name.trim());
  const promotion = useWrite({
    what: "The item",
    scope: "review", // behind the verdict, whose correction it takes
    send: promoteItem,
    keys: () => [["datasets"], ["dataset", name.trim()]],
    notice: (version) => ({ text: `In ${version.datasetName} since version ${version.version}` }),
    onSaved: (version) => {
      lastName = version.datasetName;
      onPromoted?.();
      onClose();
    },
  });
  // Promoting it without the correction that somebody has typed would look as if that were in the dataset.
  const fault = correction !== null && "fault" in correction ? correction.fault : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (fault === null) promotion.save({ datasetName: name.trim(), itemId, expected: correction !== null && "value" in correction ? correction.value : null });
  };
  return (
    <form
      className="promote"
      aria-label="Promote to a dataset"
      onSubmit={submit}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <label htmlFor="promote-dataset">Dataset</label>
      <input
        id="promote-dataset"
        className="field search"
        list="promote-datasets"
        required
        autoFocus
        value={name}
        onFocus={(event) => event.target.select()}
        onChange={(event) => setTyped(event.target.value)}
      />
      <datalist id="promote-datasets">
        {datasets.data?.map((one) => <option key={one.id} value={one.name} />)}
      </datalist>
      <button type="submit" className="btn main" disabled={promotion.isSaving || fault !== null}>
        {known === undefined && datasets.isSuccess ? "Make the dataset and promote" : "Promote"}<kbd>enter</kbd>
      </button>
      <button type="button" className="btn bare" onClick={onClose}>Close<kbd>esc</kbd></button>
      {known !== undefined && (
        <p className="label">Makes version {(known.latestVersion ?? 0) + 1} of {shown(known.name)}, with its items and this one.</p>
      )}
      {fault !== null && <p className="error" role="alert">! The corrected output cannot be promoted. {shown(fault)}</p>}
      {fault === null && correction !== null && <p className="label">With the expected output as corrected above.</p>}
      <NotSaved write={promotion} />
    </form>
  );
}
