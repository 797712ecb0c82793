"""A run as its folder has it: an index of its journal, and what that says about an item."""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Final

from dokimos._core.json_parsing import parse_json
from dokimos._core.metrics import CallMetrics
from dokimos._core.wire import from_json
from dokimos.errors import JournalError
from dokimos.experiment._item_index import FirstHashes, ItemIndex, Position
from dokimos.experiment._journal_blocks import ItemLines, read_heads
from dokimos.experiment._journal_lines import ReporterRecords, read_head, read_record
from dokimos.experiment._run_journal import JOURNAL_FILE
from dokimos.experiment._run_manifest import read_manifest
from dokimos.experiment._stored_item import StoredItem, read_results

MOST_LINES_NAMED: Final = 5
BLOCK: Final = 64 * 1024
"""How much of a journal is read at once."""
MOST_AT_ONCE: Final = 4 * BLOCK
"""How far apart lines may be that are read together."""


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
        self._place = -1
        """Where in the file the next line is read, -1 where that is not known."""
        self._latest: tuple[int, dict[str, Any] | None] = (-1, None)
        """The example in the line that was read last, and where that begins: it is asked for next."""
        self.read_on()

    def __contains__(self, position: object) -> bool:
        return position in self._index

    @property
    def positions(self) -> Iterator[Position]:
        """The items whose task has returned, in order, without those that a forced resume has dropped."""
        return self.positions_from(0)

    def positions_from(self, start: int) -> Iterator[Position]:
        """Return those of them whose index is not below `start`."""
        ends: dict[int, float] = {}
        for run_index, index in self._index.positions_from(start):
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
            if self._file is None:
                self._file = self._path.open("rb", buffering=BLOCK)
            else:
                # Drops what is buffered: a line that was half written then may have been replaced since.
                self._file.seek(0, os.SEEK_END)
                self._place = -1

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
        offsets = self._index.offsets_of(position)
        if offsets is None:
            return None
        offset, of_results = offsets
        record = self._record(offset)
        self._latest = (offset, record.get("x"))
        lines = [(place, self._record(place)["v"]) for place in of_results]
        return StoredItem.of(record, read_results(lines, self._void))

    def lines_of(self, position: Position, example_hash: int) -> tuple[bytes, list[bytes]] | None:
        """Return the lines of an item's task and of its results, None where it has no results that count.

        Also None where its example has another hash, or what evaluators found was declared void.
        """
        lines = self._lines_at(self._index.offsets_of(position, example_hash))
        return lines if lines is not None and lines[1] else None

    def lines_at(self, position: Position) -> tuple[bytes, list[bytes]] | None:
        """Return the lines of an item's task and of its results.

        None where its task has not returned, or where anything that evaluators found was declared void.
        """
        return self._lines_at(self._index.offsets_of(position))

    def _lines_at(self, offsets: tuple[int, list[int]] | None) -> tuple[bytes, list[bytes]] | None:
        if offsets is None or self._void:
            return None
        offset, of_results = offsets
        return self._read_line(offset), [self._read_line(place) for place in of_results]

    def usual_lines(self, run_index: int, indexes: range, hashes: array[int]) -> ItemLines | None:
        """Return the lines of the first of these items that have the usual ones, each with its hash.

        None where none of them does. They are no more than are worth to be in memory.
        """
        if self._void:
            return None
        while indexes:
            offsets = self._index.usual_offsets(run_index, indexes, hashes)
            if not offsets.items:
                return None
            start = min(min(offsets.items), min(offsets.results))
            last = max(max(offsets.items), max(offsets.results))
            if last - start <= MOST_AT_ONCE:
                return ItemLines(self._read_piece(start, last), start, offsets)
            indexes = indexes[: len(offsets.items) // 2]
        return None

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

    def first_hashes(self) -> FirstHashes:
        """Return the hash of each item in the first repeat that has it."""
        ends = {run_index: self._end_of(run_index) for run_index in self._index.repeats}
        return FirstHashes(self._index, ends)

    def hash_of(self, position: Position) -> str:
        """Return the content hash of an item's example."""
        return self._index.hash_of(position)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _scan(self) -> None:
        with self._path.open("rb", buffering=BLOCK) as file:
            file.seek(self.intact_size)
            while block := file.read(BLOCK):
                block += file.readline()
                *lines, torn_line = block.split(b"\n")
                if lines:
                    self._scan_block(lines)
                if torn_line:
                    # It was cut short by a kill, or is half written and does not count yet. Its rest, which
                    # may come at any time, must not be read as a line of its own.
                    break

    def _scan_block(self, lines: Sequence[bytes]) -> None:
        """Read lines, which come without their ends."""
        heads = read_heads(lines)
        if heads is None:
            self._scan_each(lines)
            return
        # The run was taken up again after the `done` line before them, if there is one.
        self.outcome = None
        offsets = _find_offsets(lines, self.intact_size)
        self._index.add_all(heads, offsets, add_again=self._add_again)
        self._lines += len(lines)
        self.intact_size = offsets[-1] + len(lines[-1]) + 1

    def _scan_each(self, lines: Iterable[bytes]) -> None:
        """Read lines one by one."""
        for content in lines:
            line, offset = content + b"\n", self.intact_size
            self._lines += 1
            self.intact_size += len(line)
            head = read_head(line)
            if head is None:
                self._index_record(self._lines, offset, line)
            else:
                self.outcome = None
                self._index.add_all([head], [offset], add_again=self._add_again)

    def _add_again(self, position: Position, offset: int, example_hash: int) -> None:
        if not self._is_repeated(position, self._line_at(offset)):
            self._index.add_usual_item(position, offset, example_hash)

    def _index_record(self, number: int, offset: int, line: bytes) -> None:
        record = read_record(line)
        if record is None:
            self.unreadable_lines.append(number)
            return
        match record["t"]:
            case "item":
                self.outcome = None
                position = (record["r"], record["i"])
                if not self._is_repeated(position, line):
                    self._index.add_item(position, offset, str(record["h"]))
            case "eval":
                self.outcome = None
                self._index.add_results((record["r"], record["i"]), offset)
            case "void":
                self.outcome = None
                self._void |= dict.fromkeys(record["names"], offset)
            case "keep" | "server":
                self.reporters.add(record)
            case "pass":
                self.seen[record["r"]] = record
            case "done":
                self.outcome = record

    def _is_repeated(self, position: Position, line: bytes) -> bool:
        """Say whether the line about an item's task is there already, so that its results still hold.

        A task that ran again has new outputs, so what evaluators said of the old ones is void.
        """
        earlier = self._index.item_offset(position)
        return earlier is not None and self._line_at(earlier) == line

    def _line_at(self, offset: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.readline()

    def _record(self, offset: int) -> dict[str, Any]:
        record: dict[str, Any] = parse_json(self._read_line(offset))
        return record

    def _read_line(self, offset: int) -> bytes:
        if self._file is None:
            raise JournalError(f"{self._path} is missing.")
        # Not known until the line is read, in case that Ctrl-C comes in between.
        place, self._place = self._place, -1
        if place != offset:  # most lines about an item follow each other
            self._file.seek(offset)
        line = self._file.readline()
        self._place = offset + len(line)
        return line

    def _read_piece(self, start: int, last: int) -> bytes:
        """Return what the journal has from `start` to the end of the line that begins at `last`."""
        if self._file is None:
            raise JournalError(f"{self._path} is missing.")
        place, self._place = self._place, -1
        if place != start:
            self._file.seek(start)
        piece = self._file.read(last - start) + self._file.readline()
        self._place = start + len(piece)
        return piece

    def _example_at(self, offset: int) -> dict[str, Any] | None:
        (place, example), self._latest = self._latest, (-1, None)
        return example if place == offset else self._record(offset).get("x")


def _find_offsets(lines: Sequence[bytes], start: int) -> list[int]:
    """Return where lines begin that come without their ends, the first of them at `start`."""
    sizes = [len(line) + 1 for line in lines[:-1]]
    return list(accumulate(sizes, initial=start))


def truncate_torn_line(folder: Path, intact_size: int) -> None:
    """Truncate a last line that a killed process left incomplete, so that the next record starts a line."""
    path = folder / JOURNAL_FILE
    if path.exists() and path.stat().st_size > intact_size:
        with path.open("r+b") as file:
            file.truncate(intact_size)
