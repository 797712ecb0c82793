"""Where a journal says something about each item, in arrays: 45 bytes an item, also for a million of them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from typing import Final, TypeAlias

Position: TypeAlias = tuple[int, int]
"""Repeat and item index, both 0-based."""

_HASH: Final = re.compile("[0-9a-f]{16}")
_PAGE: Final = 256
"""Items whose entries lie together: a shard, or a damaged index, needs no room for all items before it."""
_NONE: Final = -1


class _Page:
    """The entries of neighbouring items."""

    __slots__ = ("hashes", "items", "results")

    def __init__(self) -> None:
        self.items = array("q", [_NONE]) * _PAGE
        """Offsets of the lines with what the task returned."""
        self.hashes = array("Q", [0]) * _PAGE
        """Content hashes of the examples."""
        self.results = array("q", [_NONE]) * _PAGE
        """The number of the last line with results."""


class ItemIndex:
    """The offsets of the lines about each item, and the content hash of its example."""

    def __init__(self) -> None:
        self._pages: dict[Position, _Page] = {}
        self._result_offsets = array("q")
        self._earlier_results = array("q")
        """The number of the line with results of the same item before each, as in a linked list."""
        self._unusual_hashes: dict[Position, str] = {}

    def __contains__(self, position: object) -> bool:
        return isinstance(position, tuple) and self.item_offset(position) is not None

    def __iter__(self) -> Iterator[Position]:
        """Iterate over the items whose task has returned, in order."""
        for run_index, number in sorted(self._pages):
            first = number * _PAGE
            for place, offset in enumerate(self._pages[run_index, number].items):
                if offset != _NONE:
                    yield run_index, first + place

    @property
    def repeats(self) -> list[int]:
        """The repeats that have lines about items, in order."""
        return sorted({run_index for run_index, _ in self._pages})

    def add_item(self, position: Position, offset: int, example_hash: str) -> None:
        """Take down the line about an item's task: results of earlier outputs do not count any more."""
        page, place = self._page_of(position), position[1] % _PAGE
        page.items[place] = offset
        page.results[place] = _NONE
        self._unusual_hashes.pop(position, None)
        is_usual = _HASH.fullmatch(example_hash) is not None
        page.hashes[place] = int(example_hash, 16) if is_usual else 0
        if not is_usual:  # of another tool
            self._unusual_hashes[position] = example_hash

    def add_results(self, position: Position, offset: int) -> None:
        """Take down a line with results for an item."""
        page, place = self._page_of(position), position[1] % _PAGE
        self._earlier_results.append(page.results[place])
        page.results[place] = len(self._result_offsets)
        self._result_offsets.append(offset)

    def item_offset(self, position: Position) -> int | None:
        """Return where the line about an item's task begins, None if it has not returned."""
        page = self._pages.get((position[0], position[1] // _PAGE))
        offset = _NONE if page is None else page.items[position[1] % _PAGE]
        return None if offset == _NONE else offset

    def item_offsets(self) -> array[int]:
        """Return where the lines about the tasks of all items begin, in the order of the journal."""
        pages = self._pages.values()
        return array("q", sorted(offset for page in pages for offset in page.items if offset != _NONE))

    def result_offsets(self, position: Position) -> list[int]:
        """Return where the lines with an item's results begin, the first line first."""
        page = self._pages.get((position[0], position[1] // _PAGE))
        number = _NONE if page is None else page.results[position[1] % _PAGE]
        offsets = []
        while number != _NONE:
            offsets.append(self._result_offsets[number])
            number = self._earlier_results[number]
        offsets.reverse()
        return offsets

    def last_offset(self, position: Position) -> int:
        """Return where the last line about an item begins."""
        page, place = self._pages[position[0], position[1] // _PAGE], position[1] % _PAGE
        number = page.results[place]
        return page.items[place] if number == _NONE else self._result_offsets[number]

    def hash_of(self, position: Position) -> str:
        """Return the content hash of an item's example."""
        page = self._pages[position[0], position[1] // _PAGE]
        unusual = self._unusual_hashes.get(position)
        return unusual if unusual is not None else f"{page.hashes[position[1] % _PAGE]:016x}"

    def _page_of(self, position: Position) -> _Page:
        key = (position[0], position[1] // _PAGE)
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = _Page()
        return page
