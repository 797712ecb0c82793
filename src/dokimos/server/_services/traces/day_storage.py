"""What the databases keep by the day, so that a day is removed at once, and the space that they give back.

On PostgreSQL that is a partition of the spans, on SQLite the index of their texts.
"""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import Connection

from dokimos.server._db.driver_statements import repeat_statement
from dokimos.server._db.span_storage import find_storage
from dokimos.server._services.traces.request_pace import NO_PAUSES, RequestPace
from dokimos.server._services.traces.row_ranges import range_table
from dokimos.server._services.traces.trace_partitions import hold_day, partition_name
from dokimos.server._services.traces.trace_retention import is_unused, read_day
from dokimos.server._services.traces.trace_texts import text_table

_LOCK_WAIT: Final = "2s"
"""How long a partition may wait to be dropped: whoever stores or reads waits behind it."""
_PAGES_AT_ONCE: Final = 250
"""Of 8 KiB, in a file of an earlier version of 4, which SQLite moves in a transaction to give space back."""
_PARTITIONS: Final = (
    "SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid"
    " WHERE inhparent = 'spans'::regclass"
)
_TEXT_TABLES: Final = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%'"
    " AND name GLOB 'span_texts_[0-9]*'"
)


def list_stored_days(connection: Connection) -> list[int]:
    """Return the days that have a partition, or an index of texts."""
    storage = find_storage(connection)
    if storage is not None:
        return storage.list_days(connection)
    query = _PARTITIONS if connection.dialect.name == "postgresql" else _TEXT_TABLES
    names = connection.exec_driver_sql(query).scalars()
    return sorted(int(number[0]) for name in names if (number := re.search(r"\d+$", name)))


def drop_day(connection: Connection, day: int) -> bool:
    """Drop what is kept of a day where nobody reads it any more; return whether it was dropped.

    On PostgreSQL the spans of traces go that are marked; their rows are removed afterwards. SQLite, where the
    spans of all days are in one table, keeps its index until the last of these rows is gone.

    Raises:
        sqlalchemy.exc.DBAPIError: Somebody has been reading or storing spans all the time (55P03).
    """
    is_postgresql = connection.dialect.name == "postgresql"
    if is_postgresql:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'")
    hold_day(connection, day, removes=True)
    storage = find_storage(connection)
    if storage is not None:
        state = read_day(connection, day)
        if not state.is_closed or state.has_traces:
            return False
        storage.drop_day(connection, day)
        return True
    if is_postgresql:
        state = read_day(connection, day)
        if not state.is_closed or state.has_traces:
            return False
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {partition_name(day)}")
        return True
    if not is_unused(connection, day):
        return False
    for table in (text_table(day), range_table(day)):
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {table}")
    return True


def give_space_back(connection: Connection, pace: RequestPace = NO_PAUSES) -> int:
    """Have SQLite shorten its file by some of the pages that are free; return how many, 0 where none is."""
    free = count_free_pages(connection)
    if not free:
        return 0
    # One page each time: of this statement, which has no columns, Python's driver takes the first step alone,
    # and each step moves a page.
    repeat_statement(connection, "PRAGMA incremental_vacuum(1)", pace.keep(range(min(free, _PAGES_AT_ONCE))))
    return max(0, free - count_free_pages(connection))


def count_free_pages(connection: Connection) -> int:
    """Return how many pages of the file of SQLite are free.

    PostgreSQL gives space back by itself: a partition is a file.
    """
    if connection.dialect.name == "postgresql":
        return 0
    count: int = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    return count
