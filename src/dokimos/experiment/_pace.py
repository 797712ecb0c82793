"""How fast a run goes, and how long the rest of it will take."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Times the items that this process runs.

    Items whose output was recorded earlier, in a resumed run or one whose outputs are reused, take no time
    and say nothing of how long the others take: they do not count.
    """

    def __init__(self, parallelism: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._parallelism = parallelism
        self._clock = clock
        self._starts: dict[int, float] = {}
        self._items = 0
        self._seconds = 0.0
        self._repeat_start = clock()
        self._repeat_items = 0

    def start_repeat(self) -> None:
        """Begin a repeat; how long items take is known from the repeats before it."""
        self._starts.clear()
        self._repeat_start = self._clock()
        self._repeat_items = 0

    def start_item(self, index: int) -> None:
        self._starts[index] = self._clock()

    def end_item(self, index: int, *, ran: bool) -> None:
        """Note the end of an item; `ran` is false for one whose output was recorded earlier."""
        start = self._starts.pop(index, None)
        if ran and start is not None:
            self._items += 1
            self._repeat_items += 1
            self._seconds += self._clock() - start

    @property
    def rate(self) -> float | None:
        """Items per second of this repeat; None before the first one has ended."""
        elapsed = self._clock() - self._repeat_start
        return self._repeat_items / max(elapsed, 1e-9) if self._repeat_items else None

    def seconds_left(self, items: int) -> float | None:
        """Return how long so many items will take, those that have started among them; None if unknown.

        Each is expected to take the mean time so far, and what the started ones have spent of theirs is taken
        off. So the estimate counts down while no item ends, and stays where items are overdue.
        """
        if not self._items or items <= 0:
            return None
        mean, now = self._seconds / self._items, self._clock()
        # A copy: the thread that draws the progress reads it while the event loop starts other items.
        spent = sum(min(now - start, mean) for start in tuple(self._starts.values()))
        return max(items * mean - spent, 0.0) / min(self._parallelism, items)
