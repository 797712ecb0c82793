"""A database that queries run on: SQLite or PostgreSQL.

A query is a plain function of a SQLAlchemy `Connection`; it runs on a thread of SQLite, or in the event loop
on PostgreSQL, and never awaits. One function is one transaction: what `write` returned is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from dokimos.server._settings import ServerSettings

T = TypeVar("T")


class DatabaseUnavailable(Exception):
    """The database does not answer, or cannot store: nothing of the transaction was kept."""


class Overtaken(Exception):
    """Another transaction has changed what this one builds on: the database runs it again from the start.

    Only on PostgreSQL: on SQLite, changes come one after the other.
    """


class Database(Protocol):
    """Runs queries."""

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
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

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a query that changes nothing, on one snapshot of the data.

        Raises:
            DatabaseUnavailable: The database does not answer.
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

    return SqliteDatabase(settings.sqlite_path)


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
