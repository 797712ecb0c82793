"""One trace: its row, its spans in parts, and what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, literal_column, or_, select

from dokimos.server._db.clock import DAY
from dokimos.server._db.columns import LONG
from dokimos.server._db.trace_tables import SPAN_START, SPANS, TRACE_DAYS, TRACES
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError, NotFoundError
from dokimos.server._services.traces.span_logs import add_logs, load_logs
from dokimos.server._services.traces.span_queries import run_on_spans, run_with_sources
from dokimos.server._services.traces.stored_spans import read_record
from dokimos.server._services.traces.trace_lists import visible_keys
from dokimos.server._services.traces.trace_sources import load_origin
from dokimos.server._services.traces.trace_statements import SOURCE_COLUMNS
from dokimos.traces._otlp_records import SpanRecord

_NAMESPACE: Final = uuid5(NAMESPACE_URL, "dokimos:spans")
_START: Final[ColumnElement[int]] = literal_column(SPAN_START, LONG)
SHOWN_TEXT: Final = 500
"""Characters of a text that the list of spans shows."""
_LIGHT: Final = tuple(
    SPANS.c[name]
    for name in (
        "span_id", "parent_id", "name", "kind", "status", "role", "start_ns", "end_ns", "tokens_in",
        "tokens_out", "cost_usd", "first_chunk_ms", "model",
    )
)  # fmt: skip
_CUT: Final = tuple(
    func.substr(SPANS.c[name], 1, SHOWN_TEXT + 1).label(name)
    for name in ("input_text", "output_text", "error")
)
_BODY: Final = (
    SPANS.c.input_text,
    SPANS.c.output_text,
    SPANS.c.error,
    SPANS.c.received_at,
    SPANS.c.body,
)
_ROWS_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """A span as it is stored, and as it was sent."""

    row: Row[Any]
    record: SpanRecord


def span_key(trace_id: str, span_id: str) -> str:
    """Return the id of a span on the wire, which is the same wherever and whenever it is stored."""
    return str(uuid5(_NAMESPACE, f"{trace_id}/{span_id}"))


def find_trace(connection: Connection, principal: Principal, identifier: UUID) -> Row[Any]:
    """Return a trace by the id of its row, or by its trace id, which often has the form of a UUID.

    Raises:
        NotFoundError: There is none that the caller sees; the message says where it was removed.
    """
    query = select(TRACES).where(principal.sees(TRACES))
    row = connection.execute(query.where(TRACES.c.id == str(identifier))).first()
    if row is None:
        by_trace_id = query.where(TRACES.c.trace_id == identifier.hex).order_by(TRACES.c.id.desc())
        row = connection.execute(by_trace_id.limit(1)).first()
    if row is not None:
        return row
    if _was_removed(connection, principal, identifier):
        raise NotFoundError(
            f"Trace not found: {identifier}; traces of its day were deleted by retention, perhaps this one."
        )
    raise NotFoundError(f"Trace not found: {identifier}")


def _was_removed(connection: Connection, principal: Principal, identifier: UUID) -> bool:
    """Whether retention has removed traces of the day on which an id was made, of what the caller sees."""
    if identifier.version != 7:
        return False
    day = (identifier.int >> 80) * 1000 // DAY
    conditions = (*visible_keys(principal, TRACE_DAYS, None), TRACE_DAYS.c.removed_traces > 0)
    query = select(TRACE_DAYS.c.day).where(*conditions, TRACE_DAYS.c.day == day)
    return connection.execute(query.limit(1)).first() is not None


def list_spans(
    connection: Connection, trace: Row[Any], *, after: str | None, limit: int
) -> tuple[Sequence[Row[Any]], bool]:
    """Return spans of a trace in the order of their starts, without what they hold, and whether more follow.

    Raises:
        InvalidRequestError: `after` is not the id of a span of the trace.
    """
    query = _sort(select(*_LIGHT, *_CUT).where(*_is_of(trace)))
    if after is not None:
        query = query.where(_is_behind(connection, trace, after))
    rows = run_on_spans(connection, query.limit(limit + 1)).all()
    return rows[:limit], len(rows) > limit


def _is_behind(connection: Connection, trace: Row[Any], after: str) -> ColumnElement[bool]:
    query = select(_START).where(*_is_of(trace), SPANS.c.span_id == after)
    place = run_on_spans(connection, query).scalar()
    if place is None:
        raise InvalidRequestError("is not the id of a span of this trace", field="after")
    # In these words the index of starts is read from there on.
    return and_(place <= _START, or_(place < _START, SPANS.c.span_id > after))


def find_span(connection: Connection, trace: Row[Any], span_id: str) -> StoredSpan:
    """Return a span with all that it holds, by its own id or by the one that `span_key` gives it.

    Raises:
        NotFoundError: The trace has none of that id.
    """
    query = _with_body().where(*_is_of(trace))
    row = run_with_sources(connection, query.where(SPANS.c.span_id == span_id)).first()
    if row is None and len(span_id) == len(str(_NAMESPACE)):
        ids = run_on_spans(connection, select(SPANS.c.span_id).where(*_is_of(trace))).scalars()
        named = next((each for each in ids if span_key(trace.trace_id, each) == span_id.lower()), None)
        if named is not None:
            row = run_with_sources(connection, query.where(SPANS.c.span_id == named)).first()
    if row is None:
        raise NotFoundError(f"Span not found: {span_id}")
    return next(_with_logs(connection, trace, [_load(row)]))


def read_spans(
    connection: Connection, trace: Row[Any], *, most: int, most_bytes: int
) -> tuple[list[StoredSpan], bool]:
    """Return the first spans of a trace with all that they hold, and whether these are all of them.

    Args:
        most: Spans at most.
        most_bytes: Bytes of spans, after which no more are read.
    """
    part = read_part(connection, trace, after=None, most=most, most_bytes=most_bytes)
    return list(part), part.next_after is None


class SpanPart:
    """Some spans of a trace in the order of their starts, read one after another, and where they end."""

    def __init__(self, connection: Connection, trace: Row[Any], ids: Sequence[str], *, goes_on: bool) -> None:
        self._connection = connection
        self._trace = trace
        self._ids = ids
        self.count: Final = len(ids)
        self.next_after: Final = ids[-1] if goes_on else None
        """The span behind which the next part begins; None where this is the last one."""

    def __iter__(self) -> Iterator[StoredSpan]:
        yield from _with_logs(
            self._connection, self._trace, _read_by_id(self._connection, self._trace, self._ids)
        )


def read_part(
    connection: Connection, trace: Row[Any], *, after: str | None, most: int, most_bytes: int
) -> SpanPart:
    """Return the spans of a trace behind another one, with all that they hold.

    Args:
        after: The id of a span; None for the first part.
        most: Spans at most.
        most_bytes: Bytes of spans, after which no more are read; one span is always.

    Raises:
        InvalidRequestError: `after` is not the id of a span of the trace.
    """
    conditions = _is_of(trace)
    if after is not None:
        conditions = (*conditions, _is_behind(connection, trace, after))
    ids, is_whole = _choose_ids(connection, conditions, most=most, most_bytes=most_bytes)
    return SpanPart(connection, trace, ids, goes_on=not is_whole)


def read_spans_by_id(
    connection: Connection, trace: Row[Any], *, after: str | None, limit: int
) -> list[StoredSpan]:
    """Return spans of a trace in the order of their ids as they were sent, for whoever wants all of them."""
    query = _with_body().where(*_is_of(trace)).order_by(SPANS.c.span_id).limit(limit)
    if after is not None:
        query = query.where(SPANS.c.span_id > after)
    return [_load(row) for row in run_with_sources(connection, query)]


def _choose_ids(
    connection: Connection, conditions: Sequence[ColumnElement[bool]], *, most: int, most_bytes: int
) -> tuple[list[str], bool]:
    """Return the ids of the first spans, and whether these are all."""
    chosen = _sort(select(SPANS.c.span_id, func.length(SPANS.c.body).label("size")).where(*conditions))
    ids: list[str] = []
    size = 0
    for row in run_on_spans(connection, chosen.limit(most + 1)):
        size += row.size
        if ids and (len(ids) == most or size > most_bytes):
            return ids, False
        ids.append(row.span_id)
    return ids, True


def _read_by_id(connection: Connection, trace: Row[Any], ids: Sequence[str]) -> Iterator[StoredSpan]:
    for start in range(0, len(ids), _ROWS_AT_ONCE):
        part = ids[start : start + _ROWS_AT_ONCE]
        query = _with_body().where(*_is_of(trace), SPANS.c.span_id.in_(part))
        rows = {row.span_id: row for row in run_with_sources(connection, query)}
        yield from (_load(rows[each]) for each in part)


def _with_logs(connection: Connection, trace: Row[Any], spans: Iterable[StoredSpan]) -> Iterator[StoredSpan]:
    """Yield spans with the log records that name them as their events."""
    key = (trace.tenant_key, trace.trace_id)
    logs = load_logs(connection, [key])
    for span in spans:
        of_span = logs.get((*key, span.row.span_id))
        yield span if of_span is None else replace(span, record=add_logs(span.record, of_span))


def _is_of(trace: Row[Any]) -> tuple[ColumnElement[bool], ...]:
    return SPANS.c.trace == trace.id, SPANS.c.day == trace.day


def _sort(query: Select[Any]) -> Select[Any]:
    return query.order_by(_START, SPANS.c.span_id)


def _with_body() -> Select[Any]:
    return select(*_LIGHT, *_BODY)


def _load(row: Row[Any]) -> StoredSpan:
    origin = load_origin(*(getattr(row, f"source_{name}") for name in SOURCE_COLUMNS))
    return StoredSpan(row, read_record(bytes(row.body), origin))
