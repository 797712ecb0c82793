"""The journal of a run on disk, the checkpoint to resume from: written as it goes, so that nothing is lost.

A run folder holds

    run.json        what the run is: name, data set, task, evaluators, how it was started
    journal.jsonl   one line per thing that happened, only ever appended to
    lock            held by the process that is working on the run

A line of the journal is an object whose "t" says what it is:

    item   r(un) i(ndex) h(ash of the example) x (the example, in the first repeat only),
           o(utputs) m(etrics) or e(rror), its k(ind) and d(etail): the task has returned
    eval   r i v: results of evaluators for that item
    void   names: what these evaluators found before is void, as they were configured anew ("" for all)
    keep   n(ame of a reporter) k(ey) v(alue): what a reporter keeps with the run
    server r and the ids of the runs on servers that this repeat is sent to
    pass   r and what was seen of the data set: a repeat has ended
    done   the status and provenance: the run has ended

Each ends with "c", a checksum of what comes before it. A damaged line is ignored and reported; a resumed run
repeats what it recorded.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from dokimos._core.error_detail import ErrorDetail
from dokimos._core.json_parsing import parse_json
from dokimos._core.jsonable import compact_json, jsonable, map_json, wire_json, wire_writer
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult
from dokimos._core.wire import from_json
from dokimos.errors import JournalError, ReporterError
from dokimos.experiment._item_index import ItemIndex, Position
from dokimos.experiment._journal_lines import ReporterRecords, read_head, read_record, with_checksum
from dokimos.experiment._result_json import ResultJson
from dokimos.experiment._run_lock import RunLock
from dokimos.experiment._run_manifest import read_manifest
from dokimos.experiment._stored_item import StoredItem, read_results

JOURNAL_FILE: Final = "journal.jsonl"
MOST_LINES_NAMED: Final = 5
SYNC_SECONDS: Final = 0.05
"""At most so much of the journal is lost with the power; a killed process loses no output and no reply."""

_write_metrics: Final = wire_writer(CallMetrics)
_NEVER_SYNCED: Final = (errno.EINVAL, errno.ENOTSUP)
"""What fsync says of files that cannot be synced at all, such as those of some mounted file systems."""


class Journal:
    """The writer. Each record is handed to the operating system at once and synced to disk within 50 ms."""

    def __init__(self, folder: Path, lock: RunLock) -> None:
        self.folder = folder
        self.problem: str | None = None
        self._lock = lock
        self._closed = False
        # Windows would write "\r\n" without O_BINARY, and offsets and checksums would be wrong.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._file = os.open(folder / JOURNAL_FILE, flags, 0o644)
        self._mutex = threading.Lock()
        self._write_result = ResultJson()
        self._held = b""
        """Lines that wait to be written with the next one."""
        self._dirty = threading.Event()
        self._closing = threading.Event()
        self._syncer = threading.Thread(target=self._sync_loop, name="dokimos-journal", daemon=True)
        self._syncer.start()

    @property
    def run_id(self) -> str:
        return self.folder.name

    def write_item(
        self,
        position: Position,
        *,
        example_hash: str,
        example_json: str | None,
        outputs: Mapping[str, Any] | None = None,
        metrics: CallMetrics | None = None,
        error: str | None = None,
        kind: str | None = None,
        detail: ErrorDetail | None = None,
    ) -> None:
        """Record that the task has returned for an item."""
        example = "" if example_json is None else f',"x":{example_json}'
        output = f',"o":{map_json(outputs)}' if error is None or outputs else ""
        line = f'{{"t":"item","r":{position[0]},"i":{position[1]},"h":"{example_hash}"{example}{output}'
        if error is not None:
            line += f',"e":{compact_json(jsonable(error))}'
        if kind is not None:
            line += f',"k":{compact_json(kind)}'
        if detail is not None:
            line += f',"d":{wire_json(detail)}'
        if metrics is not None:
            line += f',"m":{_write_metrics(metrics)}'
        self._write(line)

    def write_results(
        self, position: Position, results: tuple[EvalResult, ...], *, is_held: bool = False
    ) -> None:
        """Record what evaluators found for an item.

        `is_held`, for results that a resumed run computes at once, lets it wait for the next record or sync.
        """
        scores = ",".join(map(self._write_result, results))
        self._write(f'{{"t":"eval","r":{position[0]},"i":{position[1]},"v":[{scores}]', is_held=is_held)

    def write_repeat_end(
        self, run_index: int, *, seen: int, fingerprint: str | None, duplicate_ids: int
    ) -> None:
        """Record that a repeat has gone through the whole data set of `seen` items."""
        counts = {"seen": seen, "fingerprint": fingerprint, "duplicates": duplicate_ids}
        self._write_object({"t": "pass", "r": run_index, **counts})

    def write_kept(self, reporter: str, key: str, value_json: str) -> None:
        """Record what a reporter keeps; on disk when this returns. Raises `ReporterError` after the run."""
        self._write(f'{{"t":"keep","n":{json.dumps(reporter)},"k":{json.dumps(key)},"v":{value_json}')
        with self._mutex:  # which `close` needs before it gives the descriptor back
            if self._closed:
                raise ReporterError("The run has ended, so a reporter cannot keep anything with it any more.")
            self._sync()

    def write_server_runs(self, run_index: int, ids: Iterable[str]) -> None:
        """Record which runs on servers a repeat is sent to."""
        self._write_object({"t": "server", "r": run_index, "ids": list(ids)})

    def write_void(self, names: Iterable[str]) -> None:
        """Record that earlier results of some evaluators no longer count; on disk when this returns."""
        self._write_object({"t": "void", "names": sorted(names)})
        self._sync()

    def close(self, **outcome: object) -> None:
        """Record how the run ended, sync the file and release the run's lock."""
        self._write_object({"t": "done", **jsonable(outcome)})
        self._closing.set()
        self._dirty.set()
        self._syncer.join()
        self._sync()
        with self._mutex:
            # A call left behind may still want to write, when the descriptor is another file's.
            self._closed = True
            with contextlib.suppress(OSError):
                os.close(self._file)
        self._lock.release()

    def _write_object(self, record: Mapping[str, Any]) -> None:
        self._write(compact_json(record)[:-1])

    def _write(self, content: str, *, is_held: bool = False) -> None:
        """Write an object that lacks its closing brace."""
        # Models and files give lone surrogates, which UTF-8 cannot hold: an output is never lost for that.
        line = with_checksum(content.encode("utf-8", "backslashreplace"))
        with self._mutex:
            self._held += line
            if not is_held:
                self._write_held()
        # Asked first, since `set` takes a lock each time, and this runs for each line.
        if not self._dirty.is_set():
            self._dirty.set()

    def _write_held(self) -> None:
        data, self._held = self._held, b""
        if not data or self._closed or self.problem is not None:
            return
        try:
            written = os.write(self._file, data)
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            self._give_up(error)

    def _sync_loop(self) -> None:
        while not self._closing.is_set():
            self._dirty.wait()
            self._closing.wait(SYNC_SECONDS)
            self._dirty.clear()  # before the sync, so that what is written meanwhile gets another one
            with self._mutex:
                self._write_held()
            self._sync()

    def _sync(self) -> None:
        try:
            os.fsync(self._file)
        except OSError as error:
            if error.errno not in _NEVER_SYNCED:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.problem = f"The journal in {self.folder} can no longer be written: {error}."


class StoredRun:
    """The reader: an index of line offsets, so that a long journal is never in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        self.seen: dict[int, dict[str, Any]] = {}
        """What ended repeats saw of the data set, by repeat."""
        self.outcome: dict[str, Any] | None = None
        """How the run ended, None if it did not."""
        self.reporters = ReporterRecords()
        self.unreadable_lines: list[int] = []
        self.intact_size = 0
        """Bytes up to the end of the last whole line."""
        self._index = ItemIndex()
        self._void: dict[str, int] = {}
        """Up to where in the journal the results of an evaluator are void."""
        self._lines = 0
        self._path = folder / JOURNAL_FILE
        self._file: BinaryIO | None = None
        self._latest: tuple[int, dict[str, Any] | None] = (-1, None)
        """The example in the line that was read last, and where that begins: it is asked for next."""
        self.read_on()

    def __contains__(self, position: object) -> bool:
        return position in self._index

    @property
    def positions(self) -> Iterator[Position]:
        """The items whose task has returned, in order, without those that a forced resume has dropped."""
        ends: dict[int, float] = {}
        for run_index, index in self._index:
            end = ends.get(run_index)
            if end is None:
                end = ends[run_index] = self._end_of(run_index)
            if index < end:
                yield run_index, index

    def _end_of(self, run_index: int) -> float:
        """Return up to which index the items of a repeat count, 0 for a repeat that does not count."""
        if run_index >= (self.manifest.get("runs") or math.inf):
            return 0
        size = (self.manifest.get("dataset") or {}).get("size")
        end: float = self.seen.get(run_index, {}).get("seen", math.inf) if size is None else size
        return end

    def read_on(self) -> None:
        """Read what has been appended to the journal since, by a run that goes on."""
        if self._path.exists():
            self._scan()
            self._file = self._file or self._path.open("rb")

    def positions_since(self, offset: int) -> list[Position]:
        """Return the items that lines from this place of the journal on say something about, in order."""
        if any(place >= offset for place in self._void.values()):
            offset = 0  # what they void is anywhere before
        return [position for position in self.positions if self.last_offset(position) >= offset]

    def last_offset(self, position: Position) -> int:
        """Return where in the journal the last line about an item begins."""
        return self._index.last_offset(position)

    def item(self, position: Position) -> StoredItem | None:
        """Return what was recorded about an item, None if its task had not returned."""
        offset = self._index.item_offset(position)
        if offset is None:
            return None
        record = self._record(offset)
        self._latest = (offset, record.get("x"))
        lines = ((place, self._record(place)["v"]) for place in self._index.result_offsets(position))
        return StoredItem.of(record, read_results(lines, self._void))

    def example(self, position: Position) -> dict[str, Any] | None:
        """Return the wire form of an item's example, None if its line is damaged.

        Only the first repeat records the example, unless the data set is a stream.
        """
        for candidate in (position, (0, position[1])):
            offset = self._index.item_offset(candidate)
            example = None if offset is None else self._example_at(offset)
            if example is not None:
                return dict(example)
        return None

    def warnings(self) -> list[str]:
        """Return a warning that names the lines that could not be read."""
        if not self.unreadable_lines:
            return []
        lines = ", ".join(map(str, self.unreadable_lines[:MOST_LINES_NAMED]))
        more = len(self.unreadable_lines) - MOST_LINES_NAMED
        rest = f" and {more} more" if more > 0 else ""
        return [f"Lines of the journal that could not be read were ignored: {lines}{rest}."]

    def metrics(self) -> Iterator[CallMetrics]:
        """Return what the calls of the task have cost, of every item for which that is known."""
        for offset in self._index.item_offsets():
            metrics = self._record(offset).get("m")
            if metrics is not None:
                yield from_json(CallMetrics, metrics)

    def first_hashes(self) -> Callable[[int], str | None]:
        """Return a function that tells the content hash of an item in the first repeat that has it."""
        repeats = [(run_index, self._end_of(run_index)) for run_index in self._index.repeats]

        def find(index: int) -> str | None:
            for run_index, end in repeats:
                if index < end and (run_index, index) in self._index:
                    return self._index.hash_of((run_index, index))
            return None

        return find

    def hash_of(self, position: Position) -> str:
        """Return the content hash of an item's example."""
        return self._index.hash_of(position)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _scan(self) -> None:
        offset = self.intact_size
        with self._path.open("rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # cut short by a kill, or half written: the record does not count yet
                self._lines += 1
                self._index_record(self._lines, offset, line)
                offset += len(line)
        self.intact_size = offset

    def _index_record(self, number: int, offset: int, line: bytes) -> None:
        head = read_head(line)
        if head is not None:
            self._index_item(head, offset, line)
            return
        record = read_record(line)
        if record is None:
            self.unreadable_lines.append(number)
            return
        match record["t"]:
            case "item":
                self._index_item(((record["r"], record["i"]), str(record["h"])), offset, line)
            case "eval":
                self._index_item(((record["r"], record["i"]), None), offset, line)
            case "void":
                self.outcome = None  # the run was taken up again
                self._void |= dict.fromkeys(record["names"], offset)
            case "keep" | "server":
                self.reporters.add(record)
            case "pass":
                self.seen[record["r"]] = record
            case "done":
                self.outcome = record

    def _index_item(self, head: tuple[Position, str | None], offset: int, line: bytes) -> None:
        self.outcome = None  # the run was taken up again
        position, example_hash = head
        if example_hash is None:
            self._index.add_results(position, offset)
            return
        earlier = self._index.item_offset(position)
        if earlier is None or self._line_at(earlier) != line:
            # A task that ran again has new outputs, so what evaluators said of the old ones is void. Of the
            # same line twice, what was said still holds.
            self._index.add_item(position, offset, example_hash)

    def _line_at(self, offset: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.readline()

    def _record(self, offset: int) -> dict[str, Any]:
        if self._file is None:
            raise JournalError(f"{self._path} is missing.")
        self._file.seek(offset)
        record: dict[str, Any] = parse_json(self._file.readline())
        return record

    def _example_at(self, offset: int) -> dict[str, Any] | None:
        (place, example), self._latest = self._latest, (-1, None)
        return example if place == offset else self._record(offset).get("x")


def truncate_torn_line(folder: Path, intact_size: int) -> None:
    """Truncate a last line that a killed process left incomplete, so that the next record starts a line."""
    path = folder / JOURNAL_FILE
    if path.exists() and path.stat().st_size > intact_size:
        with path.open("r+b") as file:
            file.truncate(intact_size)
