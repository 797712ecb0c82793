"""The spans of a day that have certain words, in the index of SQLite."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

from dokimos.server._services.traces.trace_texts import text_table

_READ_AT_ONCE: Final = 1000


class WordMatches:
    """The rows of spans that a query of FTS5 finds, read in the order of the list as far as they are needed.

    All of a page uses this one statement: each execution merges the rows of all words that begin as the last
    one does, however few of them are read.

    Args:
        connection: Of SQLite.
        day: That has an index.
        expression: The query.
        is_descending: Whether the last rows come first.
    """

    def __init__(self, connection: Connection, day: int, expression: str, *, is_descending: bool) -> None:
        table = text_table(day)
        direction = "DESC" if is_descending else "ASC"
        self.rows: list[int] = []
        """Those that have been read."""
        self.known: set[int] = set()
        """The same, to look one up."""
        self.is_complete = False
        """Whether these are all."""
        self.is_descending = is_descending
        self._result = connection.exec_driver_sql(
            f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid {direction}", (expression,)
        ).scalars()

    def read(self, count: int) -> None:
        """Read more rows."""
        rows = self._result.fetchmany(count)
        self.rows += rows
        self.known.update(rows)
        self.is_complete = len(rows) < count

    def read_up_to(self, row: int) -> None:
        """Read until it is known whether a row, or any before it in this order, is a match."""
        while not self.is_complete and self._is_ahead(row):
            self.read(_READ_AT_ONCE)

    def close(self) -> None:
        """End the statement, which would keep the snapshot that it reads."""
        self._result.close()

    def _is_ahead(self, row: int) -> bool:
        if not self.rows:
            return True
        return row < self.rows[-1] if self.is_descending else row > self.rows[-1]
