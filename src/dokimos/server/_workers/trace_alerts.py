"""The worker that watches traces for alerts."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from dokimos.server._db.clock import SECOND
from dokimos.server._db.database import Database, DatabaseUnavailable, Lane, ReadTooSlow
from dokimos.server._online_settings import OnlineSettings
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.trace_alerts.alert_progress import (
    go_on,
    has_news,
    list_enabled_alerts,
    read_alert,
    store_progress,
)
from dokimos.server._services.trace_alerts.observations import Fired, Patience, read_step
from dokimos.server._workers.periodic import PAUSE_SECONDS

_LOGGER: Final = logging.getLogger("dokimos.server")
_STEPS_AT_ONCE: Final = 20
"""Of one alert, before the others have their turn."""


def patience_of(settings: OnlineSettings) -> Patience:
    """Return when traces are observed."""
    return Patience(
        quiet=int(settings.quiet_seconds * SECOND), longest=int(settings.alert_wait_seconds * SECOND)
    )


class TraceAlertWatch:
    """Goes on with all alerts; one server at a time, though two would come to the same."""

    def __init__(
        self, database: Database, traces: Database, settings: OnlineSettings, metrics: Metrics
    ) -> None:
        self._database = database
        self._traces = traces
        self._patience = patience_of(settings)
        self._observed = metrics.counter(
            "dokimos_trace_alert_observations_total", "Observations that alerts on traces have counted."
        )
        self._fired = metrics.counter("dokimos_trace_alerts_fired_total", "Firings of alerts on traces.")

    async def watch(self) -> None:
        """Show all alerts what has come, until they have seen everything."""
        async with self._database.claim("watching traces for alerts") as is_ours:
            if not is_ours:
                return
            waiting = list(await self._database.read(list_enabled_alerts, Lane.WORK))
            while waiting:
                waiting = [alert_id for alert_id in waiting if await self._show(alert_id)]

    async def _show(self, alert_id: str) -> bool:
        """Show an alert what has come, up to a limit; say whether there is more."""
        try:
            for _ in range(_STEPS_AT_ONCE):
                if not await self.take_step(alert_id):
                    return False
                await asyncio.sleep(PAUSE_SECONDS)
        except (DatabaseUnavailable, ReadTooSlow):
            raise
        except Exception:  # the others go on
            _LOGGER.exception("Alert %s on traces failed; it is tried again", alert_id)
            return False
        return True

    async def take_step(self, alert_id: str) -> bool:
        """Show an alert some traces; say whether there are more for it."""
        alert = await self._database.read(partial(read_alert, alert_id=alert_id), Lane.WORK)
        if alert is None:
            return False
        read = partial(read_step, source=alert.source, after=alert.row.after, patience=self._patience)
        step = await self._traces.read(read, Lane.WORK)
        # In a thread: a baseline takes a while to be learned.
        progress = await asyncio.to_thread(go_on, alert, step)
        if not has_news(alert, progress):
            return False
        store = partial(store_progress, alert=alert, progress=progress)
        if await self._database.write(store):
            self._observed.add(number=len(step.observations))
            self._fired.add(number=sum(isinstance(event, Fired) for event in progress.events))
        return step.has_more
