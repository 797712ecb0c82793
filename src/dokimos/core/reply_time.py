"""A limit on the time of a reply, which waiting for an endpoint before it is asked is no part of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Final

_Limit = tuple[asyncio.AbstractEventLoop, asyncio.Timeout]
_limit: Final[ContextVar[_Limit | None]] = ContextVar("dokimos_reply_limit", default=None)


@contextlib.asynccontextmanager
async def limit_reply(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Raise `TimeoutError` where the block takes longer than `seconds`, but for what was waited before."""
    async with asyncio.timeout(seconds) as limit:
        token = _limit.set((asyncio.get_running_loop(), limit))
        try:
            yield limit
        finally:
            _limit.reset(token)


def extend_reply(seconds: float) -> None:
    """Give the reply that is waited for more time: nobody was asked for it yet."""
    found = _limit.get()
    if found is None:
        return
    loop, limit = found
    when = limit.when()
    if when is not None and loop is asyncio.get_running_loop() and not limit.expired():
        with contextlib.suppress(RuntimeError):  # the reply was given up meanwhile
            limit.reschedule(when + seconds)
