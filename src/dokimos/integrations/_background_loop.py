"""A background event loop: clients of frameworks keep connections open, which belong to one event loop."""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from dokimos._runtime.concurrency import loop_ends_soon

R = TypeVar("R")

CLOSING_SECONDS: Final = 1.0
"""How long the loop gets to end when the process does."""


def run_on_background_loop(function: Callable[..., Awaitable[R]]) -> Callable[..., Coroutine[Any, Any, R]]:
    """Return a function that awaits `function` on the running loop, if that is the caller's own.

    Where `run_sync` made the running loop for one call, the function runs on a background loop that lasts as
    long as the process instead, so that the connections of an agent are still open in the next call.
    """

    @functools.wraps(function)
    async def run_on_loop(*args: Any) -> R:
        if not loop_ends_soon():
            return await function(*args)
        future = asyncio.run_coroutine_threadsafe(_await_call(function, args), _background_loop())
        return await asyncio.wrap_future(future)

    return run_on_loop


async def _await_call(function: Callable[..., Awaitable[R]], args: tuple[Any, ...]) -> R:
    return await function(*args)  # run_coroutine_threadsafe takes no other awaitables than coroutines


_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of this process by process id: a forked child starts without one."""


def _background_loop() -> asyncio.AbstractEventLoop:
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            thread = threading.Thread(target=_serve, args=(loop,), name="dokimos-agents", daemon=True)
            thread.start()
            atexit.register(_stop, loop, thread)
        return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    pending = asyncio.all_tasks(loop)
    for task in pending:
        task.cancel()
    if pending:
        loop.run_until_complete(asyncio.wait(pending, timeout=CLOSING_SECONDS / 2))
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if thread.is_alive():  # the thread does not exist in a forked child
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSING_SECONDS)
