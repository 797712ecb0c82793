"""Insert a row unless another transaction was quicker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection, CursorResult, Table
from sqlalchemy.dialects import postgresql, sqlite

INSERTS: Final[dict[str, Callable[[Table], Any]]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
"""The insert of each dialect, which knows `ON CONFLICT`."""


def insert_if_absent(connection: Connection, table: Table, **values: object) -> bool:
    """Insert a row and return True; return False where a unique index has one already.

    On PostgreSQL an error would end the whole transaction; this waits for the other one and goes on.
    """
    insert = INSERTS[connection.dialect.name]
    result: CursorResult[Any] = connection.execute(insert(table).values(**values).on_conflict_do_nothing())
    return result.rowcount == 1
