"""A run folder as a source: its journal is read on from where it was, while the run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dokimos._core.provenance import Provenance
from dokimos._core.results import RunStatus
from dokimos._runtime.file_lock import is_locked
from dokimos.client._bodies import Escapes, encode_item, evaluator_bodies, run_body
from dokimos.client._push import describe_status
from dokimos.client._run_start import describe_opening, format_utc
from dokimos.experiment._item_index import Position
from dokimos.experiment._item_loading import ItemLoader
from dokimos.experiment._run_journal import JOURNAL_FILE
from dokimos.experiment._run_loading import check_manifest, read_evaluators, read_provenance
from dokimos.experiment._run_manifest import MANIFEST_FILE
from dokimos.experiment._stored_run import StoredRun
from dokimos.reporting._reported_run import ReportedStatus, RunStart
from dokimos.server._view.read_marks import ReadMark
from dokimos.server._view.run_sources import MOST_BYTES, MOST_ITEMS, Batch, Ending


class FolderRun:
    """A run folder: its journal is read on from where it was, and an item is sent once it is whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = str(folder.resolve())
        self.name = folder.name
        self._escapes = Escapes()
        self._stored: StoredRun | None = None
        self._size = -1
        """Of the journal when it was last looked at."""
        self._is_going_on = False
        self._plan: Iterator[Position] = iter(())
        self._waiting: dict[Position, int] = {}
        """Items that were not whole, with where the last line about each began."""
        self._sent: dict[Position, int] = {}
        """The same of those that were sent, as far as a pass would come to them once more."""

    def stamp(self) -> list[int]:
        stamp = []
        for name in (MANIFEST_FILE, JOURNAL_FILE, "lock"):
            try:
                state = (self.folder / name).stat()
            except OSError:
                if name == MANIFEST_FILE:
                    return []
                stamp += [0, 0]
            else:
                stamp += [state.st_size, state.st_mtime_ns]
        return stamp

    def begin(self, mark: ReadMark) -> None:
        size = next(iter(self.stamp()[2:3]), 0)
        has_grown = self._size not in (-1, size)
        self._size = size
        # Asked before the journal is read: a run that ends in between is found to have ended.
        is_held = is_locked(self.folder / "lock")
        if self._stored is None:
            self._stored = StoredRun(self.folder)
            check_manifest(self._stored)
        else:
            self._stored.read_on()
        # Where a file system knows no locks, a journal that grows tells it.
        self._is_going_on = self._stored.outcome is None and (is_held or has_grown)
        self._plan = iter(self._list_unsent(self._stored, mark))

    def _list_unsent(self, stored: StoredRun, mark: ReadMark) -> list[Position]:
        if stored.intact_size <= mark.base and mark.last is None:
            return []
        positions = stored.positions_since(mark.base)
        if mark.last is None:
            mark.end = stored.intact_size
        else:  # this continues with what another process had begun to send
            last, end = (mark.last[0], mark.last[1]), mark.end
            positions = [each for each in positions if each > last or stored.last_offset(each) >= end]
        return [each for each in positions if self._sent.get(each) != stored.last_offset(each)]

    def describe(self, project: str) -> dict[str, Any]:
        return describe_opening(self._start(), project, self._escapes)

    def _start(self) -> RunStart:
        assert self._stored is not None
        manifest = self._stored.manifest
        is_whole = not manifest.get("shard") and not manifest.get("part")
        size = (manifest.get("dataset") or {}).get("size")
        return RunStart(
            run_id=self.folder.name,
            name=manifest.get("name", "unnamed"),
            description=manifest.get("description", ""),
            metadata=manifest.get("metadata") or {},
            repeat_count=manifest.get("runs") or 1,
            planned_items=size if is_whole and isinstance(size, int) else None,
            evaluators=read_evaluators(self._stored),
            provenance=read_provenance(self._stored),
        )

    def take(self) -> Batch | None:
        assert self._stored is not None
        stored = self._stored
        infos = read_evaluators(stored)
        order = {info.name: place for place, info in enumerate(infos)}
        loader = ItemLoader(stored, order)
        needed = None if stored.manifest.get("evaluators") is None else {info.name for info in infos}
        items: list[bytes] = []
        size, last = 0, None
        for position in self._plan:
            last = position
            item = loader.load(position)
            if item is None:
                continue
            scored = {result.evaluator for result in item.eval_results}
            if self._is_going_on and item.error is None and not self._is_whole(position, scored, needed):
                continue
            self._waiting.pop(position, None)
            if self._is_going_on:
                self._sent[position] = stored.last_offset(position)
            items.append(encode_item(item, position[0], self._escapes, has_tracebacks=True))
            size += len(items[-1])
            if len(items) == MOST_ITEMS or size >= MOST_BYTES:
                break
        if last is None:
            return None
        return Batch(items, None if self._waiting else list(last))

    def _is_whole(self, position: Position, scored: set[str], needed: set[str] | None) -> bool:
        """Say whether an item has all of its results; one that has not is waited for.

        Where examples have evaluators of their own, nobody knows how many: such an item is whole when nothing
        has come since it was last looked at, and is sent once more when something comes.
        """
        assert self._stored is not None
        offset = self._stored.last_offset(position)
        if needed <= scored if needed is not None else self._waiting.get(position) == offset:
            return True
        self._waiting[position] = offset
        return False

    def finish(self, mark: ReadMark) -> Ending | None:
        assert self._stored is not None
        if mark.end:
            mark.base = min([mark.end, *self._waiting.values()])
        mark.end, mark.last = 0, None
        self._sent = {each: offset for each, offset in self._sent.items() if offset >= mark.base}
        if self._is_going_on:
            return None
        start = self._start()
        return Ending(
            status=self._describe_status(self._stored.outcome),
            completed_at=self._end_time(start.provenance),
            evaluators=evaluator_bodies(start.evaluators, self._escapes),
            body=run_body(start, self._escapes),
        )

    def _describe_status(self, outcome: dict[str, Any] | None) -> ReportedStatus:
        return describe_status(RunStatus.INTERRUPTED if outcome is None else RunStatus(outcome["status"]))

    def _end_time(self, provenance: Provenance) -> str | None:
        if provenance.ended_at is not None:
            return format_utc(provenance.ended_at)
        try:
            seconds = (self.folder / JOURNAL_FILE).stat().st_mtime
        except OSError:
            return None
        return format_utc(datetime.fromtimestamp(seconds, UTC).isoformat())

    def close(self) -> None:
        if self._stored is not None:
            self._stored.close()
            self._stored = None
        self._waiting, self._sent, self._size = {}, {}, -1
