"""The spans of traces as rules see them, read from what was sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, or_, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.trace_tables import SPANS, TRACES
from dokimos.server._services.online.rule_conditions import SpanFacts
from dokimos.server._services.traces.span_logs import StoredLog, add_logs, load_logs
from dokimos.server._services.traces.span_pages import are_of, read_pages
from dokimos.server._services.traces.span_queries import (
    choose_spans,
    run_on_spans,
    run_with_sources,
)
from dokimos.server._services.traces.stored_spans import read_record
from dokimos.server._services.traces.trace_sources import load_origin
from dokimos.server._services.traces.trace_statements import SOURCE_COLUMNS
from dokimos.traces._span import Span

_EVALUATION_KEYS: Final = ("dokimos.evaluation", "gen_ai.evaluation.name")
_EVALUATION_SCOPE: Final = "dokimos"
_TRACES_AT_ONCE: Final = 200
"""Whose spans are asked for their projects."""
_FACT_COLUMNS: Final = tuple(
    SPANS.c[name]
    for name in (
        "trace",
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

    trace: str
    """The id of the row of its trace."""
    id: str
    parent_id: str | None
    project_id: str | None
    has_output: bool
    received_at: int
    start_ns: int | None
    facts: SpanFacts
    is_evaluation: bool
    """Whether an evaluation recorded it: scoring such spans would never end."""


def find_due_traces(connection: Connection, most: int) -> Sequence[Row[Any]]:
    """Return traces with spans that no rule was held against yet, the longest waiting first.

    Whatever their times: the clock may have been set back since.
    """
    due = TRACES.c.match_due_at
    is_due = (due.is_not(None), IS_THERE)
    return connection.execute(select(*TRACE_COLUMNS).where(*is_due).order_by(due).limit(most)).all()


def find_quiet_traces(connection: Connection, most: int, quiet: int) -> Sequence[Row[Any]]:
    """Return traces that waiting rules are to be held against, if nothing more has come for them.

    Args:
        connection: Of the traces.
        most: How many.
        quiet: How long nothing has to have come, in microseconds. A time that is further ahead is one of a
            clock that was set back since.
    """
    due, moment = TRACES.c.quiet_due_at, now()
    is_due = (due.is_not(None), or_(due <= moment, due > moment + quiet + CLOCK_SLACK), IS_THERE)
    return connection.execute(select(*TRACE_COLUMNS).where(*is_due).order_by(due).limit(most)).all()


IS_THERE: Final = TRACES.c.deleted_at.is_(None)
"""Of a trace that nobody has deleted: its spans may be there for some time after that, for nobody to see."""
CLOCK_SLACK: Final = 60_000_000
"""By how much clocks of several servers may differ, in microseconds."""
TRACE_COLUMNS: Final = tuple(
    TRACES.c[name]
    for name in (
        "id", "tenant_key", "tenant_id", "trace_id", "project_id", "day", "updated_at", "span_count",
        "byte_count", "match_due_at", "quiet_due_at", "session_id", "created_at",
    )
)  # fmt: skip


def read_traces(connection: Connection, ids: Iterable[str]) -> Sequence[Row[Any]]:
    """Return traces by the ids of their rows, those that were not deleted."""
    query = select(*TRACE_COLUMNS).where(TRACES.c.id.in_(list(ids)), IS_THERE)
    return connection.execute(query).all()


def find_projects(
    connection: Connection, traces: Sequence[Row[Any]], projects: Iterable[str]
) -> dict[str, set[str]]:
    """Return which of some projects spans of traces are of, by the ids of the rows of these.

    A trace has the project of its earliest span, but spans of several services, and so of several projects,
    may have its id.
    """
    found: dict[str, set[str]] = {}
    for some in in_batches(traces, _TRACES_AT_ONCE):
        is_asked = (*are_of(some), SPANS.c.project_id.in_(list(projects)))
        query = select(SPANS.c.trace, SPANS.c.project_id).where(*is_asked).distinct()
        for row in run_on_spans(connection, query):
            found.setdefault(row.trace, set()).add(row.project_id)
    return found


def read_spans(
    connection: Connection, traces: Sequence[Row[Any]], *, since: int | None = None
) -> Iterator[list[StoredSpan]]:
    """Yield the spans of a batch of traces, some at a time: trace by trace, in the order of their ids.

    Args:
        connection: Of the traces.
        traces: One batch of `batch_traces`.
        since: When they were received at the earliest; None for all.
    """
    for page in read_pages(connection, _FACT_COLUMNS, traces, since=since):
        yield [_read(row) for row in page]


def find_spans(
    connection: Connection, pairs: Iterable[tuple[str, str]], days: Iterable[int]
) -> dict[tuple[str, str], StoredSpan]:
    """Return spans by the ids of their traces' rows and their own, those that are there.

    Args:
        connection: Of the traces.
        pairs: These ids.
        days: Of the traces.
    """
    return {(row.trace, row.span_id): _read(row) for row in _read_named(connection, pairs, days)}


def load_spans(connection: Connection, traces: Sequence[Row[Any]], most: int) -> dict[str, list[Span]]:
    """Return the spans of a batch of traces as the library has them, by the ids of the rows of these.

    Args:
        connection: Of the traces.
        traces: One batch of `batch_traces`.
        most: Spans of each trace, the first ones in the order of their ids.
    """
    logs = _load_logs(connection, traces)
    loaded: dict[str, list[Span]] = {trace.id: [] for trace in traces}
    for page in read_pages(connection, _FACT_COLUMNS, traces):
        for row in page:
            of_trace = loaded[row.trace]
            if len(of_trace) < most:
                of_trace.append(_parse(row, logs.get((row.trace, row.span_id), ())))
        if all(len(of_trace) == most for of_trace in loaded.values()):
            break
    return loaded


def load_named_spans(
    connection: Connection, traces: Sequence[Row[Any]], pairs: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Span]:
    """Return spans of some traces as the library has them, by the ids of these traces' rows and their own."""
    logs = _load_logs(connection, traces)
    return {
        (row.trace, row.span_id): _parse(row, logs.get((row.trace, row.span_id), ()))
        for row in _read_named(connection, pairs, (trace.day for trace in traces))
    }


def _read_named(
    connection: Connection, pairs: Iterable[tuple[str, str]], days: Iterable[int]
) -> Iterator[Row[Any]]:
    own = set(days)
    for is_asked in choose_spans(connection, sorted(set(pairs)), own):
        yield from run_with_sources(connection, select(*_FACT_COLUMNS).where(is_asked))


def _load_logs(connection: Connection, traces: Iterable[Row[Any]]) -> dict[tuple[str, str], list[StoredLog]]:
    """Return the log records of traces, by the ids of their traces' rows and of the spans that they name."""
    ids = {(trace.tenant_key, trace.trace_id): trace.id for trace in traces}
    return {
        (ids[tenant, trace], span): of_span
        for (tenant, trace, span), of_span in load_logs(connection, list(ids)).items()
    }


def _parse(row: Row[Any], logs: Sequence[StoredLog] = ()) -> Span:
    """Return a span, with the log records that name it as its events."""
    origin = load_origin(*(getattr(row, f"source_{name}") for name in SOURCE_COLUMNS))
    return add_logs(read_record(bytes(row.body), origin), logs).span


def _read(row: Row[Any]) -> StoredSpan:
    span = _parse(row)
    attributes = {**span.resource, **span.attributes}
    return StoredSpan(
        row.trace,
        row.span_id,
        row.parent_id,
        row.project_id,
        bool((row.output_text or "").strip()),
        row.received_at,
        row.start_ns,
        SpanFacts(span.name, attributes),
        any(key in attributes for key in _EVALUATION_KEYS)
        or span.scope.partition(".")[0] == _EVALUATION_SCOPE,
    )
