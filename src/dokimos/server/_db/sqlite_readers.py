"""The threads that read SQLite, and what ends a read that takes too long."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from dokimos.server._db.database import DatabaseUnavailable, Lane, ReadersBusy, ReadTooSlow
from dokimos.server._db.sqlite_errors import has_transaction, is_outage

T = TypeVar("T")
_THREADS: Final = {Lane.PAGE: 4, Lane.SEARCH: 2, Lane.KEY: 1, Lane.WORK: 2}
_REPEAT_SECONDS: Final = 0.05


class SqliteReaders:
    """A few threads for each lane, each with a connection of its own.

    Args:
        connect: Opens a connection.
        seconds: How long a read may take, except in the lane of work; 0 for as long as it needs.
    """

    def __init__(self, connect: Callable[[], Connection], seconds: float) -> None:
        self._connect = connect
        self._seconds = seconds or None
        self._local = threading.local()
        self._connections: set[Connection] = set()
        self._threads = {
            lane: ThreadPoolExecutor(count, thread_name_prefix=f"dokimos-sqlite-{lane.value}")
            for lane, count in _THREADS.items()
        }

    async def read(self, query: Callable[[Connection], T], lane: Lane) -> T:
        """Run a query; it is interrupted where it takes too long, or whoever waits for it is cancelled."""
        limit = None if lane is Lane.WORK else self._seconds
        read = _Read(query, asyncio.get_running_loop())
        running = self._threads[lane].submit(copy_context().run, self._run, read)
        try:
            async with asyncio.timeout(limit):
                return await asyncio.wrap_future(running)
        except TimeoutError:
            assert limit is not None
            if read.seconds < limit / 2:  # what took long is the wait for others
                raise ReadersBusy("All readers of the database are busy.") from None
            raise ReadTooSlow(limit, lane) from None
        finally:
            if not running.done() and not running.cancel():
                read.stop()

    def close(self) -> None:
        """Wait for the reads that are under way, and close the connections."""
        for threads in self._threads.values():
            threads.shutdown()
        for connection in self._connections:
            connection.close()

    def _run(self, read: _Read[T]) -> T:
        try:
            connection = self._connection_of_thread()
            try:
                return read.run(connection)
            finally:
                if has_transaction(connection):
                    self._discard(connection)
        except OperationalError as error:
            if not is_outage(error):
                raise
            raise DatabaseUnavailable(str(error.orig)) from error

    def _connection_of_thread(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            self._connections.add(connection)
        return connection

    def _discard(self, connection: Connection) -> None:
        """Close a connection whose transaction did not end, since it was interrupted while it did.

        It would refuse to begin the next one, and keep its snapshot, with all that is written after it.
        """
        self._local.connection = None
        self._connections.discard(connection)
        with suppress(SQLAlchemyError):
            connection.invalidate()  # closes it without another attempt to end the transaction
            connection.close()


class _Read(Generic[T]):
    """A query on its thread, which the event loop can stop."""

    def __init__(self, query: Callable[[Connection], T], loop: asyncio.AbstractEventLoop) -> None:
        self._query = query
        self._loop = loop
        self._lock = threading.Lock()
        """So that what is interrupted is this read, and never the next one on the same connection."""
        self._running: sqlite3.Connection | None = None
        self._is_stopped = False
        self._began_at = float("inf")

    @property
    def seconds(self) -> float:
        """For how long the query has been running; 0 where it still waits for a thread."""
        return max(0.0, time.monotonic() - self._began_at)

    def run(self, connection: Connection) -> T:
        """Run the query, on one snapshot of the data."""
        driver: Any = connection.connection.driver_connection
        with self._lock:
            if self._is_stopped:
                raise ReadersBusy("Nobody waits for this read any more.")
            self._running = driver
            self._began_at = time.monotonic()
        try:
            with connection.begin():
                return self._query(connection)
        finally:
            with self._lock:
                self._running = None

    def stop(self) -> None:
        """Interrupt the query, again and again until it ends: between two statements it does not hear."""
        with self._lock:
            self._is_stopped = True
            if self._running is None:
                return
            self._running.interrupt()
        self._loop.call_later(_REPEAT_SECONDS, self.stop)
