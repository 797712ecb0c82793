"""The time by which rows are old enough to be removed."""

from __future__ import annotations

import time
from collections.abc import Callable

from dokimos.server._db.clock import now


class AgeClock:
    """The wall clock, which the tables hold, as far as it can be believed.

    Where that clock is set forward, rows would look older than they are, and what is removed does not come
    back; so no more time counts than has passed since this was made.

    Args:
        wall: Returns seconds since 1970.
        monotonic: Returns seconds, of a clock that nobody sets.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float] = lambda: now() / 1e6,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._started = wall() - monotonic()

    def now(self) -> int:
        """Return microseconds since 1970."""
        return int(min(self._wall(), self._started + self._monotonic()) * 1e6)
