"""Inserts the rows of spans, and what searches need of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import Connection

from dokimos.server._db.driver_statements import driver_id, execute_each, execute_many, first_row
from dokimos.server._db.span_storage import find_storage
from dokimos.server._services.traces.new_spans import NewSpan
from dokimos.server._services.traces.open_traces import OpenTrace
from dokimos.server._services.traces.page_filler import PageFiller
from dokimos.server._services.traces.placements import Placement
from dokimos.server._services.traces.request_pace import RequestPace
from dokimos.server._services.traces.stored_apart import insert_apart
from dokimos.server._services.traces.trace_statements import (
    ENCODING_NUMBERS,
    INSERT_POSTGRESQL,
    INSERT_SQLITE,
)
from dokimos.server._services.traces.trace_texts import (
    IndexedSpans,
    index_texts,
    project_word,
    searchable_text,
    searchable_words,
    write_words,
)

_FIRST: Final = NewSpan._fields.index("span_id")
_END: Final = NewSpan._fields.index("error") + 1
_NULL: Final = float("nan")
"""What SQLite stores as NULL. A span has no value in ten columns out of 16, and for each None the driver
looks for an adapter: half of what the insert costs (`timeit` of rows of None, and of this)."""
_ROWS_AT_ONCE: Final = 20
"""Rows inserted without a look at the requests."""


def insert_spans(
    connection: Connection,
    traces: Sequence[OpenTrace],
    moment: int,
    known_days: set[int],
    pace: RequestPace,
) -> None:
    """Insert the spans that were added to traces.

    Args:
        connection: In a transaction.
        traces: With the spans.
        moment: At which they came.
        known_days: Days whose index of texts is known to be there.
        pace: Lets requests go first, where SQLite's transaction is in a thread of its own.
    """
    storage = find_storage(connection)
    if storage is not None:
        insert_apart(connection, storage, traces, moment)
    elif connection.dialect.name == "postgresql":
        _insert_into_postgresql(connection, traces, moment)
    else:
        _insert_into_sqlite(connection, traces, moment, known_days, pace)


def _insert_into_postgresql(connection: Connection, traces: Sequence[OpenTrace], moment: int) -> None:
    rows = [
        (*_make_row(trace, span, project, moment), searchable_words(span), list(span.attribute_hashes))
        for trace, placement, project, spans in _group_by_placement(connection, traces)
        for span in spans
    ]
    execute_many(connection, INSERT_POSTGRESQL, rows)


def _insert_into_sqlite(
    connection: Connection,
    traces: Sequence[OpenTrace],
    moment: int,
    known_days: set[int],
    pace: RequestPace,
) -> None:
    rows: list[tuple[object, ...]] = []
    pages = PageFiller()
    indexed: dict[int, IndexedSpans] = {}
    first = number = _next_row(connection)
    for trace, placement, project, spans in _group_by_placement(connection, traces):
        word = project_word(placement.project, trace.tenant_key)
        shared = (trace.day, moment, _as_value(trace.driver_id), _as_value(project))
        of_day = indexed.setdefault(trace.day, IndexedSpans())
        for span in pace.keep(pages.arrange(spans)):
            values = [_NULL if value is None else value for value in span[_FIRST:_END]]
            encoding, body = ENCODING_NUMBERS[span.encoding], bytearray(span.body)
            rows.append((*values, *shared, span.source, encoding, body, number))
            words = write_words(word, span.attribute_hashes)
            of_day.texts.append((number, searchable_text(span), words))
            number += 1
        of_day.ranges.append((first, number - 1, shared[2]))
        first = number
    execute_each(connection, _divide_rows(rows, pace))
    for day, of_day in indexed.items():
        index_texts(connection, day, of_day, known_days, pace)


def _divide_rows(
    rows: list[tuple[object, ...]], pace: RequestPace
) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield INSERT_SQLITE, rows[start : start + _ROWS_AT_ONCE]
        pace.give_way()


def _as_value(identifier: object) -> object:
    """Return an identifier as a type that the driver of SQLite takes without asking for an adapter."""
    if identifier is None:
        return _NULL
    return bytearray(identifier) if isinstance(identifier, bytes) else identifier


def _group_by_placement(
    connection: Connection, traces: Sequence[OpenTrace]
) -> Iterator[tuple[OpenTrace, Placement, object, list[NewSpan]]]:
    """Yield the spans of each trace that follow each other and belong to one project, with its id.

    The id is as the driver takes it.
    """
    known: dict[str | None, object] = {}
    for trace in traces:
        last: Placement | None = None
        group: list[NewSpan] = []
        for span, placement in trace.added:
            if placement is last:
                group.append(span)
                continue
            if last is not None:
                yield trace, last, known[last.project], group
            last, group = placement, [span]
            if placement.project not in known:
                known[placement.project] = driver_id(placement.project, connection)
        if last is not None:
            yield trace, last, known[last.project], group


def _make_row(trace: OpenTrace, span: NewSpan, project: object, moment: int) -> tuple[object, ...]:
    # The fields from the id of a span to its error are columns in this order.
    return (
        trace.day,
        trace.driver_id,
        *span[_FIRST:_END],
        project,
        span.source,
        ENCODING_NUMBERS[span.encoding],
        span.body,
        moment,
    )


def _next_row(connection: Connection) -> int:
    """Return the first row that no span has had: the index may still name one that was removed."""
    last = first_row(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'spans'")
    return 1 + (0 if last is None else int(last[0]))
