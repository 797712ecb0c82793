"""Which rows of spans are of which trace, on SQLite: a small table for each day, beside the index of texts.

A search finds rows. To read their traces from the spans themselves takes a page of the file for each, as
large as rows with bodies are: ten thousand pages for a common word. The spans of a trace that come together
follow each other, so that a range of rows says it for all of them. What no range says is read from the spans:
those of days that were stored without ranges, and those beside a span that was replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from dokimos.server._db.batches import in_batches
from dokimos.server._db.driver_statements import all_rows, execute_many

RowRange = tuple[int, int, object]
"""The first and the last row, and the id of the trace as the driver takes it."""
_TRACE_OF_ROW: Final = (
    "SELECT trace FROM (SELECT last, trace FROM {table} WHERE first <= found.number"
    " ORDER BY first DESC LIMIT 1) WHERE last >= found.number"
)


def range_table(day: int) -> str:
    """Return the name of the ranges of a day."""
    return f"span_ranges_{day}"


def create_range_table(connection: Connection, day: int) -> None:
    """Create the table of a day, unless it is there."""
    connection.exec_driver_sql(
        f"CREATE TABLE IF NOT EXISTS {range_table(day)}"
        " (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, trace BLOB NOT NULL) STRICT"
    )


def add_ranges(connection: Connection, day: int, ranges: Sequence[RowRange]) -> None:
    """Store ranges of rows that no span has had before."""
    execute_many(connection, f"INSERT INTO {range_table(day)} (first, last, trace) VALUES (?, ?, ?)", ranges)


def find_traces_of_rows(connection: Connection, day: int, rows: Sequence[int]) -> set[bytes]:
    """Return the traces of rows of spans of a day, as the driver returns their ids.

    Traces that were removed may be among them: their ranges stay until those of the whole day are dropped.
    """
    found: set[bytes] = set()
    unknown: Sequence[int] = rows
    if has_table(connection, range_table(day)):
        unknown = []
        query = _TRACE_OF_ROW.format(table=range_table(day))
        for batch in in_batches(rows):
            values = ", ".join(["(?)"] * len(batch))
            statement = f"WITH found(number) AS (VALUES {values}) SELECT number, ({query}) FROM found"
            for number, trace in all_rows(connection, statement, tuple(batch)):
                if trace is None:
                    unknown.append(number)
                else:
                    found.add(trace)
    for batch in in_batches(unknown):
        marks = ", ".join("?" * len(batch))
        of_rows = f'SELECT DISTINCT trace FROM spans WHERE "row" IN ({marks})'
        found.update(trace for (trace,) in all_rows(connection, of_rows, tuple(batch)))
    return found


def forget_ranges(connection: Connection, rows: Sequence[Any]) -> None:
    """Remove the ranges that have some rows of spans in them, which are about to be removed.

    Args:
        rows: Each with the `day` and the `row` of a span.
    """
    for day in {each.day for each in rows}:
        if not has_table(connection, range_table(day)):
            continue
        table = range_table(day)
        is_around = f"first = (SELECT max(first) FROM {table} WHERE first <= ?1) AND last >= ?1"
        numbers = [(each.row,) for each in rows if each.day == day]
        execute_many(connection, f"DELETE FROM {table} WHERE {is_around}", numbers)


def has_table(connection: Connection, name: str) -> bool:
    """Whether SQLite has a table."""
    query = text("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name")
    return connection.execute(query, {"name": name}).first() is not None
