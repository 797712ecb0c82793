"""The place of spans apart from the database of traces: the seam between what reads them and where they are.

Without one, spans are rows of the table `spans` beside those of their traces, on SQLite or PostgreSQL. With
one, that table stays empty. Whoever runs queries of spans asks for it with the connection of the transaction,
so that routes and workers do not know which it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from sqlalchemy import Column, Connection, Result, Select

T = TypeVar("T")

_KEY: Final = "dokimos.spans"


class SearchedWord(NamedTuple):
    """What is searched for in the words of a span."""

    text: str
    begins_word: bool
    """Whether a word has to begin with it; otherwise it may begin inside one."""
    ends_word: bool
    """Whether a word has to end with it."""


@dataclass(frozen=True, slots=True)
class SpanSearch:
    """What is searched for in the spans of a day."""

    day: int
    words: Sequence[SearchedWord]
    """All of which one span has."""
    hashes: Sequence[int]
    """The numbers of attributes, all of which the same span has."""
    is_descending: bool
    """Whether the traces with the highest ids come first."""


class Newest(NamedTuple):
    """What is newest among the spans of a trace."""

    version: int
    received_at: int


class SpanStorage(Protocol):
    """Spans that are kept elsewhere; each method takes the connection of the transaction that asks.

    What is inserted is there when `insert` returns, whatever becomes of the transaction. So rows are keyed by
    trace and span, the one with the highest version counts, and a row that no trace counts does no harm.
    """

    def select(self, connection: Connection, query: Select[Any]) -> Result[Any]:
        """Run a query of the table `spans` alone."""
        ...

    def insert(self, connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert spans, or newer versions of them: each with its columns, `version`, `search` and
        `attribute_hashes`. They are on disk when this returns.
        """
        ...

    def find_newest(self, connection: Connection, traces: Sequence[tuple[int, str]]) -> dict[str, Newest]:
        """Return what is newest among the spans of traces, by the ids of these.

        Args:
            traces: The days and the ids of the rows of traces.
        """
        ...

    def search(
        self, connection: Connection, search: SpanSearch, *, after: str | None, limit: int
    ) -> tuple[list[str], str | None]:
        """Return traces of a day a span of which has what is searched for, in order, behind another one.

        Returns:
            The traces; and up to which trace these are all, None where they are all of the day.
        """
        ...

    def remove(self, connection: Connection, day: int, traces: Collection[str]) -> None:
        """Remove the spans of traces of a day."""
        ...

    def drop_day(self, connection: Connection, day: int) -> None:
        """Remove all spans of a day at once."""
        ...

    def list_days(self, connection: Connection) -> list[int]:
        """Return the days that spans are kept of, in order."""
        ...

    def iterate(
        self, connection: Connection, columns: Sequence[Column[Any]], traces: Iterable[tuple[int, str]]
    ) -> Iterable[Sequence[tuple[Any, ...]]]:
        """Yield the spans of traces, some at a time: for a backup, which reads all of them.

        The traces are those of one day after the other. Ids are texts, as the driver of PostgreSQL has them.
        """
        ...

    def ping(self, connection: Connection) -> None:
        """Raise `DatabaseUnavailable` where it does not answer."""
        ...


def attach_storage(connection: Connection, storage: SpanStorage | None) -> None:
    """Say where the spans are that the transaction of a connection asks for."""
    connection.info[_KEY] = storage


def with_storage(query: Callable[[Connection], T], storage: SpanStorage | None) -> Callable[[Connection], T]:
    """Return a query that is run with the spans in a place."""

    def run(connection: Connection) -> T:
        attach_storage(connection, storage)
        return query(connection)

    return run


def find_storage(connection: Connection) -> SpanStorage | None:
    """Return where spans are kept, None where they are in the database of the connection."""
    storage: SpanStorage | None = connection.info.get(_KEY)
    return storage
