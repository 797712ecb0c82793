"""Work that the server does again and again while it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._services.audit.audited_database import CURRENT_WORK

_LOGGER: Final = logging.getLogger("dokimos.server")
PAUSE_SECONDS: Final = 0.02
"""Between two transactions of something long, so that those of requests come in between."""

_CANCEL_SECONDS: Final = 5.0


@asynccontextmanager
async def run_periodically(
    name: str, action: Callable[[], Awaitable[object]], seconds: float, *, delay: float = 0.0
) -> AsyncIterator[None]:
    """Run an action after a delay and then every so many seconds, until the context ends.

    An action that fails is logged and tried again at the next time. One that is under way when the context
    ends is cancelled: each of its transactions is complete or undone.
    """
    task = asyncio.create_task(_repeat(name, action, seconds, delay), name=f"dokimos {name}")
    try:
        yield
    finally:
        await end_task(task)


async def end_task(task: asyncio.Task[None], *, patience: float = _CANCEL_SECONDS) -> None:
    """Cancel a task, and wait for its end.

    Again and again: a driver that is just connecting or rolling back may raise an error of its own in place
    of the cancellation, after which the task would go on as if nobody had asked it to end.

    Args:
        task: What goes on until it is cancelled.
        patience: Seconds that it may take to end.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=patience)
    if not task.cancelled():
        task.result()


def is_asked_to_end() -> bool:
    """Whether this task was cancelled, also where an error took the place of that (see `end_task`)."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def repeat_until_done(step: Callable[[], Awaitable[int]]) -> int:
    """Run a step again and again until it does nothing; return the sum of what the steps return.

    Args:
        step: Does a small part of something long, and returns how much it did, 0 when nothing is left.
    """
    total = 0
    while count := await step():
        total += count
        await asyncio.sleep(PAUSE_SECONDS)
    return total


async def _repeat(name: str, action: Callable[[], Awaitable[object]], seconds: float, delay: float) -> None:
    CURRENT_WORK.set(name)  # who the audit log says has changed what this changes
    await asyncio.sleep(delay)
    while not is_asked_to_end():
        try:
            await action()
        except DatabaseUnavailable as error:
            _LOGGER.warning("%s: the database is not available: %s", name, error)
        except Exception:
            _LOGGER.exception("%s failed; it is tried again in %g seconds", name, seconds)
        if not is_asked_to_end():
            await asyncio.sleep(seconds)
