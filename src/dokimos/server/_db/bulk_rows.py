"""Read and insert millions of rows, as the driver returns and takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Select, Table
from sqlalchemy.exc import DBAPIError, OperationalError

from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._db.driver_statements import execute_many


class RowsRefused(Exception):
    """The database does not take rows: one has an identity that is taken, no parent, or a wrong type."""


def stream_rows(connection: Connection, query: Select[Any], count: int) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the rows of a query as the driver returns them, some at a time, without all of them in memory.

    Past SQLAlchemy, whose object for each row costs more than reading it does.
    """
    if connection.dialect.name == "sqlite":
        result = connection.execute(query)
        cursor = result.cursor
        assert cursor is not None
        while rows := cursor.fetchmany(count):
            yield rows
        result.close()
        return
    from sqlalchemy.util import await_only

    compiled = query.compile(dialect=connection.dialect, compile_kwargs={"render_postcompile": True})
    names: Sequence[str] = compiled.positiontup or ()
    portal = _driver_in_transaction(connection).cursor(
        str(compiled), *(compiled.params[name] for name in names)
    )
    opened = await_only(portal)
    while rows := await_only(opened.fetch(count)):
        yield rows


def insert_in_bulk(
    connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    """Insert rows that hold a value for each of these columns; on PostgreSQL with COPY.

    Raises:
        RowsRefused: The database does not take them. The transaction cannot go on then.
        DatabaseUnavailable: It cannot store anything now.
    """
    if connection.dialect.name == "postgresql":
        _copy(connection, table, columns, rows)
        return
    try:
        # Written here: SQLAlchemy would add each column that has a default in Python.
        quote = connection.dialect.identifier_preparer.quote
        names = ", ".join(map(quote, columns))
        marks = ", ".join("?" * len(columns))
        execute_many(connection, f"INSERT INTO {quote(table.name)} ({names}) VALUES ({marks})", rows)
    except OperationalError:
        raise  # such as a full disk
    except (DBAPIError, OverflowError) as error:
        raise RowsRefused(str(getattr(error, "orig", None) or error)) from error


def _copy(
    connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    from asyncpg import DataError, InterfaceError, PostgresError  # type: ignore[import-untyped] # no stubs
    from sqlalchemy.util import await_only

    driver = _driver_in_transaction(connection)
    try:
        await_only(driver.copy_records_to_table(table.name, records=rows, columns=list(columns)))
    except (PostgresError, InterfaceError, DataError, TypeError, OverflowError, ValueError) as error:
        state = getattr(error, "sqlstate", None) or ""
        detail = f" {getattr(error, 'detail', None) or ''}".rstrip()
        if state[:2] in ("22", "23") or not state:  # wrong data, constraints; the driver's own checks
            raise RowsRefused(f"{error}{detail}") from error
        raise DatabaseUnavailable(f"{error}") from error


def _driver_in_transaction(connection: Connection) -> Any:
    """The connection of asyncpg, which alone begins no transaction, as its adapter does for a statement."""
    connection.exec_driver_sql("SELECT 1")
    return connection.connection.driver_connection
