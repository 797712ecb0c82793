"""The worker that adds up the hours of traces by the day, for dashboards of a month."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.database import Database, Lane
from dokimos.server._services.traces.day_rollups import (
    OwnerKey,
    add_up_days,
    choose_days,
    list_owners,
    store_rollups,
)
from dokimos.server._workers.periodic import PAUSE_SECONDS

ROLLUP_SECONDS: Final = 3600.0
ROLLUP_DELAY_SECONDS: Final = 60.0
"""After the start, which has other things to read."""
_CLAIM: Final = "adding up days of traces"
_OWNERS_AT_ONCE: Final = 100
_DAYS_AT_ONCE: Final = 5


async def roll_up_days(traces: Database, *, clock: Callable[[], int] = now) -> int:
    """Add up the days that are over, and those that have changed since; return how many.

    One server at a time does that, in small parts: after an upgrade there may be years of days. A day that
    changes meanwhile is added up by the next run.

    Args:
        traces: The database of traces.
        clock: Returns the time in microseconds.
    """
    async with traces.claim(_CLAIM) as is_ours:
        if not is_ours:
            return 0
        count = 0
        place: OwnerKey | None = None
        while owners := await traces.read(
            partial(list_owners, after=place, limit=_OWNERS_AT_ONCE), Lane.WORK
        ):
            place = owners[-1]
            for owner in owners:
                count += await _roll_up(traces, owner, clock())
        return count


async def _roll_up(traces: Database, owner: OwnerKey, moment: int) -> int:
    days = await traces.read(partial(choose_days, owner=owner, moment=moment), Lane.WORK)
    for part in in_batches(days, _DAYS_AT_ONCE):
        rollups = await traces.read(partial(add_up_days, owner=owner, days=part), Lane.WORK)
        await traces.write(partial(store_rollups, rollups=rollups), background=True)
        await asyncio.sleep(PAUSE_SECONDS)
    return len(days)
