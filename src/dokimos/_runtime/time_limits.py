"""Time limits of calls, which do not count the time that a call waits before it is sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any, Final

_AHEAD_SECONDS: Final = 0.001


class ExtraTime:
    """The seconds that a call has on top of its limit."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


_extra: Final[ContextVar[tuple[ExtraTime, ...]]] = ContextVar("dokimos_extra_time", default=())
"""What the limits have on top inside which this code runs."""


@contextlib.contextmanager
def count_extra_time() -> Iterator[ExtraTime]:
    """Count what calls that are begun in the block wait for endpoints."""
    extra = ExtraTime()
    token = _extra.set((*_extra.get(), extra))
    try:
        yield extra
    finally:
        _extra.reset(token)


def give_extra_time(seconds: float) -> None:
    """Give the calls inside which this code runs more time: nobody was asked for an answer yet."""
    for extra in _extra.get():
        extra.seconds += seconds


async def wait_with_limit(work: asyncio.Future[Any], seconds: float, extra: ExtraTime) -> None:
    """Wait until something is done, for as long as it may take."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    while not work.done() and (left := start + seconds + extra.seconds - loop.time()) > 0:
        await asyncio.wait((work,), timeout=left)


@contextlib.asynccontextmanager
async def limit_time(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Raise `TimeoutError` where the block takes longer than `seconds` and what is waited for endpoints."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    with count_extra_time() as extra:
        async with asyncio.timeout_at(start + seconds) as limit:
            # Extra time is granted where nobody knows this limit, so the limit looks for it just before it
            # ends.
            timers: list[asyncio.TimerHandle] = []

            def look() -> None:
                """Put the end off, just before it."""
                end = start + seconds + extra.seconds
                if end > (limit.when() or end):
                    limit.reschedule(end)
                    timers[:] = [loop.call_at(end - _AHEAD_SECONDS, look)]

            timers.append(loop.call_at(start + seconds - _AHEAD_SECONDS, look))
            try:
                yield limit
            finally:
                timers[-1].cancel()


def retrieve_exception(ended: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a future, so that asyncio does not log that it was never retrieved."""
    if not ended.cancelled():
        ended.exception()
