"""Traces in whose spans words or attributes occur, newest first, read only as far as they are asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, func, literal_column, select, text

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import DAY
from dokimos.server._db.columns import Id
from dokimos.server._db.trace_tables import SPANS, TRACES
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.traces.attribute_hashes import hash_attribute
from dokimos.server._services.traces.trace_texts import has_full_text_search, match_expression, text_table

_RARE: Final = 2000
"""Spans of a day that are all read; where something occurs in more, traces are read in order."""
_BATCH: Final = 200
_GAP: Final = 200
"""Rows between two spans that are cheaper to pass over than to begin another search behind them."""
_NANOSECONDS: Final = 1000
"""In a microsecond."""
_LAST_ID: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class TraceScope:
    """Where a search looks."""

    is_inside: ColumnElement[bool]
    """The condition on traces."""
    is_descending: bool = True
    after: str | None = None
    """The trace behind which it begins."""
    start_from: int | None = None
    """Nanoseconds since 1970 before which no trace of it began."""

    def is_behind(self, place: str | None) -> ColumnElement[bool]:
        """The condition that a trace comes later than another one, or any where that is None."""
        column = TRACES.c.id
        if self.is_descending:
            return column < (place or _LAST_ID)
        return column > (place or _FIRST_ID)

    def is_later(self, trace: str, place: str | None) -> bool:
        """Whether a trace comes later than another one."""
        return place is None or (trace < place if self.is_descending else trace > place)


def find_candidates(
    connection: Connection,
    words: Sequence[str],
    attributes: Sequence[tuple[str, str]],
    scope: TraceScope,
) -> Iterator[list[str]]:
    """Yield the ids of traces one span of which has all words and all attributes, in order, in batches.

    Those of SQLite may be outside the scope.

    Raises:
        InvalidRequestError: This SQLite cannot search for texts.
    """
    hashes = [hash_attribute(key, value) for key, value in attributes]
    if connection.dialect.name == "postgresql":
        search = _postgres_condition(words, hashes)
        for day in _days(connection, scope):
            yield from _search_postgres_day(connection, day, search, scope)
        return
    if not has_full_text_search(sqlite3.sqlite_version):
        raise InvalidRequestError(
            "This server cannot search traces by words or attributes: its SQLite was built without FTS5. "
            "Start it with a Python whose SQLite has FTS5, or with PostgreSQL; the other filters work."
        )
    expression = match_expression(" ".join(words), hashes) or ""
    for day in _days(connection, scope):
        yield from _search_sqlite_day(connection, day, expression, scope)


def _days(connection: Connection, scope: TraceScope) -> Iterator[int]:
    """Yield the days that have traces, in the order of the list, with a look for each."""
    column = TRACES.c.day
    function = func.max if scope.is_descending else func.min
    # Traces whose clock is ahead by more than a day are not found by the time that it shows.
    first = None if scope.start_from is None else scope.start_from // _NANOSECONDS // DAY - 1
    day: int | None = None
    if scope.after is not None:
        shown = _day_of(scope.after)
        day = shown + 2 if scope.is_descending else shown - 2  # its day may be counted by another clock
    while True:
        query = select(function(column))
        if day is not None:
            query = query.where(column < day if scope.is_descending else column > day)
        if first is not None:
            query = query.where(column >= first)
        day = connection.execute(query).scalar()
        if day is None:
            return
        yield day


def _day_of(identifier: str) -> int:
    """Return the day on which an id was made."""
    return int(identifier.replace("-", "")[:12], 16) * 1000 // DAY


def _id_at(day: int) -> str:
    digits = f"{max(0, day * DAY // 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000"


def _search_sqlite_day(
    connection: Connection, day: int, expression: str, scope: TraceScope
) -> Iterator[list[str]]:
    table = text_table(day)
    name = connection.execute(
        text("SELECT 1 FROM sqlite_master WHERE name = :name"), {"name": table}
    ).scalar()
    if name is None:
        return
    rows = connection.exec_driver_sql(
        f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT {_RARE + 1}", (expression,)
    )
    found = [row[0] for row in rows]
    if len(found) > _RARE:
        yield from _search_traces_of_day(connection, day, expression, scope)
        return
    traces: set[str] = set()
    for batch in in_batches(found):
        query = select(SPANS.c.trace).where(SPANS.c.row.in_(batch)).distinct()
        traces.update(connection.execute(query).scalars())
    ordered = sorted(
        (each for each in traces if scope.is_later(each, scope.after)), reverse=scope.is_descending
    )
    for start in range(0, len(ordered), _BATCH):
        yield ordered[start : start + _BATCH]


def _search_traces_of_day(
    connection: Connection, day: int, expression: str, scope: TraceScope
) -> Iterator[list[str]]:
    """Search the spans of one trace after the other, for what occurs in many of them."""
    columns, order = TRACES.c, TRACES.c.id
    # The ids of a day, give or take one: so that an index that has no day in it leads there as well.
    near = and_(columns.id >= _id_at(day - 1), columns.id < _id_at(day + 2))
    query = select(columns.id).where(columns.day == day, near, scope.is_inside)
    query = query.order_by(order.desc() if scope.is_descending else order.asc()).limit(_BATCH)
    place = scope.after
    while True:
        traces = list(connection.execute(query.where(scope.is_behind(place))).scalars())
        if not traces:
            return
        matches = _match_traces(connection, text_table(day), expression, traces)
        if matches:
            yield [trace for trace in traces if trace in matches]
        place = traces[-1]


def _match_traces(connection: Connection, table: str, expression: str, traces: Sequence[str]) -> set[str]:
    spans = select(SPANS.c.row, SPANS.c.trace).where(SPANS.c.trace.in_(traces))
    trace_of = {row.row: row.trace for row in connection.execute(spans)}
    matches: set[str] = set()
    for low, high in _ranges(sorted(trace_of)):
        rows = connection.exec_driver_sql(
            f"SELECT rowid FROM {table} WHERE {table} MATCH ? AND rowid BETWEEN ? AND ?",
            (expression, low, high),
        )
        matches.update(trace_of[row[0]] for row in rows if row[0] in trace_of)
    return matches


def _ranges(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of rows between which there are no large gaps."""
    start = last = None
    for row in rows:
        if start is None or last is None:
            start = row
        elif row - last > _GAP:
            yield start, last
            start = row
        last = row
    if start is not None and last is not None:
        yield start, last


def _postgres_condition(words: Sequence[str], hashes: Sequence[int]) -> ColumnElement[bool]:
    conditions: list[ColumnElement[bool]] = []
    if words:
        # Nothing but letters and digits, so that none of them is an operator.
        query = " & ".join([*words[:-1], f"{words[-1]}:*"]).lower()
        conditions.append(_literal("spans.search @@ to_tsquery('simple', :query)", query=query))
    if hashes:
        numbers = ",".join(map(str, hashes))
        conditions.append(_literal(f"spans.attribute_hashes @> ARRAY[{numbers}]::bigint[]"))
    return and_(*conditions)


def _literal(condition: str, **values: str) -> Any:
    return text(condition).bindparams(*(bindparam(name, value) for name, value in values.items()))


def _search_postgres_day(
    connection: Connection, day: int, search: ColumnElement[bool], scope: TraceScope
) -> Iterator[list[str]]:
    trace: ColumnElement[str] = literal_column("spans.trace", Id)
    matching: Select[Any] = (
        select(trace)
        .distinct()
        .select_from(SPANS.join(TRACES, TRACES.c.id == SPANS.c.trace))
        .where(SPANS.c.day == day, search, scope.is_inside)
        .order_by(trace.desc() if scope.is_descending else trace.asc())
        .limit(_BATCH)
    )
    place = scope.after
    while True:
        bound = place or (_LAST_ID if scope.is_descending else _FIRST_ID)
        is_behind = SPANS.c.trace < bound if scope.is_descending else SPANS.c.trace > bound
        traces = list(connection.execute(matching.where(is_behind)).scalars())
        if traces:
            yield traces
        if len(traces) < _BATCH:
            return
        place = traces[-1]
