"""A lock for agents that remember: such an agent serves one caller at a time."""

from __future__ import annotations

import asyncio
from types import TracebackType
from weakref import WeakKeyDictionary


class TurnLock:
    """An asynchronous lock that works on several event loops, and serializes the callers of each."""

    def __init__(self) -> None:
        # An asyncio.Lock belongs to the loop that first waits for it.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def __aenter__(self) -> None:
        await self._lock().acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock().release()

    def _lock(self) -> asyncio.Lock:
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
