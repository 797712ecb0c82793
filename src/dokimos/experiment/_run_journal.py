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
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from dokimos._core.error_detail import ErrorDetail
from dokimos._core.jsonable import compact_json, jsonable, map_json, wire_json, wire_writer
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult
from dokimos.errors import ReporterError
from dokimos.experiment._item_index import Position
from dokimos.experiment._journal_lines import with_checksum
from dokimos.experiment._result_json import ResultJson
from dokimos.experiment._run_lock import RunLock

JOURNAL_FILE: Final = "journal.jsonl"
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
        scores = self._write_result.join(results)
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
        with self._mutex:
            if self._closed:
                return
            self._sync()
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
