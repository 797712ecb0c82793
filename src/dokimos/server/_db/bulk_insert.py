"""Insert many whole rows without what an expression costs for each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlalchemy import Connection, Table, insert
from sqlalchemy.engine import Dialect

from dokimos.server._db.columns import Id


def insert_rows(connection: Connection, table: Table, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows that hold a value for each of the first columns of the table, in their order.

    The values are what the driver takes: `driver_id` makes one of an identifier. SQLAlchemy would build a
    dictionary and run a converter for each value, which is half of what storing an item costs
    (`benchmarks/server_ingestion.py`).
    """
    if rows:
        statement = _statement(table, len(rows[0]), connection.dialect)
        connection.exec_driver_sql(statement, list(rows))


def driver_id(identifier: str | None, connection: Connection) -> str | bytes | None:
    """Return an identifier as the driver of the connection takes it."""
    return Id.to_driver(identifier, connection.dialect.name)


@cache
def _statement(table: Table, count: int, dialect: Dialect) -> str:
    names = [column.name for column in table.columns][:count]
    compiled = insert(table).compile(dialect=dialect, column_keys=names)
    return str(compiled)
