"""Connections to a file of SQLite, and their settings."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._db.sqlite_errors import is_busy

_BUSY_MILLISECONDS: Final = 10_000
_RETRY_SECONDS: Final = 0.01


def open_engine(path: Path, *, begin: str) -> Engine:
    """Return an engine that opens a connection for each use, whose transactions begin with a statement."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),  # a text would end at a question mark
        poolclass=NullPool,
        hide_parameters=True,  # neither logs nor errors quote what users sent
        connect_args={"check_same_thread": False, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _: object) -> None:
        for setting in (
            f"busy_timeout={_BUSY_MILLISECONDS}",
            "foreign_keys=ON",
            "synchronous=FULL",
            "temp_store=MEMORY",
            # Some builds write zeros over every page that is freed, which doubles what a removal writes.
            "secure_delete=FAST",
            "cache_size=-16000",
        ):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # The driver begins transactions only before it sees an INSERT; reads would have no common snapshot.
        connection.exec_driver_sql(begin)

    return engine


def use_wal(connection: Connection) -> None:
    """Switch the file to a write-ahead log, as soon as nobody else has it open for that moment.

    Where two connections switch at the same time, SQLite refuses one of them at once, `busy_timeout` or not,
    because each would wait for the other.

    Raises:
        DatabaseUnavailable: The file cannot be written, or others keep it busy for ten seconds.
    """
    last_attempt = time.monotonic() + _BUSY_MILLISECONDS / 1000
    while True:
        try:
            return set_outside_transaction(connection, "journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > last_attempt:
                raise DatabaseUnavailable(str(error)) from error
        time.sleep(_RETRY_SECONDS)


def limit_log(connection: Connection, size: int) -> None:
    """Have the commits of a connection bring the log into the file once it has so many bytes."""
    driver = connection.connection.driver_connection
    assert driver is not None
    (page_size,) = driver.execute("PRAGMA page_size").fetchone()
    driver.execute(f"PRAGMA wal_autocheckpoint={size // page_size}")


def sync_commits(connection: Connection, *, must_sync: bool) -> None:
    """Choose whether the next commit waits for the disk."""
    set_outside_transaction(connection, f"synchronous={'FULL' if must_sync else 'NORMAL'}")


def set_outside_transaction(connection: Connection, setting: str) -> None:
    """Change a setting that has no effect inside a transaction, which SQLAlchemy would begin."""
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.execute(f"PRAGMA {setting}")
