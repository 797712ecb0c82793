"""Whose comparison is computed next: a bounded queue with a lane for each kind of request."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Final

from dokimos.server._services.errors import UnavailableError

MOST_WAITING: Final = 20
_BUSY_SECONDS: Final = 10
"""What a caller that has to come again is told to wait: a few large comparisons take as long."""


class Lane(StrEnum):
    """What a comparison is for."""

    GATE = "gate"
    """Somebody who may write waits for a verdict."""
    VERDICT = "verdict"
    """A run has ended, and its verdict is kept."""
    DIFF = "diff"
    """Somebody reads the difference of two runs; where reading needs no key, that may be anyone."""


class ComparisonTurns:
    """Lets one comparison at a time be computed.

    Each lane waits for itself, and the lanes take turns: however many readers ask for differences, the next
    gate and the next verdict are computed after one of those.

    Args:
        limit: How many comparisons may wait in one lane. Verdicts always may: they are the server's own, one
            for each run, and gates wait for them.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lanes: dict[Lane, deque[asyncio.Future[None]]] = {lane: deque() for lane in Lane}
        self._reserved = dict.fromkeys(Lane, 0)
        self._is_taken = False

    @property
    def waiting(self) -> dict[str, float]:
        """How many comparisons wait, by what they are for."""
        return {lane.value: self._reserved[lane] for lane in Lane}

    @property
    def is_taken(self) -> bool:
        """Whether a comparison is being computed."""
        return self._is_taken

    def reserve(self, lane: Lane, *, is_again: bool = False) -> None:
        """Reserve a place for a comparison that `take` will be called for.

        Args:
            lane: Where it waits.
            is_again: Whether it has had its turn already, and is never refused.

        Raises:
            UnavailableError: The lane is full.
        """
        waiting = self._reserved[lane]
        if waiting >= self._limit and lane is not Lane.VERDICT and not is_again:
            raise UnavailableError(
                f"{waiting} other comparisons wait to be computed before this one; ask again later.",
                retry_seconds=_BUSY_SECONDS,
            )
        self._reserved[lane] += 1

    @asynccontextmanager
    async def take(self, lane: Lane) -> AsyncIterator[None]:
        """Wait for the turn of a comparison, which lasts as long as the context."""
        try:
            await self._wait(lane)
        finally:
            self._reserved[lane] -= 1
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, lane: Lane) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lanes[lane].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it had come just then
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        for lane, waiting in list(self._lanes.items()):
            while waiting:
                turn = waiting.popleft()
                if not turn.done():
                    self._lanes[lane] = self._lanes.pop(lane)  # behind the others
                    turn.set_result(None)
                    return
        self._is_taken = False
