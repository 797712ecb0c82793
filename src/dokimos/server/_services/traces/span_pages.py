"""The spans of several traces, read with few queries and never many at once.

Where spans are in a store of their own, each query is a request: one for each trace would take longer than
all that is done with what they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, func, select

from dokimos.server._db.trace_tables import SPANS
from dokimos.server._services.traces.span_queries import run_on_spans, run_with_sources

MAX_SPANS: Final = 1000
"""That are in memory at once."""
MAX_BYTES: Final = 4 << 20
"""Of spans that are in memory at once, as they were sent; one span may have more."""
_SIZES_AT_ONCE: Final = 5000


def batch_traces(traces: Iterable[Row[Any]]) -> Iterator[list[Row[Any]]]:
    """Yield traces that follow each other, as many as one query may read; a large one is alone.

    Args:
        traces: Their rows, with `span_count` and `byte_count`.
    """
    batch: list[Row[Any]] = []
    spans = size = 0
    for trace in traces:
        if batch and (spans + trace.span_count > MAX_SPANS or size + trace.byte_count > MAX_BYTES):
            yield batch
            batch, spans, size = [], 0, 0
        batch.append(trace)
        spans, size = spans + trace.span_count, size + trace.byte_count
    if batch:
        yield batch


def read_pages(
    connection: Connection,
    columns: Sequence[Column[Any]],
    traces: Sequence[Row[Any]],
    *,
    since: int | None = None,
) -> Iterator[list[Row[Any]]]:
    """Yield the spans of a batch of traces with their sources, trace by trace, in the order of their ids.

    Args:
        connection: Of the traces.
        columns: Those of the spans; `trace` and `span_id` are among them.
        traces: One batch of `batch_traces`.
        since: When spans were received at the earliest; None for all.
    """
    is_recent = () if since is None else (SPANS.c.received_at >= since,)
    if len(traces) > 1 or _fits(traces[0]):
        query = _select(columns, *are_of(traces), *is_recent).order_by(SPANS.c.trace, SPANS.c.span_id)
        rows = run_with_sources(connection, query.limit(MAX_SPANS + 1)).all()
        if len(rows) <= MAX_SPANS:  # else more have come since the rows of the traces were read
            yield list(rows)
            return
        del rows
    for trace in traces:
        is_asked = (*are_of([trace]), *is_recent)
        for first, last in _split(connection, is_asked):
            is_in_page = (SPANS.c.span_id >= first, SPANS.c.span_id <= last)
            query = _select(columns, *is_asked, *is_in_page).order_by(SPANS.c.span_id)
            yield list(run_with_sources(connection, query))


def are_of(traces: Iterable[Row[Any]]) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that spans are those of some traces."""
    ids, days = zip(*((trace.id, trace.day) for trace in traces), strict=True)
    return SPANS.c.trace.in_(ids), SPANS.c.day.in_(sorted(set(days)))


def _fits(trace: Row[Any]) -> bool:
    return bool(trace.span_count <= MAX_SPANS and trace.byte_count <= MAX_BYTES)


def _select(columns: Sequence[Column[Any]], *conditions: ColumnElement[bool]) -> Select[Any]:
    return select(*columns).where(*conditions)


def _split(connection: Connection, is_asked: Sequence[ColumnElement[bool]]) -> Iterator[tuple[str, str]]:
    """Yield the first and the last id of each page of the spans of one trace."""
    sizes = select(SPANS.c.span_id, func.length(SPANS.c.body).label("size")).where(*is_asked)
    sizes = sizes.order_by(SPANS.c.span_id).limit(_SIZES_AT_ONCE)
    after = ""
    while rows := run_on_spans(connection, sizes.where(SPANS.c.span_id > after)).all():
        first, count, total = rows[0].span_id, 0, 0
        for row in rows:
            if count and (count == MAX_SPANS or total + row.size > MAX_BYTES):
                yield first, after
                first, count, total = row.span_id, 0, 0
            after, count, total = row.span_id, count + 1, total + row.size
        yield first, after
