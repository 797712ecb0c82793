"""Where a journal says something about each item, in arrays: 25 bytes an item, also for a million of them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import eq
from typing import Final, NamedTuple, TypeAlias

Position: TypeAlias = tuple[int, int]
"""Repeat and item index, both 0-based."""

_HASH: Final = re.compile("[0-9a-f]{16}")
TOGETHER: Final = 256
"""Items whose entries lie together: a shard, or a damaged index, needs no room for all items before it."""
_NONE: Final = -1
_FIRST_LIST: Final = -2
"""What stands for the list of lines with the number 0, -3 for that with 1 and so on."""


class Offsets(NamedTuple):
    """Where lines about neighbouring items begin, by item."""

    items: array[int]
    """The lines about their tasks."""
    results: array[int]
    """Those with their results, all of an item before those of the next one."""
    counts: Sequence[int] | None = None
    """How many lines with results each item has; None if each has one."""


class _Page:
    """The entries of neighbouring items."""

    __slots__ = ("hashes", "items", "results")

    def __init__(self) -> None:
        self.items = array("q", [_NONE]) * TOGETHER
        """Offsets of the lines with what the task returned."""
        self.hashes = array("Q", [0]) * TOGETHER
        """Content hashes of the examples."""
        self.results = array("q", [_NONE]) * TOGETHER
        """Offsets of the lines with results, of items that have one; else what stands for all or none."""


class ItemIndex:
    """The offsets of the lines about each item, and the content hash of its example."""

    def __init__(self) -> None:
        self._pages: dict[Position, _Page] = {}
        self._listed_offsets = array("q")
        """Offsets of lines with results, of items that have several."""
        self._earlier_lines = array("q")
        """The number of the line of the same item before each, as in a linked list."""
        self._unusual_hashes: dict[Position, str] = {}

    def __contains__(self, position: object) -> bool:
        return isinstance(position, tuple) and self.item_offset(position) is not None

    def __iter__(self) -> Iterator[Position]:
        """Iterate over the items whose task has returned, in order."""
        return self.positions_from(0)

    def positions_from(self, start: int) -> Iterator[Position]:
        """Iterate over those of them whose index is not below `start`, in order."""
        for run_index, number in sorted(self._pages):
            first = number * TOGETHER
            if first + TOGETHER <= start:
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
        page, place = self._page_of(position), position[1] % TOGETHER
        if page.items[place] != _NONE:
            return False
        page.items[place] = offset
        page.results[place] = _NONE
        page.hashes[place] = example_hash
        return True

    def add_usual_item(self, position: Position, offset: int, example_hash: int) -> None:
        """Take down the line about an item's task, with a hash as content hashes are, read as a number."""
        page, place = self._page_of(position), position[1] % TOGETHER
        page.items[place] = offset
        page.results[place] = _NONE
        page.hashes[place] = example_hash
        if self._unusual_hashes:
            self._unusual_hashes.pop(position, None)

    def add_results(self, position: Position, offset: int) -> None:
        """Take down a line with results for an item."""
        page, place = self._page_of(position), position[1] % TOGETHER
        known = page.results[place]
        page.results[place] = offset if known == _NONE else self._add_to_list(known, offset)

    def add_all(
        self,
        heads: Iterable[tuple[int, int, int | None]],
        offsets: Iterable[int],
        *,
        add_again: Callable[[Position, int, int], None],
    ) -> None:
        """Take down several lines as the methods for each do.

        Args:
            heads: Repeat, item index and, of lines about tasks, the content hash of the example.
            offsets: Where each line begins.
            add_again: Called with position, offset and hash for an item that has such a line already.
        """
        known_run, known_number, page = _NONE, _NONE, _Page()
        for (run_index, index, example_hash), offset in zip(heads, offsets, strict=True):
            number, place = index // TOGETHER, index % TOGETHER
            if number != known_number or run_index != known_run:
                known_run, known_number, page = run_index, number, self._page_of((run_index, index))
            if example_hash is None:
                known = page.results[place]
                page.results[place] = offset if known == _NONE else self._add_to_list(known, offset)
            elif page.items[place] == _NONE:
                page.items[place] = offset
                page.results[place] = _NONE
                page.hashes[place] = example_hash
            else:
                add_again((run_index, index), offset, example_hash)

    def _add_to_list(self, known: int, offset: int) -> int:
        """Add a line to the ones that an item has, and return what stands for all of them."""
        if known >= 0:  # it had one
            self._earlier_lines.append(_NONE)
            self._listed_offsets.append(known)
            known = _FIRST_LIST + 1 - len(self._listed_offsets)
        self._earlier_lines.append(_FIRST_LIST - known)
        self._listed_offsets.append(offset)
        return _FIRST_LIST + 1 - len(self._listed_offsets)

    def item_offset(self, position: Position) -> int | None:
        """Return where the line about an item's task begins, None if it has not returned."""
        page = self._pages.get((position[0], position[1] // TOGETHER))
        offset = _NONE if page is None else page.items[position[1] % TOGETHER]
        return None if offset == _NONE else offset

    def item_offsets(self) -> array[int]:
        """Return where the lines about the tasks of all items begin, in the order of the journal."""
        pages = self._pages.values()
        return array("q", sorted(offset for page in pages for offset in page.items if offset != _NONE))

    def result_offsets(self, position: Position) -> list[int]:
        """Return where the lines with an item's results begin, the first line first."""
        page = self._pages.get((position[0], position[1] // TOGETHER))
        return [] if page is None else self._list_results(page.results[position[1] % TOGETHER])

    def _list_results(self, known: int) -> list[int]:
        if known >= 0:  # one line, as most items have
            return [known]
        offsets = []
        number = _NONE if known == _NONE else _FIRST_LIST - known
        while number != _NONE:
            offsets.append(self._listed_offsets[number])
            number = self._earlier_lines[number]
        offsets.reverse()
        return offsets

    def offsets_of(self, position: Position, example_hash: int | None = None) -> tuple[int, list[int]] | None:
        """Return where the lines about an item begin: that of its task, and those with its results.

        None where its task has not returned, or returned for an example with another hash than the given one.
        """
        page, place = self._pages.get((position[0], position[1] // TOGETHER)), position[1] % TOGETHER
        if page is None or page.items[place] == _NONE:
            return None
        if example_hash is not None:
            is_unusual = bool(self._unusual_hashes) and position in self._unusual_hashes
            if is_unusual or page.hashes[place] != example_hash:
                return None
        return page.items[place], self._list_results(page.results[place])

    def usual_offsets(self, run_index: int, indexes: range, hashes: array[int]) -> Offsets:
        """Return where the lines about each of the first of these items begin.

        They end before an item that has no line with results, or whose example has another hash than `hashes`
        says, by index; at the latest where the arrays of neighbouring items do.
        """
        page = self._pages.get((run_index, indexes.start // TOGETHER))
        if page is None or self._unusual_hashes:
            return Offsets(array("q"), array("q"))
        first = indexes.start - indexes.start % TOGETHER
        end = min(indexes.stop, first + TOGETHER)
        part = slice(indexes.start - first, end - first, indexes.step)
        items, results, known = page.items[part], page.results[part], page.hashes[part]
        given = hashes[indexes.start : end : indexes.step]
        if known != given or _NONE in items or _NONE in results:
            rows = enumerate(zip(items, results, map(eq, known, given), strict=True))
            count = next(n for n, row in rows if _NONE in row or not row[2])
            items, results = items[:count], results[:count]
        if not results or min(results) >= 0:
            return Offsets(items, results)
        lists = list(map(self._list_results, results))
        return Offsets(items, array("q", chain.from_iterable(lists)), list(map(len, lists)))

    def has_hashes(self, run_index: int, start: int, hashes: array[int]) -> bool:
        """Say whether the items from `start` on have these content hashes, all of them.

        It may be denied where they lie in several of the arrays of neighbouring items.
        """
        page, first = self._pages.get((run_index, start // TOGETHER)), start % TOGETHER
        if page is None or self._unusual_hashes or first + len(hashes) > TOGETHER:
            return False
        part = slice(first, first + len(hashes))
        return _NONE not in page.items[part] and page.hashes[part] == hashes

    def last_offset(self, position: Position) -> int:
        """Return where the last line about an item begins."""
        page, place = self._pages[position[0], position[1] // TOGETHER], position[1] % TOGETHER
        known = page.results[place]
        return page.items[place] if known == _NONE else self._list_results(known)[-1]

    def hash_of(self, position: Position) -> str:
        """Return the content hash of an item's example."""
        page = self._pages[position[0], position[1] // TOGETHER]
        unusual = self._unusual_hashes.get(position)
        return unusual if unusual is not None else f"{page.hashes[position[1] % TOGETHER]:016x}"

    def hash_number(self, position: Position) -> int | None:
        """Return the content hash of an item's example as a number, -1 where it is of another kind.

        None for an item whose task has not returned.
        """
        page, place = self._pages.get((position[0], position[1] // TOGETHER)), position[1] % TOGETHER
        if page is None or page.items[place] == _NONE:
            return None
        if self._unusual_hashes and position in self._unusual_hashes:
            return -1
        return page.hashes[place]

    def _page_of(self, position: Position) -> _Page:
        key = (position[0], position[1] // TOGETHER)
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = _Page()
        return page


class FirstHashes:
    """The content hash of each item in the first repeat that has it."""

    def __init__(self, index: ItemIndex, ends: Mapping[int, float]) -> None:
        """Take what a journal has, and before which item each repeat ends, by repeat and in order."""
        self._index = index
        self._ends = ends

    def find(self, index: int) -> int | None:
        """Return the hash of an item as a number, -1 for one of another kind; None where no repeat has it."""
        for run_index, end in self._ends.items():
            found = self._index.hash_number((run_index, index)) if index < end else None
            if found is not None:
                return found
        return None

    def find_changes(self, start: int, hashes: array[int]) -> list[int]:
        """Return which of the items from `start` on have another hash than the given one."""
        first, end = next(iter(self._ends.items()), (0, 0))
        if start + len(hashes) <= end and self._index.has_hashes(first, start, hashes):
            return []
        return [n for n, known in enumerate(hashes, start) if self.find(n) not in (known, None)]
