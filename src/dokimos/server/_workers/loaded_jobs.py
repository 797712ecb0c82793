"""Jobs of a batch with the spans that they score, which are read for some of them at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row

from dokimos.server._services.online.scored_cases import load_scored_spans

if TYPE_CHECKING:
    from dokimos.traces._span import Span

Read = Callable[[Callable[[Connection], Any]], Awaitable[Any]]


class LoadedJobs:
    """Hands out jobs, each once, the oldest first.

    Args:
        jobs: All of them.
        scope: What they score.
        most: How many are read ahead. What is read is scored soon, so that what is deleted meanwhile is not
            shown to a judge for long.
        read: Runs a query on the traces.
    """

    def __init__(self, jobs: Sequence[Row[Any]], scope: str, most: int, read: Read) -> None:
        self._waiting = deque(jobs)
        self._scope = scope
        # A session is read by itself, and may be large: reading ahead would gain nothing.
        self._most = 1 if scope == "session" else most
        self._read = read
        self._loaded: deque[tuple[Row[Any], list[list[Span]]]] = deque()
        self._lock = asyncio.Lock()

    async def take(self) -> tuple[Row[Any], list[list[Span]]] | None:
        """Return a job with the spans of each trace that it is about; None where there are no more."""
        async with self._lock:
            if not self._loaded and self._waiting:
                jobs = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
                self._loaded.extend(await self._read(partial(_load, jobs=jobs, scope=self._scope)))
            return self._loaded.popleft() if self._loaded else None


def _load(
    connection: Connection, jobs: Sequence[Row[Any]], scope: str
) -> list[tuple[Row[Any], list[list[Span]]]]:
    return list(load_scored_spans(connection, jobs, scope))
