/** The items of a run as a file that the server writes: those of the list, or all. */
import { apiPath } from "../api/client";
import type { RunSearch } from "../router";
import { exportFilter } from "../lib/item-export";
import { plural } from "../lib/format";
import { Menu } from "./menu";

const FORMATS = ["csv", "jsonl", "json"] as const;

interface Props {
  readonly runId: string;
  readonly search: RunSearch;
  /** How many items the list has, and how many the run has. */
  readonly listed: number;
  readonly all: number;
}

export function ItemExport({ runId, search, listed, all }: Props) {
  const filter = exportFilter(search);
  const isFiltered = Object.keys(filter).length > 0;
  const address = (query: object, format: string) => apiPath(`/runs/${runId}/items/export`, { ...query, format });
  const choices = [
    ...(isFiltered && listed > 0 ? [{ what: `The ${plural(listed, "item")} of the list`, query: filter, file: "filtered" }] : []),
    { what: `All ${plural(all, "item")}`, query: {}, file: "all" },
  ];
  return (
    <Menu title="Export">
      {choices.map(({ what, query, file }) => (
        <p key={what} className="export" role="group" aria-label={what}>
          <span className="label">{what}</span>
          {FORMATS.map((format) => (
            <a key={format} className="link" href={address(query, format)} download={`run-${runId}-${file}.${format}`}>{format.toUpperCase()}</a>
          ))}
        </p>
      ))}
      <p className="label">in the order of the dataset</p>
    </Menu>
  );
}
