"""Read and insert millions of rows, as the driver returns and takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

from sqlalchemy import ColumnElement, Connection, LargeBinary, Select, Table, Text, case, func
from sqlalchemy.exc import DBAPIError, OperationalError

from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._db.driver_statements import execute_many

PART_BYTES: Final = 8 * 1024 * 1024
"""The size of rows after which no more of them are read at a time."""
_SMALL: Final = 64 * 1024
"""The largest value of a row that is read together with as many others as asked for."""
_MEDIUM: Final = 1024 * 1024
"""That of one that is read together with a few others."""


class RowsRefused(Exception):
    """The database does not take rows: one has an identity that is taken, no parent, or a wrong type."""


def stream_rows(connection: Connection, query: Select[Any], count: int) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the rows of a query as the driver returns them, some at a time, without all of them in memory.

    So many at a time as asked for, and fewer where their texts are large: the memory that this takes grows
    with the largest row, and not with as many of them. On PostgreSQL large rows come last.

    Past SQLAlchemy, whose object for each row costs more than reading it does.
    """
    if connection.dialect.name == "sqlite":
        return _stream_sqlite(connection, query, count)
    return _stream_postgresql(connection, query, count)


def _stream_sqlite(
    connection: Connection, query: Select[Any], count: int
) -> Iterator[Sequence[Sequence[Any]]]:
    places = [place for place, column in enumerate(query.selected_columns) if _may_be_large(column)]
    result = connection.execute(query)
    cursor = result.cursor
    assert cursor is not None
    rows: list[Sequence[Any]] = []
    size = 0
    for row in cast("Iterable[Sequence[Any]]", cursor):  # each is read when it is asked for
        rows.append(row)
        for place in places:
            if row[place] is not None:
                size += len(row[place])
        if len(rows) >= count or size >= PART_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows
    result.close()


def _stream_postgresql(
    connection: Connection, query: Select[Any], count: int
) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield small rows first, so many at a time; then, where there are any, large ones by themselves.

    The driver reads as many rows as it is asked for, however large they are. PostgreSQL knows the length of a
    large value without reading it.
    """
    columns = query.selected_columns
    texts = [column for column in columns if _may_be_large(column)]
    if not texts:
        yield from _fetch(connection, query, count)
        return
    size = func.coalesce(func.greatest(*(func.octet_length(column) for column in texts)), 0)
    small = [
        (case((func.octet_length(each) <= _SMALL, each)) if _may_be_large(each) else each).label(f"c{place}")
        for place, each in enumerate(columns)
    ]
    has_large = False
    first = query.with_only_columns(*small, size > _SMALL, maintain_column_froms=True)
    for rows in _fetch(connection, first, count):
        kept = [row[:-1] for row in rows if not row[-1]]
        has_large = has_large or len(kept) < len(rows)
        if kept:
            yield kept
    if has_large:
        yield from _fetch(connection, query.where(size > _SMALL, size <= _MEDIUM), PART_BYTES // _MEDIUM)
        yield from _fetch(connection, query.where(size > _MEDIUM), 1)


def _may_be_large(column: ColumnElement[Any]) -> bool:
    return isinstance(column.type, (Text, LargeBinary))


def _fetch(connection: Connection, query: Select[Any], count: int) -> Iterator[Sequence[Sequence[Any]]]:
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
