"""Calls that wait for one another, for agents that remember and serve one caller at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

P = ParamSpec("P")
R = TypeVar("R")


def one_at_a_time(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Return `function` with calls that wait for one another where they are made on one event loop."""
    locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def waiting(*args: P.args, **kwargs: P.kwargs) -> R:
        lock = locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            return await function(*args, **kwargs)

    return waiting
