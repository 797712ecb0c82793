"""The workers that end quiet runs and remove deleted rows."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from dokimos.server._db.database import Database
from dokimos.server._services.maintenance import fail_stale_runs, purge_deleted_rows
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.periodic import run_periodically

_LOGGER: Final = logging.getLogger("dokimos.server")
_REAP_SECONDS: Final = 300.0
_PURGE_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.02
"""Between two transactions of the purge, so that requests come in between."""
_STEP_SECONDS: Final = 120.0
"""By how much the clock of the machine may run ahead of the time that passed before it counts as set."""


@asynccontextmanager
async def maintain(database: Database, settings: ServerSettings) -> AsyncIterator[None]:
    """End quiet runs and remove deleted rows until the context ends."""
    async with AsyncExitStack() as stack:
        if settings.stale_run_hours > 0:
            reaper = Reaper(database, settings.stale_run_hours)
            await stack.enter_async_context(
                run_periodically("Ending quiet runs", reaper.sweep, _REAP_SECONDS)
            )
        await stack.enter_async_context(
            run_periodically("Removing deleted rows", lambda: purge(database), _PURGE_SECONDS)
        )
        yield


class Reaper:
    """Marks runs as failed that have been quiet for too long.

    A run is quiet by the wall clock, which the tables hold. Where that clock is set forward, every run would
    look quiet at once; so after a step the reaper waits as long as a run may be quiet before it ends one.
    """

    def __init__(
        self,
        database: Database,
        hours: float,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._hours = hours
        self._wall = wall
        self._monotonic = monotonic
        self._seen = (wall(), monotonic())
        self._waits_until = float("-inf")

    async def sweep(self) -> list[str]:
        """Mark the runs that have been quiet for too long; return their ids."""
        wall, monotonic = self._wall(), self._monotonic()
        ahead = (wall - self._seen[0]) - (monotonic - self._seen[1])
        self._seen = (wall, monotonic)
        if ahead > _STEP_SECONDS:
            self._waits_until = monotonic + self._hours * 3600
            _LOGGER.warning(
                "The clock was set forward by %.0f seconds; no run counts as quiet by that.", ahead
            )
        if monotonic < self._waits_until:
            return []
        reaped = await self._database.write(lambda connection: fail_stale_runs(connection, self._hours))
        for run in reaped:
            _LOGGER.warning("Run %s was quiet for %g hours and is marked as failed.", run, self._hours)
        return reaped


async def purge(database: Database) -> None:
    """Remove all deleted rows, in small transactions."""
    while await database.write(purge_deleted_rows):
        await asyncio.sleep(_PAUSE_SECONDS)
