"""Ending a pool of workers: waiting for them, with a limit after a stop, or abandoning them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from dokimos._runtime.time_limits import retrieve_exception

ABANDON_SECONDS: Final = 0.4
"""How long workers get to end when a run is cut short."""

STOP_SECONDS: Final = 5.0
"""How long calls in flight may still take when `max_errors` has stopped a run."""


async def wait_for_workers(workers: Sequence[asyncio.Task[None]], stop: asyncio.Event) -> None:
    """Wait until all workers have ended, from `stop` on at most `STOP_SECONDS`.

    Raises what the first one raised.
    """
    everyone = asyncio.gather(*workers)
    everyone.add_done_callback(retrieve_exception)
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((everyone, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not everyone.done():
            await asyncio.wait((everyone,), timeout=STOP_SECONDS)
    finally:
        stopped.cancel()
    if everyone.done():
        everyone.result()


async def abandon(workers: Sequence[asyncio.Task[None]]) -> None:
    """Cancel the workers and wait briefly; those that do not end are left behind."""
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers, timeout=ABANDON_SECONDS)
    for worker in workers:
        worker.add_done_callback(retrieve_exception)
