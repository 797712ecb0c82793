"""Inserts the rows of spans, and what searches need of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection

from dokimos.server._db.driver_statements import driver_id, execute_many, first_row
from dokimos.server._services.traces.new_spans import NewSpan
from dokimos.server._services.traces.open_traces import OpenTrace
from dokimos.server._services.traces.placements import Placement
from dokimos.server._services.traces.trace_statements import (
    ENCODING_NUMBERS,
    INSERT_POSTGRESQL,
    INSERT_SQLITE,
)
from dokimos.server._services.traces.trace_texts import (
    index_texts,
    project_word,
    searchable_text,
    searchable_words,
    write_words,
)


def insert_spans(
    connection: Connection, traces: Sequence[OpenTrace], moment: int, known_days: set[int]
) -> None:
    """Insert the spans that were added to traces.

    Args:
        connection: In a transaction.
        traces: With the spans.
        moment: At which they came.
        known_days: Days whose index of texts is known to be there.
    """
    if connection.dialect.name == "postgresql":
        _insert_into_postgresql(connection, traces, moment)
    else:
        _insert_into_sqlite(connection, traces, moment, known_days)


def _insert_into_postgresql(connection: Connection, traces: Sequence[OpenTrace], moment: int) -> None:
    rows = [
        (*_make_row(trace, span, project, moment), searchable_words(span), list(span.attribute_hashes))
        for trace, placement, project, spans in _group_by_placement(connection, traces)
        for span in spans
    ]
    execute_many(connection, INSERT_POSTGRESQL, rows)


def _insert_into_sqlite(
    connection: Connection, traces: Sequence[OpenTrace], moment: int, known_days: set[int]
) -> None:
    rows: list[tuple[object, ...]] = []
    texts: dict[int, list[tuple[int, str, str]]] = {}
    number = _next_row(connection)
    for trace, placement, project, spans in _group_by_placement(connection, traces):
        word = project_word(placement.project, trace.tenant_key)
        of_day = texts.setdefault(trace.day, [])
        for span in spans:
            rows.append((*_make_row(trace, span, project, moment), number))
            of_day.append((number, searchable_text(span), write_words(word, span.attribute_hashes)))
            number += 1
    execute_many(connection, INSERT_SQLITE, rows)
    for day, of_day in texts.items():
        index_texts(connection, day, of_day, known_days)


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


_FIRST = NewSpan._fields.index("span_id")
_END = NewSpan._fields.index("error") + 1


def _next_row(connection: Connection) -> int:
    """Return the first row that no span has had: the index may still name one that was removed."""
    last = first_row(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'spans'")
    return 1 + (0 if last is None else int(last[0]))
