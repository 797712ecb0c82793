"""What is asked before a request is sent once more that its provider may bill already.

A request may have no answer although it was done: the model did its work, and then the
connection was cut. Whoever keeps accounts of such calls pays for the next attempt, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_before_repeat: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar(
    "dokimos_before_repeat", default=None
)


@contextmanager
def asking_before_repeats(ask: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """Await `ask` before each such repeat inside the block; what it raises ends the call."""
    token = _before_repeat.set(ask)
    try:
        yield
    finally:
        _before_repeat.reset(token)


async def ask_before_repeat() -> None:
    """Ask whoever is to be asked, if anybody."""
    ask = _before_repeat.get()
    if ask is not None:
        await ask()
