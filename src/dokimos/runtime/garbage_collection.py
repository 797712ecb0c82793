"""Disable GC during imports, and make it less frequent during a run."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ALLOCATIONS: Final = 10_000
"""So many more containers than were freed start a pass in a run; Python's own number is 700 or 2,000."""


@contextmanager
def pause_gc() -> Iterator[None]:
    """Disable GC inside the block: modules and schemas are not garbage, and GC takes a tenth of their import.

    What was made counts as old afterwards, so that the next search does not go through it either. Collection
    is one for all threads; where several hold it back at once, the first one to end lets it go on. What code
    in the block says of collection itself holds afterwards, too.
    """
    first, *others = gc.get_threshold()
    gc.set_threshold(0, *others)
    try:
        yield
    finally:
        if first and not gc.get_threshold()[0]:
            if not gc.get_freeze_count():  # what somebody froze stays so
                gc.freeze()
                gc.unfreeze()  # to the oldest generation
            gc.set_threshold(first, *others)


class CollectingSeldom:
    """Let the collector of the process look for cycles less often inside the block.

    Dozens of items in flight hold thousands of containers for a moment, none of them in a cycle: with
    Python's own threshold an eighth of the time of a run goes into looking at them. A threshold that
    somebody set higher, or to 0, stays; the old one is back when the last of several runs ends.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._depth = 0
        self._before: tuple[int, int, int] = gc.get_threshold()

    def __enter__(self) -> None:
        with self._mutex:
            self._depth += 1
            if self._depth == 1:
                self._before = gc.get_threshold()
                if 0 < self._before[0] < ALLOCATIONS:
                    gc.set_threshold(ALLOCATIONS, *self._before[1:])

    def __exit__(self, *exc_info: object) -> None:
        with self._mutex:
            self._depth -= 1
            if self._depth == 0 and gc.get_threshold()[0] == ALLOCATIONS:
                gc.set_threshold(*self._before)


collecting_seldom: Final = CollectingSeldom()
"""One for the whole process, whose threshold it is."""
