"""Work that the server does again and again while it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from dokimos.server._db.database import DatabaseUnavailable

_LOGGER: Final = logging.getLogger("dokimos.server")


@asynccontextmanager
async def run_periodically(
    name: str, action: Callable[[], Awaitable[object]], seconds: float
) -> AsyncIterator[None]:
    """Run an action now and then every so many seconds, until the context ends.

    An action that fails is logged and tried again at the next time. One that is under way when the context
    ends is cancelled: each of its transactions is complete or undone.
    """
    task = asyncio.create_task(_repeat(name, action, seconds), name=f"dokimos {name}")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _repeat(name: str, action: Callable[[], Awaitable[object]], seconds: float) -> None:
    while True:
        try:
            await action()
        except DatabaseUnavailable as error:
            _LOGGER.warning("%s: the database is not available: %s", name, error)
        except Exception:
            _LOGGER.exception("%s failed; it is tried again in %g seconds", name, seconds)
        await asyncio.sleep(seconds)
