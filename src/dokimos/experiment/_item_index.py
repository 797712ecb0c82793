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
        return self.positions_from(0)

    def positions_from(self, start: int) -> Iterator[Position]:
        """Iterate over those of them whose index is not below `start`, in order."""
        for run_index, number in sorted(self._pages):
            first = number * _PAGE
            if first + _PAGE <= start:
                continue
            for index, offset in enumerate(self._pages[run_index, number].items, first):
                if offset != _NONE and index >= start:
                    yield run_index, index

    @property
    def repeats(self) -> list[int]:
        """The repeats that have lines about items, in order."""
        return sorted({run_index for run_index, _ in self._pages})

    def add_item(self, position: Position, offset: int, example_hash: str) -> None:
        """Take down the line about an item's task: results of earlier outputs do not count any more."""
        is_usual = _HASH.fullmatch(example_hash) is not None
        self.add_usual_item(position, offset, int(example_hash, 16) if is_usual else 0)
        if not is_usual:  # of another tool
            self._unusual_hashes[position] = example_hash

    def add_new_item(self, position: Position, offset: int, example_hash: int) -> bool:
        """Take down the line about an item's task as `add_usual_item` does, if it is the first about it."""
        page, place = self._page_of(position), position[1] % _PAGE
        if page.items[place] != _NONE:
            return False
        page.items[place] = offset
        page.results[place] = _NONE
        page.hashes[place] = example_hash
        return True

    def add_usual_item(self, position: Position, offset: int, example_hash: int) -> None:
        """Take down the line about an item's task, with a hash as content hashes are, read as a number."""
        page, place = self._page_of(position), position[1] % _PAGE
        page.items[place] = offset
        page.results[place] = _NONE
        page.hashes[place] = example_hash
        if self._unusual_hashes:
            self._unusual_hashes.pop(position, None)

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

    def offsets_of(self, position: Position, example_hash: int | None = None) -> tuple[int, list[int]] | None:
        """Return where the lines about an item begin: that of its task, and those with its results.

        None where its task has not returned, or returned for an example with another hash than the given one.
        """
        page, place = self._pages.get((position[0], position[1] // _PAGE)), position[1] % _PAGE
        if page is None or page.items[place] == _NONE:
            return None
        if example_hash is not None:
            is_unusual = bool(self._unusual_hashes) and position in self._unusual_hashes
            if is_unusual or page.hashes[place] != example_hash:
                return None
        number = page.results[place]
        if number != _NONE and self._earlier_results[number] == _NONE:  # one line, as most items have
            return page.items[place], [self._result_offsets[number]]
        return page.items[place], self.result_offsets(position)

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

    def hash_number(self, position: Position) -> int | None:
        """Return the content hash of an item's example as a number, -1 where it is of another kind.

        None for an item whose task has not returned.
        """
        page, place = self._pages.get((position[0], position[1] // _PAGE)), position[1] % _PAGE
        if page is None or page.items[place] == _NONE:
            return None
        if self._unusual_hashes and position in self._unusual_hashes:
            return -1
        return page.hashes[place]

    def _page_of(self, position: Position) -> _Page:
        key = (position[0], position[1] // _PAGE)
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = _Page()
        return page
