"""Queries of spans, wherever these are: beside their traces, or in a store of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Result, Row, Select, and_, select, tuple_
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData

from dokimos.server._db.batches import in_batches
from dokimos.server._db.span_storage import find_storage
from dokimos.server._db.trace_tables import SPANS, TRACE_SOURCES
from dokimos.server._services.traces.trace_statements import SOURCE_COLUMNS

_NAMED: Final = 1000
"""Spans that one query names."""
_NAMED_APART: Final = 300
"""The same for ClickHouse, which takes 128 KiB of ids: clients choose those of spans."""
_SOURCE: Final = tuple(TRACE_SOURCES.c[name].label(f"source_{name}") for name in SOURCE_COLUMNS)


def choose_spans(
    connection: Connection, pairs: Sequence[tuple[str, str]], days: Iterable[int]
) -> Iterator[ColumnElement[bool]]:
    """Yield conditions that a span is one of some, each for a part of them.

    Args:
        connection: Of the traces.
        pairs: The ids of the rows of traces, and those of spans.
        days: Of the traces.
    """
    storage = find_storage(connection)
    for batch in in_batches(pairs, _NAMED if storage is None else _NAMED_APART):
        is_asked = tuple_(SPANS.c.trace, SPANS.c.span_id).in_(batch)
        # The other databases have an index of traces over all days.
        yield is_asked if storage is None else and_(is_asked, SPANS.c.day.in_(sorted(days)))


def run_on_spans(connection: Connection, query: Select[Any]) -> Result[Any]:
    """Run a query of the table `spans` alone."""
    storage = find_storage(connection)
    return connection.execute(query) if storage is None else storage.select(connection, query)


def run_with_sources(connection: Connection, query: Select[Any]) -> Result[Any]:
    """Run a query of the table `spans` alone; its rows get those of their sources, such as `source_scope`."""
    storage = find_storage(connection)
    if storage is None:
        is_its_own = TRACE_SOURCES.c.id == SPANS.c.source
        return connection.execute(query.add_columns(*_SOURCE).join(TRACE_SOURCES, is_its_own))
    keys = [*query.selected_columns.keys(), *(column.name for column in _SOURCE)]
    rows = storage.select(connection, query.add_columns(SPANS.c.source)).all()
    sources = _read_sources(connection, {row[-1] for row in rows})
    joined = (tuple(row)[:-1] + sources[row[-1]] for row in rows if row[-1] in sources)
    return IteratorResult(SimpleResultMetaData(keys), joined)


def _read_sources(connection: Connection, ids: Iterable[int]) -> dict[int, tuple[Any, ...]]:
    """Return the sources of spans, which are beside the traces in any case, by their ids."""
    sources: dict[int, tuple[Any, ...]] = {}
    for batch in in_batches(sorted(ids)):
        query = select(TRACE_SOURCES.c.id, *_SOURCE).where(TRACE_SOURCES.c.id.in_(batch))
        rows: Iterable[Row[Any]] = connection.execute(query)
        sources |= {row[0]: tuple(row)[1:] for row in rows}
    return sources
