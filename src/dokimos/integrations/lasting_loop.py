"""An event loop that lasts: clients of frameworks keep connections open, and those belong to one loop."""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from dokimos.runtime.concurrency import loop_ends_soon

R = TypeVar("R")

CLOSING_SECONDS: Final = 1.0
"""How long the loop gets to end when the process does."""


def on_lasting_loop(function: Callable[..., Awaitable[R]]) -> Callable[..., Coroutine[Any, Any, R]]:
    """Return a function that awaits `function` on the loop that is running, if that is the caller's own.

    Where `run_sync` made the running loop for one call, the function runs on a loop that lasts as long as the
    process instead, so that the connections of an agent are still good in the next call.
    """

    @functools.wraps(function)
    async def lasting(*args: Any) -> R:
        if not loop_ends_soon():
            return await function(*args)
        future = asyncio.run_coroutine_threadsafe(_awaited(function, args), _lasting_loop())
        return await asyncio.wrap_future(future)

    return lasting


async def _awaited(function: Callable[..., Awaitable[R]], args: tuple[Any, ...]) -> R:
    return await function(*args)


_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of this process, by its id: a forked child has none of its own yet."""


def _lasting_loop() -> asyncio.AbstractEventLoop:
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            thread = threading.Thread(target=_serve, args=(loop,), name="dokimos-agents", daemon=True)
            thread.start()
            atexit.register(_end, loop, thread)
        return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    leftover = asyncio.all_tasks(loop)
    for task in leftover:
        task.cancel()
    if leftover:
        loop.run_until_complete(asyncio.wait(leftover, timeout=CLOSING_SECONDS / 2))
    loop.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if thread.is_alive():  # it is not in a forked child
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSING_SECONDS)
