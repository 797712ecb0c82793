"""The spans of a day that have certain words, in the index of SQLite."""

from __future__ import annotations

from array import array
from bisect import bisect_left
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
        self.is_complete = False
        """Whether these are all."""
        self.is_descending = is_descending
        self._sign = -1 if is_descending else 1
        # Ascending, whichever way they are read. A common word has all rows of a day, each in eight bytes.
        self._places = array("q")
        self._result = connection.exec_driver_sql(
            f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid {direction}", (expression,)
        ).scalars()

    def __contains__(self, row: int) -> bool:
        """Whether a row is one of those that have been read."""
        place = bisect_left(self._places, self._sign * row)
        return place < len(self._places) and self._places[place] == self._sign * row

    @property
    def rows(self) -> list[int]:
        """Those that have been read, in their order."""
        return [self._sign * place for place in self._places]

    def read(self, count: int) -> None:
        """Read more rows."""
        rows = self._result.fetchmany(count)
        self._places.extend([self._sign * row for row in rows])
        self.is_complete = len(rows) < count

    def read_up_to(self, row: int) -> None:
        """Read until it is known whether a row, or any before it in this order, is a match."""
        while not self.is_complete and (not self._places or self._sign * row > self._places[-1]):
            self.read(_READ_AT_ONCE)

    def close(self) -> None:
        """End the statement, which would keep the snapshot that it reads."""
        self._result.close()
