"""Claims of the servers on one PostgreSQL."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._db.postgres_connection import DRIVER_ERRORS, connect
from dokimos.server._settings import ServerSettings

_LEASE_SECONDS: Final = 60.0
"""How long PostgreSQL waits for a sign of a session before it ends it, and with it its claims.

A server that stands still keeps its connection open: without this, its claims would keep all others from work
until it goes on. It is PostgreSQL that measures the time, so no clock of a server decides.
"""
_SIGN_SECONDS: Final = 15.0
"""How often a server gives one."""
_LOST: Final = (OSError, TimeoutError, *DRIVER_ERRORS)


class PostgresClaims:
    """Advisory locks of one session, which PostgreSQL releases as soon as that session ends.

    A server that is killed loses its claims at once, one that stands still for longer than the lease loses
    them too, and one that is slow keeps them. The session is begun when it is first needed; it takes a
    connection of its own.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._connection: Any = None
        self._turn = asyncio.Lock()  # a connection runs one statement at a time
        self._held: set[str] = set()
        """In this process; a session gets a lock that it holds already."""
        self._tasks: set[asyncio.Task[bool]] = set()
        self._is_closed = False

    @asynccontextmanager
    async def claim(self, name: str) -> AsyncIterator[bool]:
        """Claim a piece of work, as `Claims` says."""
        if name in self._held:
            yield False
            return
        self._held.add(name)
        # Tasks of their own: whoever is cancelled while PostgreSQL locks must not leave the lock behind.
        locking = self._start(self._lock(name))
        try:
            yield await asyncio.shield(locking)
        finally:
            await asyncio.shield(self._start(self._release(name, locking)))

    async def close(self) -> None:
        """End the session, and with it all claims."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._disconnect()

    def _start(self, work: Any) -> asyncio.Task[bool]:
        task: asyncio.Task[bool] = asyncio.create_task(work, name="dokimos claim")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _lock(self, name: str) -> bool:
        return bool(await self._execute("SELECT pg_try_advisory_lock($1)", name))

    async def _release(self, name: str, locking: asyncio.Task[bool]) -> bool:
        try:
            with suppress(DatabaseUnavailable):  # the session has ended, and its locks with it
                if await locking:
                    await self._execute("SELECT pg_advisory_unlock($1)", name)
        finally:
            self._held.discard(name)
        return True

    async def _execute(self, statement: str, name: str) -> Any:
        async with self._turn:
            if self._is_closed:
                raise DatabaseUnavailable("The database is closed.")
            try:
                if self._connection is None or self._connection.is_closed():
                    await self._connect()
                return await self._connection.fetchval(statement, _key_of(name))
            except _LOST as error:
                self._disconnect()  # whether the lock was taken is not known
                raise DatabaseUnavailable(str(error) or type(error).__name__) from error

    async def _connect(self) -> None:
        self._connection = await connect(self._settings, "dokimos claims")
        # Not as a parameter of the connection, which PgBouncer refuses.
        await self._connection.execute(f"SET idle_session_timeout = {round(_LEASE_SECONDS * 1000)}")
        self._start(self._keep_session(self._connection))

    async def _keep_session(self, session: Any) -> bool:
        """Give PostgreSQL signs of life while a session lasts."""
        while True:
            await asyncio.sleep(_SIGN_SECONDS)
            async with self._turn:
                if session is not self._connection or session.is_closed():
                    return False
                try:
                    await session.fetchval("SELECT 1")
                except _LOST:
                    self._disconnect()
                    return False

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def _key_of(name: str) -> int:
    """Return the number by which PostgreSQL knows a lock: 64 bits."""
    digest = hashlib.sha256(f"dokimos {name}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
