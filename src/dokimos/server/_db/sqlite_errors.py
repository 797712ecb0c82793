"""What an error of SQLite means."""

from __future__ import annotations

import sqlite3
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

_PRIMARY: Final = 0xFF
"""The bits of an error code that tell its kind; the others tell more about it."""


def is_outage(error: OperationalError) -> bool:
    """Return whether SQLite cannot read or store now, as with a full disk or a locked file.

    Otherwise the statement does not fit the schema, which no waiting changes.
    """
    code: int = getattr(error.orig, "sqlite_errorcode", 0)
    return code & _PRIMARY != sqlite3.SQLITE_ERROR


def is_busy(error: sqlite3.OperationalError) -> bool:
    """Return whether another connection has the file locked."""
    return error.sqlite_errorcode & _PRIMARY == sqlite3.SQLITE_BUSY


def has_transaction(connection: Connection) -> bool:
    """Return whether the transaction still stands; a full disk may have made SQLite undo it."""
    driver = connection.connection.driver_connection
    return driver is not None and bool(driver.in_transaction)
