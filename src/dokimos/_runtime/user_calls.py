"""Call users' functions, sync or async."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from dokimos._runtime.concurrency import call_in_thread


def is_async(function: object) -> bool:
    """Say whether a function is async, or a partial of one, or an object whose `__call__` is."""
    while isinstance(function, partial):
        function = function.func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - an object may have an async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def call_user_function(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function on the event loop where it is async, in a thread where it is not."""
    if is_async(function):
        return await function(*args, **kwargs)
    # A lambda around an async function is sync, and what it returns has still to be awaited.
    return await await_value(await call_in_thread(partial(function, *args, **kwargs)))


async def await_value(value: Any) -> Any:
    """Await the result of users' code until it is a value: a coroutine, or a thread's or process's future."""
    while is_awaitable(value):
        value = await (asyncio.wrap_future(value) if isinstance(value, Future) else value)
    return value


def is_awaitable(value: object) -> bool:
    """Say whether a value has to be awaited."""
    return isinstance(value, Future) or inspect.isawaitable(value)
