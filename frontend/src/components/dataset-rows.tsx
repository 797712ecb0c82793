/** The items of a version, of which only those in sight are read and shown. */
import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useRef } from "react";
import { type DatasetItem, ITEMS_IN_BLOCK, datasetItemsQuery } from "../api/datasets";
import { type Pending, nameOfItem, sayValues } from "../lib/datasets";
import { count, cut, plural, shown } from "../lib/format";
import { LIST_KEYS, stepOf, useKeyHelp } from "../lib/keys";
import { Failure, Loading, State } from "./bits";

const ROW = 58;

interface Props {
  readonly name: string;
  readonly version: number;
  readonly search: string;
  readonly pending: Pending;
  readonly onOpen: (item: DatasetItem) => void;
}

export function DatasetRows({ name, version, search, pending, onOpen }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const start = useQuery(datasetItemsQuery(name, version, search, 0));
  const total = start.data?.totalElements ?? 0;
  const list = useVirtualizer({ count: total, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 8 });
  const rows = list.getVirtualItems();
  const first = Math.floor((rows[0]?.index ?? 0) / ITEMS_IN_BLOCK);
  const last = Math.floor((rows.at(-1)?.index ?? 0) / ITEMS_IN_BLOCK);
  // Rows in sight reach into two blocks at most.
  const upper = useQuery(datasetItemsQuery(name, version, search, first));
  const lower = useQuery(datasetItemsQuery(name, version, search, last));
  const find = (index: number): DatasetItem | undefined => {
    const block = Math.floor(index / ITEMS_IN_BLOCK);
    const page = [upper, lower].find((one) => one.data?.number === block && !one.isPlaceholderData);
    return page?.data?.content[index % ITEMS_IN_BLOCK];
  };
  useKeyHelp("In the list of items", LIST_KEYS);
  const move = (event: KeyboardEvent) => {
    const step = stepOf(event);
    if (step === 0) return;
    event.preventDefault();
    const now = Number((event.target as HTMLElement).dataset["index"] ?? -1);
    const next = Math.min(total - 1, Math.max(0, now + step));
    list.scrollToIndex(next);
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus());
  };
  if (start.isLoadingError) return <Failure error={start.error} retry={() => void start.refetch()} />;
  if (start.isPending) return <Loading />;
  if (total === 0) {
    return <div className="panel"><State title={search === "" ? "This version is empty" : "No item is found"}><p>{search === "" ? "Add items, or upload a file." : "Another search may find some."}</p></State></div>;
  }
  return (
    <div className="panel">
      <div className="rows" ref={box} onKeyDown={move}>
        <div style={{ height: list.getTotalSize() }}>
          {rows.map((row) => {
            const item = find(row.index);
            return (
              <button
                key={row.key}
                type="button"
                data-index={row.index}
                className="row case"
                style={{ transform: `translateY(${row.start}px)` }}
                disabled={item === undefined}
                onClick={() => item !== undefined && onOpen(item)}
              >
                {item === undefined ? <span className="muted">…</span> : <Case item={item} op={pending.get(item.lineageId)?.op} />}
              </button>
            );
          })}
        </div>
      </div>
      <div className="foot-row"><span>{search === "" ? plural(total, "item") : `${count(total)} found`}</span></div>
    </div>
  );
}

function Case({ item, op }: { item: DatasetItem; op: string | undefined }) {
  return (
    <>
      <span className="mono muted cut">{shown(nameOfItem(item))}</span>
      <span>
        <span className="cut" dir="auto">{shown(cut(sayValues(item.inputs), 240))}</span>
        <span className="cut muted" dir="auto">{item.expectedOutputs === null ? "nothing expected" : shown(cut(sayValues(item.expectedOutputs), 240))}</span>
      </span>
      {op !== undefined && <span className="tag">{op === "remove" ? "to be removed" : "changed"}</span>}
    </>
  );
}
