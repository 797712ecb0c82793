"""The worker that removes traces: those that have expired, and those that people delete."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from dokimos.server._db.claims import wait_for_claim
from dokimos.server._db.clock import SECOND, now
from dokimos.server._db.database import Database, Lane
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.traces.day_storage import (
    count_free_pages,
    drop_day,
    give_space_back,
    list_stored_days,
)
from dokimos.server._services.traces.request_pace import NO_PAUSES, RequestPace
from dokimos.server._services.traces.span_store import SpanStore
from dokimos.server._services.traces.trace_removals import (
    find_present_projects,
    forget_removed_project,
    list_removed_projects,
    mark_traces_of,
)
from dokimos.server._services.traces.trace_retention import (
    choose_marked,
    expire_traces,
    is_closed,
    is_unused,
    list_marked_days,
    purge_traces,
    read_day,
    remove_lone_logs,
    remove_unused_sources,
)
from dokimos.server._workers.periodic import PAUSE_SECONDS, repeat_until_done, run_periodically
from dokimos.server._workers.row_ages import AgeClock

_LOGGER: Final = logging.getLogger("dokimos.server")
_SWEEP_CLAIM: Final = "sweeping traces"
_REMOVAL_CLAIM: Final = "removing traces"
"""Also of a sweep: two that remove the same traces would wait for each other's rows."""
_LONGEST_DELAY_SECONDS: Final = 600.0
"""After the start: a clock that is wrong when a machine boots has been set by then."""
_WISH_SECONDS: Final = 30.0
"""How often the server looks for what people have deleted."""
_LOCK_NOT_AVAILABLE: Final = "55P03"
Forget = Callable[[Sequence[str]], Awaitable[None]]
"""Removes what others keep of traces, by the ids of their rows, before these are removed."""


class TraceSweeper:
    """Removes traces; `AgeClock` says which ones have expired, from `wall` and `monotonic`.

    Args:
        traces: The database of traces.
        database: That of everything else.
        store: What stores spans, and remembers days.
        metrics: Which count what is removed.
        wall: Returns seconds since 1970.
        monotonic: Returns seconds, of a clock that nobody sets.
        serves_requests: Says whether requests wait for a database; on SQLite they go first.
    """

    def __init__(
        self,
        traces: Database,
        database: Database,
        store: SpanStore,
        metrics: Metrics,
        *,
        wall: Callable[[], float] = lambda: now() / SECOND,
        monotonic: Callable[[], float] = time.monotonic,
        serves_requests: Callable[[], bool] = lambda: False,
    ) -> None:
        self.before_removal: list[Forget] = []
        self._traces = traces
        self._database = database
        self._store = store
        self._pace = RequestPace(serves_requests) if traces.dialect == "sqlite" else NO_PAUSES
        self._clock = AgeClock(wall=wall, monotonic=monotonic)
        self._removed = metrics.counter("dokimos_traces_removed_total", "Traces that were removed.")

    async def sweep(self) -> int:
        """Remove what has expired or was deleted; return how many traces.

        One server at a time does that. It waits for what removes deleted traces at this moment, here or in
        another server: a sweep left out would leave what has expired until the next one.
        """
        async with self._traces.claim(_SWEEP_CLAIM) as is_ours:
            if not is_ours:
                return 0
            async with wait_for_claim(self._traces, _REMOVAL_CLAIM):
                removed = await self._sweep(self._clock.now())
        if removed:
            _LOGGER.info("%d traces that had expired or were deleted are removed.", removed)
        return removed

    async def remove_deleted(self) -> int:
        """Remove what people have deleted; return how many traces, 0 also where a sweep is doing it."""
        async with self._traces.claim(_REMOVAL_CLAIM) as is_ours:
            if not is_ours:
                return 0
            await self._mark_removed_projects()
            return await self._remove_marked(self._clock.now())

    async def _sweep(self, moment: int) -> int:
        await self._repeat(partial(expire_traces, moment=moment, pace=self._pace))
        await self._mark_removed_projects()
        removed = await self._remove_marked(moment)
        await self._drop_unused_days()
        await self._repeat(partial(remove_lone_logs, moment=moment))
        await self._repeat(remove_unused_sources)
        await self._give_space_back()
        return removed

    async def _mark_removed_projects(self) -> None:
        """Mark the traces of deleted projects, also those that came later, or whose server was killed."""
        asked = await self._traces.read(list_removed_projects, Lane.WORK)
        if not asked:
            return
        present = await self._database.read(
            lambda connection: find_present_projects(connection, asked), Lane.WORK
        )
        for project_id, asked_at in asked.items():
            if project_id not in present:
                await self._repeat(partial(mark_traces_of, project_id=project_id))
            await self._traces.write(
                partial(
                    forget_removed_project,
                    project_id=project_id,
                    asked_at=asked_at,
                    is_present=project_id in present,
                ),
                background=True,
            )

    async def _remove_marked(self, moment: int) -> int:
        days = await self._traces.read(list_marked_days, Lane.WORK)
        return sum([await self._remove_of_day(day, moment) for day in days])

    async def _remove_of_day(self, day: int, moment: int) -> int:
        state = await self._traces.read(partial(read_day, day=day), Lane.WORK)
        is_dropped = False
        if state.goes_at_once:
            if state.waits(moment):
                return 0
            if state.is_closed and not state.has_traces:
                is_dropped = await self._drop(day)
                if not is_dropped:
                    return 0  # at the next sweep: to remove its spans one by one would take far longer
        purge = partial(purge_traces, day=day, is_dropped=is_dropped, pace=self._pace)
        total = 0
        while ids := await self._traces.read(partial(choose_marked, day=day), Lane.WORK):
            for forget in self.before_removal:
                await forget(ids)
            removed, rows = await self._traces.write(partial(purge, ids=ids), background=True)
            if not rows:
                break
            total += removed
            self._removed.add(number=removed)
            await asyncio.sleep(PAUSE_SECONDS)
        return total

    async def _drop_unused_days(self) -> None:
        def find(connection: Connection) -> list[int]:
            stored = list_stored_days(connection)
            return [day for day in stored if is_closed(day) and is_unused(connection, day)]

        for day in await self._traces.read(find, Lane.WORK):
            await self._drop(day)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _drop(self, day: int) -> bool:
        try:
            return await self._traces.write(partial(drop_day, day=day), background=True)
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            _LOGGER.warning("Spans are in use all the time: those of a day are removed at the next sweep.")
            return False
        finally:
            self._store.forget()

    async def _give_space_back(self) -> None:
        # As much as is free now: what comes in meanwhile frees pages again and again.
        left = await self._traces.read(count_free_pages, Lane.WORK)
        give_back = partial(give_space_back, pace=self._pace)
        while left > 0 and (given := await self._traces.write(give_back, background=True)):
            left -= given
            await asyncio.sleep(PAUSE_SECONDS)

    async def _repeat(self, step: Callable[[Connection], int]) -> None:
        await repeat_until_done(lambda: self._traces.write(step, background=True))


@asynccontextmanager
async def remove_traces(sweeper: TraceSweeper, seconds: float) -> AsyncIterator[None]:
    """Remove traces until the context ends.

    Args:
        sweeper: What removes them.
        seconds: How often it looks for those that have expired.
    """
    async with AsyncExitStack() as stack:
        delay = min(seconds, _LONGEST_DELAY_SECONDS)
        for name, action, period, first in (
            ("Removing expired traces", sweeper.sweep, seconds, delay),
            ("Removing deleted traces", sweeper.remove_deleted, _WISH_SECONDS, 0.0),
        ):
            await stack.enter_async_context(run_periodically(name, action, period, delay=first))
        yield
