"""Bounds the exports that are received and not on disk yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from dokimos.server._services.errors import UnavailableError

_PARSED_BYTES: Final = 8 * 1024 * 1024
"""Bytes of exports that are parsed and stored at once, beyond the first one."""


class IngestionQueue:
    """Bounds the exports that are not on disk yet.

    It counts the bytes of those that are received, and refuses more than there may be. Parsed, an export
    takes many times its size, so only some bytes are parsed at a time; the others wait as they were sent.
    """

    def __init__(self, limit: int, parsed_limit: int = _PARSED_BYTES) -> None:
        self._limit = limit
        self._parsed_limit = parsed_limit
        self._bytes = 0
        self.refused_count = 0
        """Exports that were refused because too much was waiting."""
        self._parsed = 0
        self._turns: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of exports that are received, parsed or stored at the moment."""
        return self._bytes

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts more bytes of an export, which are given back in the end.

        It raises `UnavailableError` where there are too many.
        """
        held = 0

        def add(size: int) -> None:
            nonlocal held
            # One alone is taken however large it is: the limit of a body says how large.
            if self._bytes > held and self._bytes + size > self._limit:
                self.refused_count += 1
                raise UnavailableError(
                    "The server stores as many traces as it can at the moment; send this export again.",
                    retry_seconds=2,
                )
            held += size
            self._bytes += size

        try:
            yield add
        finally:
            self._bytes -= held

    @asynccontextmanager
    async def take_turn(self, size: int) -> AsyncIterator[None]:
        """Wait until an export of a size may be parsed, in the order of arrival; it may until the end."""
        if self._turns or not self._has_room(size):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._turns.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # its turn came at this moment
                    self._end_turn(size)
                raise
        else:
            self._parsed += size
        try:
            yield
        finally:
            self._end_turn(size)

    def _has_room(self, size: int) -> bool:
        return self._parsed == 0 or self._parsed + size <= self._parsed_limit

    def _end_turn(self, size: int) -> None:
        self._parsed -= size
        while self._turns and (self._turns[0][1].done() or self._has_room(self._turns[0][0])):
            following, turn = self._turns.popleft()
            if not turn.done():  # else its client has hung up
                self._parsed += following
                turn.set_result(None)
