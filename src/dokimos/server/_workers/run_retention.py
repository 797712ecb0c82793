"""The worker that removes runs which are older than their project keeps them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from sqlalchemy import Row

from dokimos.server._db.clock import SECOND, now
from dokimos.server._db.database import Database, Lane
from dokimos.server._services.projects.project_settings import ProjectSettings, read_settings
from dokimos.server._services.runs.run_retention import (
    REMOVED_AT_ONCE,
    find_expired_runs,
    projects_with_retention,
    remove_expired_runs,
)
from dokimos.server._workers.periodic import PAUSE_SECONDS
from dokimos.server._workers.row_ages import AgeClock

_LOGGER: Final = logging.getLogger("dokimos.server")
RETENTION_SECONDS: Final = 3600.0
RETENTION_DELAY_SECONDS: Final = 600.0
"""After the start: a clock that is wrong when a machine boots has been set by then."""


class RunRetention:
    """Removes old runs of projects; `AgeClock` says which ones are old, from `wall` and `monotonic`."""

    def __init__(
        self,
        database: Database,
        defaults: ProjectSettings,
        *,
        wall: Callable[[], float] = lambda: now() / SECOND,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._defaults = defaults
        self._clock = AgeClock(wall=wall, monotonic=monotonic)

    async def sweep(self) -> int:
        """Remove the runs that are old now; return how many. They are gone for every reader at once."""
        moment = self._clock.now()
        projects = await self._database.read(
            lambda connection: projects_with_retention(connection, self._defaults), Lane.WORK
        )
        return sum([await self._sweep_project(project, moment) for project in projects])

    async def _sweep_project(self, project: Row[Any], moment: int) -> int:
        settings = read_settings(project, self._defaults)
        expired = await self._database.read(
            lambda connection: find_expired_runs(connection, project.id, settings, moment), Lane.WORK
        )
        total = 0
        for start in range(0, len(expired), REMOVED_AT_ONCE):
            removed = await self._database.write(
                partial(
                    remove_expired_runs,
                    project_id=project.id,
                    run_ids=expired[start : start + REMOVED_AT_ONCE],
                    settings=settings,
                    defaults=self._defaults,
                    moment=moment,
                )
            )
            if removed is None:
                break
            total += removed
            await asyncio.sleep(PAUSE_SECONDS)
        if total:
            _LOGGER.info(
                "%d runs of project '%s' ended more than %g days ago and are removed.",
                total,
                project.name,
                settings.run_retention_days,
            )
        return total
