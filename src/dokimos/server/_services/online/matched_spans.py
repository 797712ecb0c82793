"""The spans of traces as rules see them, read from what was sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.trace_tables import SPANS, TRACES
from dokimos.server._services.online.rule_conditions import SpanFacts
from dokimos.server._services.traces.span_logs import StoredLog, add_logs, load_logs
from dokimos.server._services.traces.span_queries import run_with_sources
from dokimos.server._services.traces.stored_spans import read_record
from dokimos.server._services.traces.trace_sources import load_origin
from dokimos.server._services.traces.trace_statements import SOURCE_COLUMNS
from dokimos.traces._span import Span

_NAMED: Final = 300
"""Spans that one query names, whose ids clients choose."""
_EVALUATION_KEYS: Final = ("dokimos.evaluation", "gen_ai.evaluation.name")
_EVALUATION_SCOPE: Final = "dokimos"
_FACT_COLUMNS: Final = tuple(
    SPANS.c[name]
    for name in (
        "span_id",
        "parent_id",
        "name",
        "project_id",
        "output_text",
        "received_at",
        "start_ns",
        "body",
    )
)


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """A span of a trace, with what rules compare."""

    id: str
    parent_id: str | None
    project_id: str | None
    has_output: bool
    received_at: int
    facts: SpanFacts
    is_evaluation: bool
    """Whether an evaluation recorded it: scoring such spans would never end."""


def find_due_traces(connection: Connection, most: int) -> Sequence[Row[Any]]:
    """Return traces with spans that no rule was held against yet, the longest waiting first."""
    due = TRACES.c.match_due_at
    is_due = (due.is_not(None), due <= now() + _SLACK, IS_THERE)
    return connection.execute(select(*_TRACE_COLUMNS).where(*is_due).order_by(due).limit(most)).all()


def find_quiet_traces(connection: Connection, most: int) -> Sequence[Row[Any]]:
    """Return traces that waiting rules are to be held against, if nothing more has come for them."""
    due = TRACES.c.quiet_due_at
    is_due = (due.is_not(None), due <= now(), IS_THERE)
    return connection.execute(select(*_TRACE_COLUMNS).where(*is_due).order_by(due).limit(most)).all()


IS_THERE: Final = TRACES.c.deleted_at.is_(None)
"""Of a trace that nobody has deleted: its spans may be there for some time after that, for nobody to see."""
_SLACK: Final = 60_000_000
"""By how much clocks of several servers may differ: what came is due, whatever its time."""
_TRACE_COLUMNS: Final = tuple(
    TRACES.c[name]
    for name in (
        "id", "tenant_key", "tenant_id", "trace_id", "project_id", "day", "updated_at", "span_count",
        "match_due_at", "quiet_due_at", "session_id", "created_at",
    )
)  # fmt: skip


def read_traces(connection: Connection, ids: Iterable[str]) -> Sequence[Row[Any]]:
    """Return traces by the ids of their rows, those that were not deleted."""
    query = select(*_TRACE_COLUMNS).where(TRACES.c.id.in_(list(ids)), IS_THERE)
    return connection.execute(query).all()


def read_spans(
    connection: Connection, trace: Row[Any], *, after: str = "", since: int | None = None, most: int
) -> list[StoredSpan]:
    """Return some spans of a trace, in the order of their ids.

    Args:
        connection: Of the traces.
        trace: The row of the trace.
        after: The id behind which to go on.
        since: When they were received at the earliest; None for all.
        most: How many at most.
    """
    query = _select_spans(trace).where(SPANS.c.span_id > after).order_by(SPANS.c.span_id).limit(most)
    if since is not None:
        query = query.where(SPANS.c.received_at >= since)
    return [_read(row) for row in run_with_sources(connection, query)]


def find_spans(connection: Connection, trace: Row[Any], span_ids: Iterable[str]) -> dict[str, StoredSpan]:
    """Return spans of a trace by their ids, those that are there."""
    return {
        row.span_id: _read(row)
        for batch in in_batches(sorted(set(span_ids)), _NAMED)
        for row in run_with_sources(connection, _select_spans(trace).where(SPANS.c.span_id.in_(batch)))
    }


def find_root(connection: Connection, trace: Row[Any]) -> StoredSpan | None:
    """Return the span that a trace began with: one without a parent, the earliest."""
    query = _select_spans(trace).order_by(
        SPANS.c.parent_id.is_not(None), SPANS.c.start_ns.is_(None), SPANS.c.start_ns, SPANS.c.span_id
    )
    row = run_with_sources(connection, query.limit(1)).first()
    return None if row is None else _read(row)


def load_spans(connection: Connection, trace: Row[Any], most: int, span_id: str | None = None) -> list[Span]:
    """Return spans of a trace as the library has them, in the order of their ids."""
    query = _select_spans(trace).order_by(SPANS.c.span_id).limit(most)
    if span_id is not None:
        query = query.where(SPANS.c.span_id == span_id)
    key = (trace.tenant_key, trace.trace_id)
    logs = load_logs(connection, [key])
    return [_parse(row, logs.get((*key, row.span_id), ())) for row in run_with_sources(connection, query)]


def _select_spans(trace: Row[Any]) -> Any:
    return select(*_FACT_COLUMNS).where(SPANS.c.trace == trace.id, SPANS.c.day == trace.day)


def _parse(row: Row[Any], logs: Sequence[StoredLog] = ()) -> Span:
    """Return a span, with the log records that name it as its events."""
    origin = load_origin(*(getattr(row, f"source_{name}") for name in SOURCE_COLUMNS))
    return add_logs(read_record(bytes(row.body), origin), logs).span


def _read(row: Row[Any]) -> StoredSpan:
    span = _parse(row)
    attributes = {**span.resource, **span.attributes}
    return StoredSpan(
        row.span_id,
        row.parent_id,
        row.project_id,
        bool((row.output_text or "").strip()),
        row.received_at,
        SpanFacts(span.name, attributes),
        any(key in attributes for key in _EVALUATION_KEYS)
        or span.scope.partition(".")[0] == _EVALUATION_SCOPE,
    )
