"""A channel of PostgreSQL, through which the servers on one database tell each other what has happened."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from dokimos.server._db.postgres_connection import DRIVER_ERRORS, connect
from dokimos.server._settings import ServerSettings

_LOGGER: Final = logging.getLogger("dokimos.server")
CHANNEL: Final = "dokimos_events"
APPLICATION: Final = "dokimos events"
"""What `pg_stat_activity` shows of the connection that each server keeps for as long as it runs."""
_MAX_BYTES: Final = 7900
"""Of one notification; PostgreSQL takes less than 8,000."""
_WAITING: Final = 10_000
"""Messages that may wait until the database is back: few, since nothing is stored while it is away."""
_ALIVE_SECONDS: Final = 15.0
"""How often a connection on which nothing happens is tried, so that one that is dead is noticed."""
_RETRY_SECONDS: Final = 1.0
_FLUSH_SECONDS: Final = 2.0


class PostgresChannel:
    """One connection that sends what this server tells, and hears what all of them tell, this one too.

    PostgreSQL hands notifications to all listeners in the same order. Nothing is sent inside the transaction
    that it is about: commits with a notification take turns in the whole database, each until it is on disk.

    Args:
        receive: Called with each message, a value of JSON.
        lose: Called when messages may have been lost: each time a connection begins.
    """

    def __init__(
        self, settings: ServerSettings, receive: Callable[[Any], None], lose: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._receive = receive
        self._lose = lose
        self._waiting: deque[str] = deque(maxlen=_WAITING)
        self._wake = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def send(self, message: str) -> None:
        """Send a message soon: JSON that is shorter than a notification may be."""
        self._waiting.append(message)
        self._is_idle.clear()
        self._wake.set()

    async def flush(self) -> None:
        """Wait until what was sent is on its way, or for a moment where the database is away."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._is_idle.wait()

    async def run(self) -> None:
        """Stay connected until cancelled."""
        while True:
            try:
                await self._stay_connected()
            except (OSError, TimeoutError, *DRIVER_ERRORS) as error:
                reason = str(error) or type(error).__name__
                _LOGGER.warning("The connection for events was lost; it is tried again: %s", reason)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _stay_connected(self) -> None:
        connection = await connect(self._settings, APPLICATION)
        try:
            connection.add_termination_listener(lambda _: self._wake.set())
            await connection.add_listener(CHANNEL, self._hear)
            self._lose()  # the first time too: clients may have come before, and other servers go on
            while True:
                await self._send_waiting(connection)
                await self._wait(connection)
        finally:
            connection.terminate()

    def _hear(self, _connection: object, _process: int, _channel: str, payload: str) -> None:
        try:
            messages = json.loads(payload)
        except ValueError:
            messages = None
        if not isinstance(messages, list):
            _LOGGER.warning("A notification on the channel %s is not from this program.", CHANNEL)
            return
        for message in messages:
            self._receive(message)

    async def _send_waiting(self, connection: Any) -> None:
        while self._waiting:
            batch = self._take_batch()
            try:
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, f"[{','.join(batch)}]")
            except BaseException:
                self._waiting.extendleft(reversed(batch))  # perhaps it was sent: receivers know by its id
                raise
        self._is_idle.set()

    def _take_batch(self) -> list[str]:
        batch = [self._waiting.popleft()]
        size = len(batch[0].encode())
        while self._waiting:
            size += len(self._waiting[0].encode()) + 1
            if size > _MAX_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _wait(self, connection: Any) -> None:
        try:
            async with asyncio.timeout(_ALIVE_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            await connection.execute("SELECT 1")
        self._wake.clear()
        if connection.is_closed():
            raise ConnectionResetError("the database closed it")
