"""Spans in ClickHouse, beside a database of SQLite or PostgreSQL that has their traces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final, TypeVar

from sqlalchemy import Column, Connection, LargeBinary, Result, Select, select
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.types import TypeEngine

from dokimos.server._clickhouse_address import ClickHouseAddress
from dokimos.server._db.clickhouse_client import ClickHouseClient, TookTooLong
from dokimos.server._db.clickhouse_parameters import Statement, compile_query, format_parameter
from dokimos.server._db.clickhouse_schema import COLUMN_TYPES, prepare_schema
from dokimos.server._db.database import Database, DatabaseUnavailable, Lane, ReadTooSlow
from dokimos.server._db.database_layer import DatabaseLayer
from dokimos.server._db.row_binary import write_rows
from dokimos.server._db.span_storage import Newest, SpanSearch, with_storage
from dokimos.server._db.trace_tables import SPANS, TRACE_HOURS

T = TypeVar("T")
_WRITE_SECONDS: Final = 30.0
_WORK_SECONDS: Final = 50.0
"""For what nobody waits for: PostgreSQL ends a transaction that waits for a minute."""
_LONG_SECONDS: Final = 600.0
"""In a process of its own, whose transactions may wait."""
_INSERT: Final = f"INSERT INTO spans ({', '.join(COLUMN_TYPES)}) FORMAT RowBinary"
_ANY_SPAN: Final = "SELECT 1 FROM spans LIMIT 1 SETTINGS final = 0"
_OF_TRACES: Final = "day = {day:Int32} AND trace IN {traces:Array(String)}"
_TRACES_AT_ONCE: Final = 200
_SPANS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class ClickHouseSpans:
    """The spans as one transaction asks for them: a `SpanStorage`."""

    client: ClickHouseClient
    seconds: float = _LONG_SECONDS
    """How long a statement may take."""
    lane: Lane | None = None
    """Of a read."""

    def select(self, connection: Connection, query: Select[Any]) -> Result[Any]:
        columns = list(query.selected_columns)
        rows = self._read(connection, compile_query(query))
        keys = [column.key or "" for column in columns]
        return IteratorResult(SimpleResultMetaData(keys), _decode(rows, [each.type for each in columns]))

    def insert(self, connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
        data = write_rows(list(COLUMN_TYPES.values()), ([row[name] for name in COLUMN_TYPES] for row in rows))
        # Servers on one PostgreSQL insert by the export; ClickHouse gathers these, as each insert is a file.
        gathers = "1" if connection.dialect.name == "postgresql" else "0"
        settings = {
            "async_insert": gathers,
            "wait_for_async_insert": "1",  # what is acknowledged is on disk
            "max_partitions_per_insert_block": "0",
        }
        self._wait(connection, self.client.insert(_INSERT, data, settings, seconds=self.seconds))

    def find_newest(self, connection: Connection, traces: Sequence[tuple[int, str]]) -> dict[str, Newest]:
        newest: dict[str, Newest] = {}
        what = "SELECT trace, max(version), max(received_at) FROM spans"
        for day, ids in _group_by_day(sorted(traces)):
            text = f"{what} WHERE {_OF_TRACES} GROUP BY trace SETTINGS final = 0"
            rows = self._read(connection, _of_traces(text, day, ids))
            newest |= {trace.decode(): Newest(version, at) for trace, version, at in rows}
        return newest

    def search(
        self, connection: Connection, search: SpanSearch, *, after: str | None, limit: int
    ) -> tuple[list[str], str | None]:
        condition, parameters = _condition_of(search)
        behind = f" AND trace {'<' if search.is_descending else '>'} {{after:String}}" if after else ""
        order = "DESC" if search.is_descending else "ASC"
        # Earlier versions of spans are among the first answer, whose query the indexes of words answer.
        text = (
            f"SELECT DISTINCT trace FROM spans WHERE day = {{day:Int32}}{behind} AND {condition}"
            f" ORDER BY trace {order} LIMIT {int(limit)} SETTINGS final = 0"
        )
        own = {**parameters, "day": str(search.day), "after": after or ""}
        found = [row[0].decode() for row in self._read(connection, Statement(text, own))]
        if not found:
            return [], None
        text = f"SELECT DISTINCT trace FROM spans WHERE {_OF_TRACES} AND {condition}"
        exact = _of_traces(f"{text} SETTINGS use_skip_indexes = 0", search.day, found)
        exact.parameters.update(parameters)
        matching = {row[0].decode() for row in self._read(connection, exact)}
        return [each for each in found if each in matching], found[-1] if len(found) == limit else None

    def remove(self, connection: Connection, day: int, traces: Collection[str]) -> None:
        statement = _of_traces(f"DELETE FROM spans WHERE {_OF_TRACES}", day, traces)
        settings = {"lightweight_deletes_sync": "2"}
        self._wait(connection, self.client.execute(statement, settings=settings, seconds=self.seconds))

    def drop_day(self, connection: Connection, day: int) -> None:
        statement = Statement(f"ALTER TABLE spans DROP PARTITION ID '{int(day)}'")
        settings = {"max_partition_size_to_drop": "0"}  # which is 50 GB by default
        self._wait(connection, self.client.execute(statement, settings=settings, seconds=self.seconds))

    def list_days(self, connection: Connection) -> list[int]:
        text = "SELECT day FROM spans GROUP BY day ORDER BY day SETTINGS final = 0"
        return [row[0] for row in self._read(connection, Statement(text))]

    def iterate(
        self, connection: Connection, columns: Sequence[Column[Any]], traces: Iterable[tuple[int, str]]
    ) -> Iterator[Sequence[tuple[Any, ...]]]:
        names = [column.name for column in columns]
        kinds = [column.type for column in columns]
        for day, ids in _group_by_day(traces):
            place = ("", "")
            while rows := self._read_behind(connection, names, day, ids, place):
                yield list(_decode([row[2:] for row in rows], kinds))
                place = (rows[-1][0].decode(), rows[-1][1].decode())

    def ping(self, connection: Connection) -> None:
        self._read(connection, Statement("SELECT 1"))

    def _read_behind(
        self,
        connection: Connection,
        columns: Sequence[str],
        day: int,
        traces: Sequence[str],
        place: tuple[str, str],
    ) -> list[tuple[Any, ...]]:
        text = (
            f"SELECT trace, span_id, {', '.join(columns)} FROM spans WHERE {_OF_TRACES}"
            " AND (trace, span_id) > ({trace:String}, {span:String})"
            f" ORDER BY trace, span_id LIMIT {_SPANS_AT_ONCE}"
        )
        statement = _of_traces(text, day, traces)
        statement.parameters |= {"trace": place[0], "span": format_parameter(place[1])}
        return self._read(connection, statement)

    def _read(self, connection: Connection, statement: Statement) -> list[tuple[Any, ...]]:
        try:
            return self._wait(connection, self.client.read(statement, seconds=self.seconds))
        except TookTooLong:
            if self.lane is None:
                raise
            raise ReadTooSlow(self.seconds, self.lane) from None

    def _wait(self, connection: Connection, request: Coroutine[Any, Any, T]) -> T:
        return self.client.wait(connection, request)


class ClickHouseSpanLayer(DatabaseLayer):
    """A database of traces whose spans are in ClickHouse.

    Args:
        database: Which has the traces.
        address: Of the spans.
        read_timeout: Seconds that a read may take, 0 for as long as it needs.
    """

    def __init__(self, database: Database, address: ClickHouseAddress, read_timeout: float) -> None:
        super().__init__(database)
        self._client = ClickHouseClient(address)
        self._read_seconds = read_timeout or _WORK_SECONDS

    async def open(self) -> None:
        await super().open()
        try:
            await asyncio.wrap_future(self._client.submit(prepare_schema(self._client)))
            await self._check_belong_together()
        except BaseException:
            await self.close()
            raise

    async def _check_belong_together(self) -> None:
        """Raise `DatabaseUnavailable` where the traces here are not those of the spans there."""
        if await super().read(_has_spans, Lane.WORK):
            raise DatabaseUnavailable(
                f"There are spans beside their traces, which nobody sees with {self._client.address}. "
                "Move them: without it, 'dokimos db backup --with-traces FILE'; with it and an empty "
                "database, 'dokimos db restore FILE'."
            )
        if await super().read(_has_had_traces, Lane.WORK):
            return
        # Days of which a server has no trace are dropped: those of another one must not be there.
        anything = self._client.read(Statement(_ANY_SPAN), seconds=_WORK_SECONDS)
        if await asyncio.wrap_future(self._client.submit(anything)):
            raise DatabaseUnavailable(
                f"{self._client.address} has spans of another server, or of traces whose database is lost; "
                "this server has none yet, and would remove them. Name another database; or, if nobody needs "
                "them, empty it with TRUNCATE TABLE spans."
            )

    async def close(self) -> None:
        await super().close()
        await asyncio.get_running_loop().run_in_executor(None, self._client.close)

    async def read(self, query: Callable[[Connection], T], lane: Lane = Lane.PAGE) -> T:
        seconds = _WORK_SECONDS if lane is Lane.WORK else self._read_seconds
        spans = ClickHouseSpans(self._client, seconds, lane)
        return await super().read(with_storage(query, spans), lane)

    async def write(self, change: Callable[[Connection], T], *, background: bool = False) -> T:
        spans = ClickHouseSpans(self._client, _WORK_SECONDS if background else _WRITE_SECONDS)
        return await super().write(with_storage(change, spans), background=background)


@contextmanager
def open_clickhouse(address: ClickHouseAddress, *, prepares: bool) -> Iterator[ClickHouseSpans]:
    """Yield the spans for a process of its own, and close the connections.

    Raises:
        DatabaseUnavailable: ClickHouse does not answer.
    """
    client = ClickHouseClient(address)
    try:
        if prepares:
            client.submit(prepare_schema(client)).result()
        yield ClickHouseSpans(client)
    finally:
        client.close()


def _has_spans(connection: Connection) -> bool:
    """Whether spans are in the database of their traces."""
    return connection.execute(select(SPANS.c.trace).limit(1)).first() is not None


def _has_had_traces(connection: Connection) -> bool:
    """Whether there ever was a trace: the hours in which they came are kept when they are removed."""
    return connection.execute(select(TRACE_HOURS.c.hour).limit(1)).first() is not None


def _of_traces(text: str, day: int, traces: Collection[str]) -> Statement:
    return Statement(text, {"day": str(day), "traces": format_parameter(list(traces))})


def _group_by_day(traces: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield the ids of traces that follow each other and have one day, some at a time."""
    for day, group in groupby(traces, key=itemgetter(0)):
        ids = map(itemgetter(1), group)
        while part := list(islice(ids, _TRACES_AT_ONCE)):
            yield day, part


def _condition_of(search: SpanSearch) -> tuple[str, dict[str, str]]:
    """Return the condition of a search on one span, with its parameters."""
    conditions, parameters = [], {}
    for number, word in enumerate(search.words):
        # The words of a span are between spaces: nothing but letters and digits is in them. What is searched
        # for may be several that follow each other.
        before, behind = " " if word.begins_word else "", " " if word.ends_word else ""
        conditions.append(f"search LIKE {{word{number}:String}}")
        parameters[f"word{number}"] = f"%{before}{word.text}{behind}%"
    if search.hashes:
        conditions.append("hasAll(attribute_hashes, {hashes:Array(Int64)})")
        parameters["hashes"] = format_parameter(list(search.hashes))
    return " AND ".join(conditions), parameters


def _decode(rows: Iterable[tuple[Any, ...]], kinds: Sequence[TypeEngine[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield rows with texts where their columns have these."""
    has_text = [not isinstance(kind, LargeBinary) for kind in kinds]
    for row in rows:
        yield tuple(
            value.decode() if is_text and isinstance(value, bytes) else value
            for value, is_text in zip(row, has_text, strict=True)
        )
