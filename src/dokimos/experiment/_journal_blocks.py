"""Many lines of the journal at once: what `_journal_lines` reads of each, in a third of the time.

All of it falls back on that: what a line says is decided there.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, Final, TypeAlias

from dokimos._core.json_parsing import parse_json
from dokimos._core.metrics import CallMetrics
from dokimos._core.wire import from_json
from dokimos.experiment import _journal_lines as single
from dokimos.experiment._item_index import Offsets

Cost: TypeAlias = float | CallMetrics | None
"""What a task cost; a latency alone as a number."""

_TAIL: Final = len(b',"c":"01234567"}')
_LONGEST_HEAD: Final = 80
_HEAD: Final = re.compile(b"\n" + single.HEAD.pattern)


def read_heads(lines: Sequence[bytes]) -> list[tuple[int, int, int | None]] | None:
    """Return what `read_head` does of each line, which come without their ends; None unless all have one."""
    checksums = tuple(map(zlib.crc32, [line[:-_TAIL] for line in lines]))
    if b"".join([line[-_TAIL:] for line in lines]) != b',"c":"%08x"}' * len(lines) % checksums:
        return None
    # No line has a line feed inside, so that each head is found at the beginning of its line.
    heads = _HEAD.findall(b"\n" + b"\n".join([line[:_LONGEST_HEAD] for line in lines]))
    if len(heads) != len(lines):
        return None
    return [(int(run), int(index), int(digest, 16) if digest else None) for _, run, index, digest in heads]


@dataclass(frozen=True, slots=True)
class ItemLines:
    """A piece of a journal with the lines about some items."""

    text: bytes
    start: int
    """Where in the journal it begins."""
    offsets: Offsets

    def results(self, count: int) -> list[bytes]:
        """Return the JSON of the results of the first so many items, as `join_results` does."""
        if self.offsets.counts is None:
            return self._cut_results(self.offsets.results[:count])
        texts = iter(self._cut_results(self.offsets.results))
        return [b"\n".join(islice(texts, lines)) for lines in self.offsets.counts[:count]]

    def _cut_results(self, offsets: Iterable[int]) -> list[bytes]:
        """Return what `cut_results` does of each line."""
        text, start = self.text, self.start
        places = [offset - start for offset in offsets]
        ends = [text.index(b"\n", place) for place in places]
        begins = [text.find(single.RESULTS, place, end) for place, end in zip(places, ends, strict=True)]
        if -1 in begins or not all([text.startswith(single.CHECK, end - _TAIL) for end in ends]):
            each = [text[place : end + 1] for place, end in zip(places, ends, strict=True)]
            return list(map(single.cut_results, each))
        skipped = len(single.RESULTS)
        return [text[begin + skipped : end - _TAIL] for begin, end in zip(begins, ends, strict=True)]

    def costs(self) -> list[Cost]:
        """Return what `read_cost` does of the first lines, up to one that it does not read."""
        text, start = self.text, self.start
        places = [offset - start for offset in self.offsets.items]
        ends = [text.index(b"\n", place) for place in places]
        # For an error that any line of the piece may have, one search takes half as long as `in` does.
        if single.ERROR.search(text) is None and all([text.startswith(single.ITEM, p) for p in places]):
            metrics = map(text.rfind, repeat(single.METRICS), places, ends)
            tails = [text[place : end + 1] for place, end in zip(metrics, ends, strict=True) if place >= 0]
            costs = single.END_OF_ITEM.findall(b"".join(tails))
            # A line feed ends each match and each tail, so that there are as many only if all do match.
            if len(costs) == len(places):
                with contextlib.suppress(*single.UNUSUAL):
                    return [float(latency) if latency else _read_metrics(tree) for latency, tree in costs]
        return self._read_each(places, ends)

    def _read_each(self, places: Iterable[int], ends: Iterable[int]) -> list[Cost]:
        costs: list[Cost] = []
        try:
            for place, end in zip(places, ends, strict=True):
                costs.append(single.read_cost(self.text[place : end + 1]))
        except single.UNUSUAL:
            pass  # it has to be looked at as a whole, and the lines before it are read
        return costs

    def outputs(self, places: Iterable[int]) -> list[dict[str, Any]]:
        """Return what `read_outputs` does of some of the lines, up to one that it does not read."""
        text, found = self.text, []
        try:
            for offset in [self.offsets.items[place] - self.start for place in places]:
                found.append(single.read_outputs(text[offset : text.index(b"\n", offset) + 1]))
        except single.UNUSUAL:
            pass
        return found


def _read_metrics(tree: bytes) -> CallMetrics:
    return from_json(CallMetrics, parse_json(tree))
