"""How many jobs a worker is given at once: as many as it does while its messages travel."""

from __future__ import annotations

import math
from typing import Final

LEAST_AHEAD: Final = 3
"""How many jobs wait in a worker before it is known how long one takes, and at least while they are short."""
AHEAD_SECONDS: Final = 0.25
"""Jobs that wait in a worker last so long: many times as long as a message travels."""
_MEASURED_SECONDS: Final = 0.1


class JobWindow:
    """Counts the jobs that a worker does, and says how many it may have at once.

    A worker that is far away must not wait for the next job. It should not have many that it has not begun
    with, either: it may be taken away, and at the end of the run others have nothing to do.
    """

    __slots__ = ("_at_once", "_busy", "_done", "_last", "_most_ahead", "_since", "_total", "limit")

    def __init__(self) -> None:
        self.set_limits(1, LEAST_AHEAD)

    def set_limits(self, at_once: int, most_ahead: int) -> None:
        """Begin anew: so many jobs are worked on at once, and at most so many wait."""
        self._at_once = at_once
        self._most_ahead = most_ahead
        self.limit: int = at_once + min(LEAST_AHEAD, most_ahead)
        """How many jobs the worker may have."""
        self._since, self._done = 0.0, 0
        self._last, self._busy, self._total = 0.0, 0.0, 0

    def begin(self, now: float) -> None:
        """A worker that had nothing to do has been given a job."""
        self._since, self._done, self._last = now, 0, now

    @property
    def job_seconds(self) -> float:
        """How long a job takes by itself, on average; infinite where none was done yet."""
        return self._at_once * self._busy / self._total if self._total else math.inf

    def count_done(self, now: float) -> None:
        """A job was done; `now` is a time in seconds."""
        self._done += 1
        self._total += 1
        self._busy += now - self._last
        self._last = now
        elapsed = now - self._since
        if elapsed < _MEASURED_SECONDS:
            return
        ahead = math.ceil(self._done / elapsed * AHEAD_SECONDS)
        self.limit = self._at_once + max(1, min(ahead, self._most_ahead))
        self._since, self._done = now, 0
