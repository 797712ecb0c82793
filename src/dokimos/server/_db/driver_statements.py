"""Statements that are compiled once and given to the driver, with values as it takes them.

For each execution SQLAlchemy builds a context, converts each value and wraps the result, which is half of
what storing a batch of ten items costs (`benchmarks/server_ingestion.py`). The hot route does without; all
others use SQLAlchemy as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import ClauseElement, Connection, Table, insert
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import DBAPIError

from dokimos.server._db.columns import Id


class DriverStatement:
    """A statement with named parameters.

    Args:
        build: Makes the statement for a dialect, `sqlite` or `postgresql`.
    """

    def __init__(self, build: Callable[[str], ClauseElement]) -> None:
        self._build: Final = build
        self._compiled: Final[dict[str, tuple[str, tuple[str, ...]]]] = {}

    def execute(self, connection: Connection, values: Mapping[str, object]) -> int:
        """Run it with a value for each parameter, as the driver takes it; return how many rows it changed."""
        text, names = self._compile(connection.dialect)
        cursor = _execute(connection, text, tuple([values[name] for name in names]))
        count = cursor.rowcount
        cursor.close()
        return count

    def first(self, connection: Connection, values: Mapping[str, object]) -> tuple[Any, ...] | None:
        """Run it and return its first row, as the driver returns it, None where there is none."""
        text, names = self._compile(connection.dialect)
        cursor = _execute(connection, text, tuple([values[name] for name in names]))
        row: tuple[Any, ...] | None = cursor.fetchone()
        cursor.close()
        return row

    def all(self, connection: Connection, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Run it and return its rows, as the driver returns them."""
        text, names = self._compile(connection.dialect)
        cursor = _execute(connection, text, tuple([values[name] for name in names]))
        rows: list[tuple[Any, ...]] = list(cursor.fetchall())
        cursor.close()
        return rows

    def execute_many(self, connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
        """Run it once for each row."""
        text, names = self._compile(connection.dialect)
        _execute(connection, text, [tuple([row[name] for name in names]) for row in rows]).close()

    def _compile(self, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
        known = self._compiled.get(dialect.name)
        if known is None:
            compiled = self._build(dialect.name).compile(dialect=dialect)
            names = tuple(compiled.positiontup or ())  # type: ignore[attr-defined] # that of its subclass
            known = self._compiled[dialect.name] = (str(compiled), names)
        return known


def insert_rows(connection: Connection, table: Table, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows that hold a value for each of the first columns of the table, as the driver takes it."""
    if rows:
        text = _insert(table, len(rows[0]), connection.dialect)
        _execute(connection, text, rows if isinstance(rows, list) else list(rows)).close()


def execute_many(connection: Connection, text: str, rows: Sequence[Sequence[object]]) -> None:
    """Run a statement once for each row of values, as the driver takes them."""
    _execute(connection, text, rows if isinstance(rows, list) else list(rows)).close()


def execute_each(connection: Connection, statements: Iterable[tuple[str, list[Any]]]) -> None:
    """Run statements one after the other, each once for each of its rows of values."""
    cursor = connection.connection.cursor()
    for text, rows in statements:
        _run(connection, cursor, text, rows)
    cursor.close()


def first_row(connection: Connection, text: str, values: tuple[object, ...] = ()) -> tuple[Any, ...] | None:
    """Run a statement and return its first row as the driver returns it, or None without rows."""
    cursor = _execute(connection, text, values)
    row: tuple[Any, ...] | None = cursor.fetchone()
    cursor.close()
    return row


def all_rows(connection: Connection, text: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows as the driver returns them."""
    cursor = _execute(connection, text, values)
    rows: list[tuple[Any, ...]] = list(cursor.fetchall())
    cursor.close()
    return rows


def repeat_statement(connection: Connection, text: str, times: Iterable[object]) -> None:
    """Run a statement without values once for each element of `times`."""
    cursor = connection.connection.cursor()
    for _ in times:
        _run(connection, cursor, text, ())
    cursor.close()


def driver_id(identifier: str | None, connection: Connection) -> str | bytes | None:
    """Return an identifier as the driver of the connection takes it."""
    return Id.to_driver(identifier, connection.dialect.name)


@cache
def _insert(table: Table, count: int, dialect: Dialect) -> str:
    names = [column.name for column in table.columns][:count]
    return str(insert(table).compile(dialect=dialect, column_keys=names))


def _execute(connection: Connection, text: str, values: tuple[object, ...] | list[Any]) -> DBAPICursor:
    """Run a statement in the transaction of the connection: once, or with a list once for each of its rows.

    The errors of the driver are raised as SQLAlchemy's.
    """
    cursor = connection.connection.cursor()
    _run(connection, cursor, text, values)
    return cursor


def _run(
    connection: Connection, cursor: DBAPICursor, text: str, values: tuple[object, ...] | list[Any]
) -> None:
    try:
        if isinstance(values, list):
            cursor.executemany(text, values)
        else:
            cursor.execute(text, values)
    except Exception as error:
        driver = connection.dialect.loaded_dbapi
        if not isinstance(error, driver.Error):
            raise
        is_lost = connection.dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor)
        if is_lost:
            connection.invalidate(error)
        raise DBAPIError.instance(text, None, error, driver.Error, True, is_lost) from error
