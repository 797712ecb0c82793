"""What a suite prints of each test at the end, without the test itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from dokimos._core.results import ItemResult, RunResult
from dokimos.reporting._console import Signs
from dokimos.suites._console import Line, render_item, render_repeat

Block: TypeAlias = ItemResult | tuple[Line, ...]


class ItemBlocks:
    """Renders tests as they end, so that a run need not hold those that passed until it prints them.

    20,000 of them with four calls of tools and three passages each took 104 MB.
    """

    def __init__(self, signs: Signs, *, verbose: bool) -> None:
        self._signs = signs
        self._verbose = verbose
        self._blocks: defaultdict[int, dict[int, Block]] = defaultdict(dict)
        self._lines: dict[Line, Line] = {}
        """Each line once: most are the same for many tests."""

    def add(self, repeat_index: int, item: ItemResult) -> None:
        """Render a test that the result will not hold. Never raises: the end says what cannot be rendered."""
        block: Block
        try:
            lines = tuple(render_item(item, self._signs, verbose=self._verbose))
            block = tuple([self._lines.setdefault(line, line) for line in lines])
        except Exception:
            block = item
        self._blocks[repeat_index][item.index] = block

    def render(self, run: RunResult, *, number: int | None) -> Iterator[Iterable[Line]]:
        """Yield the lines of each test of a repeat, in the order of the suite; None is for an only one."""
        blocks = {**self._blocks[run.index], **{item.index: item for item in run.item_results}}
        for index in sorted(blocks):
            block = blocks[index]
            if isinstance(block, ItemResult):
                yield render_item(block, self._signs, run=number, verbose=self._verbose)
            else:
                title, *rest = block
                yield [Line(f"{title.text}{render_repeat(number)}", title.tone), *rest]
