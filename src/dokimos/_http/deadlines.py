"""Time limits of requests: one timer of the event loop for all that may take equally long."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Deadlines:
    """The requests of one event loop that may take so many seconds, the first to end first.

    One timer for all of them takes a fortieth less of the CPU of a judged item than one for each, as the HTTP
    library sets it (`benchmarks/judged.py`, nine microseconds of 390 on a loaded machine).
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._blocks: dict[TimeLimit, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def limit_time(self) -> TimeLimit:
        """Return a context manager that raises `TimeoutError` where its block takes longer."""
        return TimeLimit(self)

    def add(self, block: TimeLimit) -> float:
        """Watch a block that begins now, and return when it has to end."""
        end = self._loop.time() + self._seconds
        self._blocks[block] = None
        if self._timer is None:
            self._timer = self._loop.call_at(end, self._expire)
        return end

    def remove(self, block: TimeLimit) -> None:
        """Watch a block no longer; it may have expired."""
        self._blocks.pop(block, None)

    def close(self) -> None:
        """Cancel the timer; whatever is still going on has no limit any more."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _expire(self) -> None:
        """Cancel what has taken too long, and look again when the next one would have."""
        self._timer = None
        now = self._loop.time()
        for block in list(self._blocks):
            if block.end > now:
                self._timer = self._loop.call_at(block.end, self._expire)
                return
            del self._blocks[block]
            block.expire()


class TimeLimit:
    """A block of one task that may take so long. It ends as a block of `asyncio.timeout` does."""

    __slots__ = ("_cancellations", "_deadlines", "_is_expired", "_task", "end")

    end: float
    """When it has to end, by the clock of the event loop."""
    _task: asyncio.Task[object]

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._is_expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "there are time limits in tasks only"
        self._task = task
        self._cancellations = task.cancelling()
        self.end = self._deadlines.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._deadlines.remove(self)
        # Somebody else may have cancelled the task at the same time, which must not be lost.
        if (
            self._is_expired
            and self._task.uncancel() <= self._cancellations
            and kind is asyncio.CancelledError
        ):
            raise TimeoutError from error

    def expire(self) -> None:
        """Cancel the task, which is waiting inside the block."""
        self._is_expired = True
        self._task.cancel()
