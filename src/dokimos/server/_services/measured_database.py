"""A database with the time that each transaction takes, and how many are under way."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from sqlalchemy import Connection

from dokimos.server._db.database import Database, DatabaseUnavailable, Lane, ReadTooSlow
from dokimos.server._db.database_layer import DatabaseLayer
from dokimos.server._services.metrics import Metrics

T = TypeVar("T")
_WRITE: Final = ("write",)
_PART: Final = ("write_part",)
_READS: Final = {lane: (f"read_{lane.value}",) for lane in Lane}

_READS_OF_REQUESTS: Final = tuple(f"read_{lane.value}" for lane in Lane if lane is not Lane.WORK)


class MeasuredDatabase(DatabaseLayer):
    """A database whose transactions are measured: with the wait for a connection, a thread or the writer."""

    def __init__(self, database: Database, metrics: Metrics) -> None:
        super().__init__(database)
        self._metrics = metrics
        self._under_way: Counter[str] = Counter()

    @property
    def under_way(self) -> Mapping[str, float]:
        """How many transactions wait or run, by their operation."""
        return {name: self._under_way[name] for (name,) in (_WRITE, _PART, *_READS.values())}

    @property
    def serves_requests(self) -> bool:
        """Whether transactions of requests, and not only of workers, wait or run; for any thread."""
        return self._under_way["write"] > 0 or self.serves_reads

    @property
    def serves_reads(self) -> bool:
        """Whether reads of requests, and not only of workers, wait or run; for any thread."""
        return any(self._under_way[name] for name in _READS_OF_REQUESTS)

    async def read(self, query: Callable[[Connection], T], lane: Lane = Lane.PAGE) -> T:
        operation = _READS[lane]
        began_at = time.perf_counter()
        self._under_way[operation[0]] += 1
        try:
            return await self._database.read(query, lane)
        except (DatabaseUnavailable, ReadTooSlow):
            self._metrics.database_failures.add(operation)
            raise
        finally:
            self._under_way[operation[0]] -= 1
            self._metrics.database.add(operation, time.perf_counter() - began_at)

    async def write(self, change: Callable[[Connection], T], *, background: bool = False) -> T:
        operation = _PART if background else _WRITE
        began_at = time.perf_counter()
        self._under_way[operation[0]] += 1
        try:
            return await self._database.write(change, background=background)
        except DatabaseUnavailable:
            self._metrics.database_failures.add(operation)
            raise
        finally:
            self._under_way[operation[0]] -= 1
            self._metrics.database.add(operation, time.perf_counter() - began_at)
