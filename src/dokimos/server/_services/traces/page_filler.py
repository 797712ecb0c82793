"""The order of spans in which they fill the pages of SQLite."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from dokimos.server._db.batches import in_batches
from dokimos.server._services.traces.new_spans import NewSpan

_PAGE_BYTES: Final = 8150
"""What rows have of a page of a file of traces (`_LARGE_PAGE` in `sqlite_database.py`)."""
_ROW_BYTES: Final = 250
"""About what a row has beside its long texts and its body."""
_MOST_AT_ONCE: Final = 1000
"""So many spans are arranged together: the time to take each of them out grows with how many are left."""


class PageFiller:
    """Arranges the spans of one trace after the other so that they leave little of each page empty.

    A row that does not fit into the rest of a page begins the next one. Calls of models with their histories
    take half a page and more: in any order, a sixth of the file would be empty, and would still be written.
    """

    def __init__(self) -> None:
        self._room = _PAGE_BYTES

    def arrange(self, spans: Sequence[NewSpan]) -> list[NewSpan]:
        """Return the spans of a trace, of those that are left always the largest one that fits."""
        return [span for part in in_batches(spans, _MOST_AT_ONCE) for span in self._arrange_part(part)]

    def _arrange_part(self, spans: Sequence[NewSpan]) -> list[NewSpan]:
        left = sorted(spans, key=_measure)
        sizes = [_measure(span) for span in left]
        arranged: list[NewSpan] = []
        while left:
            place = bisect_right(sizes, self._room) - 1
            if place >= 0:
                self._room -= sizes.pop(place)
            elif self._room == _PAGE_BYTES:
                place = 0  # larger than a page, as all that are left: they go on to pages of their own
                del sizes[0]
            else:
                self._room = _PAGE_BYTES
                continue
            arranged.append(left.pop(place))
        return arranged


def _measure(span: NewSpan) -> int:
    size = len(span.body) + _ROW_BYTES
    input_text, output_text = span.input_text, span.output_text
    if input_text is not None:
        size += len(input_text)
    if output_text is not None:
        size += len(output_text)
    return size
