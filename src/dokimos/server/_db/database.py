"""A database that queries run on: SQLite or PostgreSQL.

A query is a plain function of a SQLAlchemy `Connection`; it runs on a thread of SQLite, or in the event loop
on PostgreSQL, and never awaits. One function is one transaction: what `write` returned is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from dokimos.server._clickhouse_address import parse_clickhouse_url
from dokimos.server._db.claims import Claims
from dokimos.server._db.migrate import TRACE_MIGRATIONS
from dokimos.server._db.outbox import Deliver
from dokimos.server._db.span_storage import SpanStorage, with_storage
from dokimos.server._settings import ServerSettings

T = TypeVar("T")


class DatabaseUnavailable(Exception):
    """The database does not answer, or cannot store: nothing of the transaction was kept."""


class Overtaken(Exception):
    """Another transaction has changed what this one builds on: the database runs it again from the start.

    Only on PostgreSQL: on SQLite, changes come one after the other.
    """


class ReadersBusy(DatabaseUnavailable):
    """Other reads kept this one waiting until its time was over."""


class ReadTooSlow(Exception):
    """A read took longer than it may, and was stopped."""

    def __init__(self, seconds: float, lane: Lane) -> None:
        super().__init__(f"A read took longer than {seconds:g} seconds.")
        self.seconds = seconds
        self.lane = lane


class Lane(Enum):
    """What a read is for. Each lane has readers of its own, so that none can hold up the others."""

    PAGE = "page"
    """Something that somebody waits for: it may take as long as the settings say."""
    SEARCH = "search"
    """The same for a text, which may have to be looked for in every row."""
    KEY = "key"
    """Who calls, which every request waits for: slow pages must not hold up those that store something."""
    WORK = "work"
    """An export, a promotion, a comparison, the server's own work: it takes as long as it needs."""


class Database(Claims, Protocol):
    """Runs queries, and hands out claims."""

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        ...

    @property
    def connections(self) -> Mapping[str, float]:
        """How many connections there are, by what they do; none where there is no pool."""
        ...

    async def open(self) -> None:
        """Connect, and bring the schema up to date.

        Raises:
            DatabaseUnavailable: The database cannot be reached or used.
        """
        ...

    async def close(self) -> None:
        """Finish the writes that were accepted, and close all connections."""
        ...

    async def follow_clock(self) -> None:
        """Let the clock of the database count, where servers share one; called again and again.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        ...

    async def end_abandoned(self) -> None:
        """End what servers that stand still hold in the database, where servers share one; called often.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        ...

    def deliver_to(self, deliver: Deliver) -> None:
        """Hand what transactions post (`outbox.post`) to a function, once they are on disk."""
        ...

    async def read(self, query: Callable[[Connection], T], lane: Lane = Lane.PAGE) -> T:
        """Run a query that changes nothing, on one snapshot of the data; whoever is cancelled ends it.

        Raises:
            DatabaseUnavailable: The database does not answer.
            ReadersBusy: The readers of the lane were busy with others all the time.
            ReadTooSlow: It took longer than the settings allow, and was stopped.
        """
        ...

    async def write(self, change: Callable[[Connection], T], *, background: bool = False) -> T:
        """Run a change as one transaction; an exception undoes it. When this returns, the change is on disk.

        With `background`, the changes of others go first, and a power cut may still undo it until the next
        other one: for a small part of something long, of which nobody sees anything before its last part.

        Raises:
            DatabaseUnavailable: The database does not answer, or the disk is full.
        """
        ...


def open_database(settings: ServerSettings) -> Database:
    """Return the database that the settings name, not yet open."""
    if settings.database_url is not None:
        from dokimos.server._db.postgres_database import PostgresDatabase

        return PostgresDatabase(settings)
    from dokimos.server._db.sqlite_database import SqliteDatabase

    return SqliteDatabase(settings.sqlite_path, settings.read_timeout)


def open_trace_database(settings: ServerSettings) -> Database:
    """Return the database of the traces, not yet open: a file, a pool and a writer of its own."""
    database = _open_trace_rows(settings)
    if settings.traces.clickhouse_url is None:
        return database
    from dokimos.server._db.clickhouse_spans import ClickHouseSpanLayer

    address = parse_clickhouse_url(settings.traces.clickhouse_url)
    return ClickHouseSpanLayer(database, address, settings.read_timeout)


def _open_trace_rows(settings: ServerSettings) -> Database:
    url = settings.traces.database_url or settings.database_url
    if url is not None:
        from dokimos.server._db.postgres_database import PostgresDatabase

        own = replace(settings, database_url=url, pool_size=settings.traces.pool_size)
        return PostgresDatabase(own, TRACE_MIGRATIONS)
    from dokimos.server._db.sqlite_database import TRACE_CACHE_KIB, TRACE_LOG_BYTES, SqliteDatabase

    return SqliteDatabase(
        settings.sqlite_trace_path,
        settings.read_timeout,
        TRACE_MIGRATIONS,
        write_cache_kib=TRACE_CACHE_KIB,
        log_bytes=TRACE_LOG_BYTES,
    )


def read_once(settings: ServerSettings, query: Callable[[Connection], T]) -> T:
    """Run a query on one snapshot of the data, from a process of its own: without a pool or a migration.

    Raises:
        DatabaseUnavailable: The database cannot be reached or read.
    """
    if settings.database_url is not None:
        from dokimos.server._db import postgres_database

        return asyncio.run(postgres_database.read_once(settings, query))
    from dokimos.server._db import sqlite_database

    return sqlite_database.read_once(settings.sqlite_path, query)


def read_traces_once(settings: ServerSettings, query: Callable[[Connection], T]) -> T:
    """Run a query on one snapshot of the traces, likewise."""
    with open_spans(settings) as spans:
        return _read_trace_rows_once(settings, with_storage(query, spans))


def _read_trace_rows_once(settings: ServerSettings, query: Callable[[Connection], T]) -> T:
    url = settings.traces.database_url or settings.database_url
    if url is not None:
        return read_once(replace(settings, database_url=url), query)
    from dokimos.server._db import sqlite_database

    return sqlite_database.read_once(settings.sqlite_trace_path, query)


def write_traces_once(settings: ServerSettings, change: Callable[[Connection], T]) -> T:
    """Run a change of the traces as one transaction, likewise."""
    with open_spans(settings, prepares=True) as spans:
        return _write_trace_rows_once(settings, with_storage(change, spans))


@contextmanager
def open_spans(settings: ServerSettings, *, prepares: bool = False) -> Iterator[SpanStorage | None]:
    """Yield the place of the spans, for a process of its own; None where they are beside their traces.

    Args:
        settings: Of the server.
        prepares: Whether its tables are created, or brought up to date.

    Raises:
        DatabaseUnavailable: It cannot be reached.
    """
    if settings.traces.clickhouse_url is None:
        yield None
        return
    from dokimos.server._db.clickhouse_spans import open_clickhouse

    address = parse_clickhouse_url(settings.traces.clickhouse_url)
    with open_clickhouse(address, prepares=prepares) as spans:
        yield spans


def _write_trace_rows_once(settings: ServerSettings, change: Callable[[Connection], T]) -> T:
    url = settings.traces.database_url or settings.database_url
    if url is not None:
        return write_once(replace(settings, database_url=url), change)
    from dokimos.server._db import sqlite_database

    return sqlite_database.write_once(settings.sqlite_trace_path, change)


def write_once(settings: ServerSettings, change: Callable[[Connection], T]) -> T:
    """Run a change as one transaction, from a process of its own: without a pool or a migration.

    On SQLite, whoever calls this holds the folder (`hold_data_folder`).

    Raises:
        DatabaseUnavailable: The database cannot be reached, or cannot store: nothing was changed.
    """
    if settings.database_url is not None:
        from dokimos.server._db import postgres_database

        return asyncio.run(postgres_database.write_once(settings, change))
    from dokimos.server._db import sqlite_database

    return sqlite_database.write_once(settings.sqlite_path, change)
