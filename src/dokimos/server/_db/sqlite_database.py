"""SQLite: one thread that writes, with group commit, and a few that read."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DatabaseError, OperationalError

from dokimos.server._db import clock
from dokimos.server._db.claims import LocalClaims
from dokimos.server._db.database import DatabaseUnavailable, Lane
from dokimos.server._db.migrate import MIGRATIONS, Migrations, migrate
from dokimos.server._db.outbox import Deliver, drop_messages, open_outbox
from dokimos.server._db.sqlite_connection import (
    limit_log,
    open_engine,
    set_outside_transaction,
    sync_commits,
    use_wal,
)
from dokimos.server._db.sqlite_errors import has_transaction, is_outage
from dokimos.server._db.sqlite_readers import SqliteReaders

T = TypeVar("T")
_LOGGER: Final = logging.getLogger("dokimos.server")
_MIN_VERSION: Final = (3, 37, 0)  # STRICT tables
_MAX_GROUP: Final = 64
"""Transactions that share one fsync at most: a longer group would hold up its first one."""
_LARGE_CACHE_KIB: Final = 128 * 1024
"""For a transaction of millions of rows, whose indexes grow in many places."""
TRACE_CACHE_KIB: Final = 8000
"""Pages that the thread keeps that stores spans. Twice as many save 3 % of what it reads, and no CPU."""
TRACE_LOG_BYTES: Final = 16 * 1024 * 1024
"""Of the log of traces before what is in it goes into the file: four times what SQLite begins with, so that
more of the pages of indexes, which most batches change again, are written there once."""
_LARGE_PAGE: Final = 8192
"""Bytes of a page of a file that holds spans, which are larger than items: half as many pages are written.
Twice as large, they would cost the most where spans come one by one."""


class SqliteDatabase:
    """One file, in WAL mode, with `synchronous=FULL`: a change that was acknowledged survives a power cut.

    All changes go through one thread. It takes those that wait, runs each in a savepoint, and commits them
    together, which is group commit: under load many requests share the fsync that dominates a small
    transaction, and no two writers ever wait for the lock of the file. (`benchmarks/server_ingestion.py`
    measures what that saves.) All of them come from the event loop that opened the database.
    """

    dialect = "sqlite"

    def __init__(
        self,
        path: Path,
        read_timeout: float,
        migrations: Migrations = MIGRATIONS,
        *,
        write_cache_kib: int | None = None,
        log_bytes: int | None = None,
    ) -> None:
        self._path = path
        self._migrations = migrations
        self._read_timeout = read_timeout
        self._write_cache_kib = write_cache_kib
        self._log_bytes = log_bytes
        self._queue = _WriteQueue()
        self._writer: threading.Thread | None = None
        self._readers: SqliteReaders | None = None
        self._deliver: Deliver = drop_messages
        self._claims = LocalClaims()

    @property
    def connections(self) -> Mapping[str, float]:
        return {}

    async def open(self) -> None:
        if sqlite3.sqlite_version_info < _MIN_VERSION:
            version = ".".join(map(str, _MIN_VERSION))
            raise DatabaseUnavailable(
                f"SQLite {sqlite3.sqlite_version} is too old; the server needs {version} or newer, "
                "or PostgreSQL."
            )
        await self.follow_clock()
        opened: Future[None] = Future()
        self._writer = threading.Thread(
            target=self._write_changes,
            args=(opened, asyncio.get_running_loop()),
            name="dokimos-sqlite-writer",
            daemon=True,
        )
        self._writer.start()
        await asyncio.wrap_future(opened)
        self._readers = SqliteReaders(
            lambda: open_engine(self._path, begin="BEGIN").connect(), self._read_timeout
        )

    async def close(self) -> None:
        # Forgotten first: what came behind the end of the queue would wait for ever.
        readers, self._readers = self._readers, None
        writer, self._writer = self._writer, None
        loop = asyncio.get_running_loop()
        if readers is not None:
            await loop.run_in_executor(None, readers.close)
        if writer is not None:
            self._queue.end()
            await loop.run_in_executor(None, writer.join)

    async def follow_clock(self) -> None:
        clock.follow_machine()

    async def end_abandoned(self) -> None:
        return None  # no other server uses the file

    def deliver_to(self, deliver: Deliver) -> None:
        self._deliver = deliver

    def claim(self, name: str) -> AbstractAsyncContextManager[bool]:
        return self._claims.claim(name)

    async def read(self, query: Callable[[Connection], T], lane: Lane = Lane.PAGE) -> T:
        if self._readers is None:
            raise DatabaseUnavailable("The database is closed.")
        return await self._readers.read(query, lane)

    async def write(self, change: Callable[[Connection], T], *, background: bool = False) -> T:
        if self._writer is None or not self._writer.is_alive():
            raise DatabaseUnavailable("The database is closed.")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Change(change, done, background))
        try:
            return await done
        finally:
            del done  # an error that it raises has this frame in its traceback

    def _write_changes(self, opened: Future[None], loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            connection = open_engine(self._path, begin="BEGIN IMMEDIATE").connect()
            if self._migrations.reclaims_space:
                _lay_out_large_file(connection)
            if self._write_cache_kib is not None:
                set_outside_transaction(connection, f"cache_size=-{self._write_cache_kib}")
            use_wal(connection)
            if self._log_bytes is not None:
                limit_log(connection, self._log_bytes)
            with connection.begin():
                migrate(connection, self._migrations)
        except (OSError, DatabaseError, DatabaseUnavailable) as error:
            reason = getattr(error, "orig", None) or error
            opened.set_exception(DatabaseUnavailable(f"{self._path}: {reason}"))
            return
        except BaseException as error:
            opened.set_exception(error)
            return
        opened.set_result(None)
        while group := self._queue.take_group():
            _commit_group(connection, group)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_resolve_all, group, self._deliver)
        connection.close()


class _WriteQueue:
    """The changes that wait for the writer, of two kinds that take turns where both wait.

    Ordinary ones go in groups. One in the background goes alone, so that no other waits for longer than that
    one takes; and it has its turn after each group, so that it comes to its end under any load.
    """

    def __init__(self) -> None:
        self._arriving: queue.SimpleQueue[_Change | None] = queue.SimpleQueue()
        self._ordinary: deque[_Change] = deque()
        self._background: deque[_Change] = deque()
        self._is_open = True
        self._is_turn_of_background = False

    def put(self, change: _Change) -> None:
        self._arriving.put(change)

    def end(self) -> None:
        """Let `take_group` return what was put before, and then nothing."""
        self._arriving.put(None)

    def take_group(self) -> list[_Change]:
        """Wait for changes; return those that are next, none at the end."""
        self._sort_arriving()
        if self._background and (self._is_turn_of_background or not self._ordinary):
            self._is_turn_of_background = False
            return [self._background.popleft()]
        self._is_turn_of_background = True
        return [self._ordinary.popleft() for _ in range(min(_MAX_GROUP, len(self._ordinary)))]

    def _sort_arriving(self) -> None:
        with contextlib.suppress(queue.Empty):
            while self._is_open and len(self._ordinary) < _MAX_GROUP:
                change = self._arriving.get(block=not (self._ordinary or self._background))
                if change is None:
                    self._is_open = False
                else:
                    (self._background if change.background else self._ordinary).append(change)


def read_once(path: Path, query: Callable[[Connection], T]) -> T:
    """Run a query on one snapshot of the file, from a process of its own.

    Raises:
        DatabaseUnavailable: The file cannot be read.
    """
    engine = open_engine(path, begin="BEGIN")
    try:
        with engine.connect() as connection, connection.begin():
            return query(connection)
    except OperationalError as error:
        if not is_outage(error):
            raise
        raise DatabaseUnavailable(str(error.orig)) from error


def write_once(path: Path, change: Callable[[Connection], T]) -> T:
    """Run a change of any size as one transaction, from the only process that writes to the file.

    Raises:
        DatabaseUnavailable: The file cannot be written.
    """
    engine = open_engine(path, begin="BEGIN IMMEDIATE")
    try:
        with engine.connect() as connection:
            use_wal(connection)
            set_outside_transaction(connection, f"cache_size=-{_LARGE_CACHE_KIB}")
            with connection.begin():
                return change(connection)
    except OperationalError as error:
        if not is_outage(error):
            raise
        raise DatabaseUnavailable(str(error.orig)) from error


def build_file(path: Path, change: Callable[[Connection], T], *, reclaims_space: bool = False) -> T:
    """Write a new file, without the means to undo anything: it is worth nothing until this returns.

    With `reclaims_space`, it gives back what removed rows took, and has large pages.

    Raises:
        DatabaseUnavailable: The file cannot be written.
    """
    engine = open_engine(path, begin="BEGIN IMMEDIATE")
    try:
        with engine.connect() as connection:
            if reclaims_space:
                _lay_out_large_file(connection)
            for setting in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{_LARGE_CACHE_KIB}"):
                set_outside_transaction(connection, setting)
            with connection.begin():
                result = change(connection)
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
    except OperationalError as error:
        if not is_outage(error):
            raise
        raise DatabaseUnavailable(str(error.orig)) from error
    return result


def _lay_out_large_file(connection: Connection) -> None:
    """Choose what a file decides on before its first table, and keeps; one that has tables stays as it is."""
    set_outside_transaction(connection, f"page_size={_LARGE_PAGE}")
    set_outside_transaction(connection, "auto_vacuum=INCREMENTAL")


def leave_wal(path: Path) -> None:
    """Bring what the log beside a file holds into the file, and remove it, before another file comes there.

    A log that stayed beside the other file would be taken for that one's.

    Raises:
        DatabaseUnavailable: Another process has the file open.
    """
    try:
        if path.exists():
            with open_engine(path, begin="BEGIN").connect() as connection:
                set_outside_transaction(connection, "journal_mode=DELETE")
    except (DatabaseError, sqlite3.DatabaseError) as error:
        reason = getattr(error, "orig", None) or error
        if isinstance(reason, sqlite3.OperationalError):  # it is locked
            raise DatabaseUnavailable(str(reason)) from error
        # It is damaged: there is nothing to bring into it.
    for suffix in ("-wal", "-shm"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


class _Change:
    """One change that waits for the writer, its outcome, and the future of whoever waits for that."""

    __slots__ = ("background", "change", "context", "done", "error", "outbox", "result")

    def __init__(
        self, change: Callable[[Connection], Any], done: asyncio.Future[Any], background: bool
    ) -> None:
        self.change = change
        self.done: asyncio.Future[Any] | None = done
        self.background = background
        self.context = copy_context()  # for what is logged on the way: which request it belongs to
        self.result: object = None
        self.error: BaseException | None = None
        self.outbox: list[object] = []

    def run(self, connection: Connection) -> None:
        self.outbox = open_outbox(connection)
        self.result = self.context.run(self.change, connection)

    def resolve(self) -> None:
        """Tell whoever waits.

        Nothing here leads to the error afterwards, which has the change in its traceback: what was sent would
        stay in memory until the garbage collector finds the circle.
        """
        done, self.done = self.done, None
        error, self.error = self.error, None
        if done is None or done.cancelled():  # the client hung up; what it sent is still stored
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(self.result)


def _commit_group(connection: Connection, group: list[_Change]) -> None:
    """Run the changes of a group and commit them at once; whatever happens, each has its outcome then."""
    try:
        # A change in the background, which is a group of its own, is a part that nobody sees before an
        # ordinary change completes the whole; the commit of that one brings those before it to the disk too.
        sync_commits(connection, must_sync=not group[0].background)
        if len(group) == 1:
            _commit_one(connection, group[0])
        else:
            _commit_in_savepoints(connection, group)
    except BaseException as error:  # SQLite could not store (a full disk, for example): nothing was kept
        _LOGGER.error("The database could not store %d changes: %s", len(group), error)
        reason = str(getattr(error, "orig", None) or error)
        for change in group:
            change.error = DatabaseUnavailable(reason)


def _commit_one(connection: Connection, change: _Change) -> None:
    with connection.begin() as transaction:
        try:
            change.run(connection)
        except BaseException as error:
            if isinstance(error, OperationalError) and is_outage(error):
                raise
            change.error = error
            transaction.rollback()


def _commit_in_savepoints(connection: Connection, group: list[_Change]) -> None:
    """Run each change in a savepoint: one that raises is undone alone, and its caller gets the error."""
    with connection.begin():
        for change in group:
            try:
                with connection.begin_nested():
                    change.run(connection)
            except BaseException as error:
                # A full disk or an unreadable page may have made SQLite undo the whole transaction.
                if not has_transaction(connection) or (
                    isinstance(error, OperationalError) and is_outage(error)
                ):
                    raise
                change.error = error


def _resolve_all(group: list[_Change], deliver: Deliver) -> None:
    for change in group:
        is_stored = change.error is None
        change.resolve()
        if is_stored and change.outbox:
            deliver(change.outbox)
