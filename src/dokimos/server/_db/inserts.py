"""Insert a row unless another transaction was quicker."""

from __future__ import annotations

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_if_absent(connection: Connection, table: Table, **values: object) -> bool:
    """Insert a row and return True; return False where a unique index has one already.

    On PostgreSQL an error would end the whole transaction; this waits for the other one and goes on.
    """
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    result = connection.execute(dialect.insert(table).values(**values).on_conflict_do_nothing())
    return result.rowcount == 1
