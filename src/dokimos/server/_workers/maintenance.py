"""The workers that end quiet runs, and remove old runs and deleted rows."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from dokimos.server._db.clock import SECOND, now
from dokimos.server._db.database import Database
from dokimos.server._services.comparisons.comparison_retention import expire_comparisons
from dokimos.server._services.comparisons.comparisons import Comparisons
from dokimos.server._services.judging.judged_runs import release_idle_runs
from dokimos.server._services.projects.project_settings import default_settings
from dokimos.server._services.runs.maintenance import fail_stale_runs, purge_deleted_rows
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.periodic import repeat_until_done, run_periodically
from dokimos.server._workers.run_retention import RETENTION_DELAY_SECONDS, RETENTION_SECONDS, RunRetention

_LOGGER: Final = logging.getLogger("dokimos.server")
_REAP_SECONDS: Final = 300.0
_PURGE_SECONDS: Final = 30.0
_CLOCK_SECONDS: Final = 60.0
_RELEASE_SECONDS: Final = 60.0
_ABANDONED_SECONDS: Final = 20.0
_VERDICT_SECONDS: Final = 60.0
"""How long after its end a run that has no verdict counts as forgotten, as by a server that was killed."""
_DAY_SECONDS: Final = 24 * 3600.0
_STEP_SECONDS: Final = 120.0
"""By how much the clock of the machine may run ahead of the time that passed before it counts as set."""


@asynccontextmanager
async def maintain(
    database: Database, settings: ServerSettings, comparisons: Comparisons
) -> AsyncIterator[None]:
    """End quiet runs, compute missing verdicts, remove old runs and deleted rows until the context ends."""

    async def end_quiet_runs() -> None:
        for run_id in await reaper.sweep():
            comparisons.judge_soon(run_id)

    async def release_runs() -> None:
        for run_id in await database.write(release_idle_runs):
            comparisons.judge_soon(run_id)

    missing_since = _DAY_SECONDS

    async def compute_verdicts() -> None:
        nonlocal missing_since
        # A server that was killed may have left some, and one whose database was away. Later only those of
        # the last minutes: a verdict that cannot be computed is not tried for ever.
        await comparisons.judge_missing(_VERDICT_SECONDS, missing_since)
        missing_since = 10 * _VERDICT_SECONDS

    async with AsyncExitStack() as stack:
        if settings.stale_run_hours > 0:
            reaper = Reaper(database, settings.stale_run_hours)
            await stack.enter_async_context(
                run_periodically("Ending quiet runs", end_quiet_runs, _REAP_SECONDS)
            )
        retention = RunRetention(database, default_settings(settings))
        await stack.enter_async_context(
            run_periodically(
                "Removing old runs", retention.sweep, RETENTION_SECONDS, delay=RETENTION_DELAY_SECONDS
            )
        )
        for name, action, seconds in (
            ("Removing deleted rows", lambda: remove_rows(database, settings), _PURGE_SECONDS),
            ("Giving runs back that nothing scores", release_runs, _RELEASE_SECONDS),
            ("Computing missing verdicts", compute_verdicts, _VERDICT_SECONDS),
            ("Ending transactions of frozen servers", database.end_abandoned, _ABANDONED_SECONDS),
            ("Following the clock of the database", database.follow_clock, _CLOCK_SECONDS),
        ):
            await stack.enter_async_context(run_periodically(name, action, seconds))
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
        wall: Callable[[], float] = lambda: now() / SECOND,
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


async def remove_rows(database: Database, settings: ServerSettings) -> bool:
    """Remove what was deleted or is too old; return False where another server does that.

    Two at once would take rows from each other. What one of them then takes for a run without items may still
    have many, which would go with it in one long transaction.
    """
    async with database.claim("removing rows") as is_ours:
        if is_ours:
            await expire(database, settings)
            await purge(database)
        return is_ours


async def expire(database: Database, settings: ServerSettings) -> None:
    """Discard comparisons that are too old or too many."""
    days, most = settings.comparison_retention_days, settings.max_comparison_cases
    await repeat_until_done(
        lambda: database.write(lambda connection: expire_comparisons(connection, days, most))
    )


async def purge(database: Database) -> None:
    """Remove all deleted rows, in small transactions."""
    await repeat_until_done(lambda: database.write(purge_deleted_rows))
