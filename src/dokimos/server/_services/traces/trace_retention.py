"""Traces that are removed: first read by nobody any more, then taken out of the tables in small steps.

A trace that expires, or that somebody deletes, is marked. Its spans are removed later, a few hundred in a
transaction; on PostgreSQL the spans of a whole day go at once where none of its traces is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ClauseElement, Connection, and_, delete, exists, func, or_, select, tuple_, update

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.driver_statements import DriverStatement, execute_many
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.span_storage import find_storage
from dokimos.server._db.trace_tables import SPAN_LOGS, SPANS, TRACE_DAYS, TRACE_SOURCES, TRACES
from dokimos.server._services.traces.request_pace import NO_PAUSES, RequestPace

_MARKED_AT_ONCE: Final = 500
"""Traces that one transaction marks at most."""
TRACES_AT_ONCE: Final = 500
SPANS_AT_ONCE: Final = 500
"""Spans that one transaction removes at most: others wait no longer than that takes."""
_ROWS_AT_ONCE: Final = 20
"""That SQLite changes between two looks at the requests: less than a millisecond."""
_REMOVE_SPAN: Final = "DELETE FROM spans WHERE row = ?"
_SPANS_APART: Final = 100_000
"""Those where spans are in a store of their own, which removes them outside the transaction."""
_DAYS_OPEN: Final = 2
"""The last days are never removed as a whole: clocks of servers differ, and a day may be about to end."""


@dataclass(frozen=True, slots=True)
class DayState:
    """What is left of the traces of a day."""

    day: int
    is_closed: bool
    """Whether no trace can begin on it any more."""
    has_traces: bool
    """Whether any of its traces is still to be read."""
    next_end: int | None
    """When the last of them expires, None where one is kept for ever, or there is none."""
    has_wishes: bool
    """Whether one was removed before its time, as somebody wished."""
    goes_at_once: bool = True
    """Whether its spans can be removed at once, without a look at each of them."""

    def waits(self, moment: int) -> bool:
        """Whether the rest of the day expires so soon that all of its spans are better removed at once."""
        ends_soon = self.next_end is not None and self.next_end <= moment + DAY
        return self.is_closed and self.has_traces and ends_soon and not self.has_wishes


def expire_traces(connection: Connection, moment: int, pace: RequestPace = NO_PAUSES) -> int:
    """Mark some of the traces that have expired; return how many, 0 when none is left.

    Args:
        connection: In a transaction.
        moment: At which they have expired.
        pace: Lets requests go first.
    """
    is_expired = and_(TRACES.c.expires_at <= moment, TRACES.c.deleted_at.is_(None))
    chosen = select(TRACES.c.id).where(is_expired).order_by(TRACES.c.expires_at).limit(_MARKED_AT_ONCE)
    # One that is being stored into at the moment gets a new stamp by that.
    locked = list(connection.execute(chosen.with_for_update(skip_locked=True)).scalars())
    marked = 0
    for ids in in_batches(locked, _ROWS_AT_ONCE):
        marked += mark_traces(connection, ids)
        pace.count(len(ids))
    return marked


def mark_traces(connection: Connection, ids: Sequence[str]) -> int:
    """Let nobody read traces any more, by the ids of their rows; return how many there were."""
    if not ids:
        return 0
    is_there = (TRACES.c.id.in_(ids), TRACES.c.deleted_at.is_(None))
    return connection.execute(
        update(TRACES).where(*is_there).values(deleted_at=now(), match_due_at=None, quiet_due_at=None)
    ).rowcount


def list_marked_days(connection: Connection) -> list[int]:
    """Return the days that have traces to be removed, the oldest first."""
    days: list[int] = []
    while True:  # from one day of the index to the next, not over all of its rows
        query = select(func.min(TRACES.c.day)).where(TRACES.c.deleted_at.is_not(None))
        day = connection.execute(query.where(TRACES.c.day > days[-1]) if days else query).scalar()
        if day is None:
            return days
        days.append(day)


def read_day(connection: Connection, day: int) -> DayState:
    """Return what is left of the traces of a day."""
    of_day, is_there = TRACES.c.day == day, TRACES.c.deleted_at.is_(None)
    first = select(TRACES.c.id).where(of_day, is_there).limit(1)
    has_traces = connection.execute(first).first() is not None
    stays = select(TRACES.c.id).where(of_day, is_there, TRACES.c.expires_at.is_(None)).limit(1)
    has_end = has_traces and connection.execute(stays).first() is None
    ends = select(func.max(TRACES.c.expires_at)).where(of_day, is_there)
    is_wish = or_(TRACES.c.expires_at.is_(None), TRACES.c.expires_at > TRACES.c.deleted_at)
    wishes = select(TRACES.c.id).where(of_day, TRACES.c.deleted_at.is_not(None), is_wish).limit(1)
    return DayState(
        day=day,
        is_closed=is_closed(day),
        has_traces=has_traces,
        next_end=connection.execute(ends).scalar() if has_end else None,
        has_wishes=connection.execute(wishes).first() is not None,
        goes_at_once=connection.dialect.name == "postgresql" or find_storage(connection) is not None,
    )


def is_closed(day: int) -> bool:
    """Whether a day is over, by any clock."""
    return day <= now() // DAY - _DAYS_OPEN


def is_unused(connection: Connection, day: int) -> bool:
    """Whether a day is over and no row of a trace is left of it, marked ones included."""
    query = select(TRACES.c.id).where(TRACES.c.day == day).limit(1)
    return is_closed(day) and connection.execute(query).first() is None


def choose_marked(connection: Connection, day: int) -> list[str]:
    """Return some of the traces of a day that are to be removed, by the ids of their rows."""
    is_marked = (TRACES.c.day == day, TRACES.c.deleted_at.is_not(None))
    query = select(TRACES.c.id, TRACES.c.span_count).where(*is_marked).order_by(TRACES.c.id)
    # In a store of their own spans keep nobody waiting, and each removal of some rewrites the marks of many.
    most = SPANS_AT_ONCE if find_storage(connection) is None else _SPANS_APART
    chosen: list[str] = []
    spans = 0
    for row in connection.execute(query.limit(TRACES_AT_ONCE)):
        spans += row.span_count
        if chosen and spans > most:
            break
        chosen.append(row.id)
    return chosen


def purge_traces(
    connection: Connection,
    day: int,
    ids: Sequence[str],
    *,
    is_dropped: bool = False,
    pace: RequestPace = NO_PAUSES,
) -> tuple[int, int]:
    """Remove traces that are marked, with their spans and logs: all of it, or a part of a large one.

    Args:
        connection: In a transaction.
        day: Of the traces.
        ids: Of their rows.
        is_dropped: Whether the spans of the whole day are gone already.
        pace: Lets requests go first, where SQLite's transaction is in a thread of its own.

    Returns:
        How many traces and how many rows were removed.
    """
    storage = find_storage(connection)
    removed = 0
    if storage is None:
        removed = _remove_spans(connection, day, ids, pace)
    elif not is_dropped:
        storage.remove(connection, day, ids)
    if len(ids) == 1 and removed >= SPANS_AT_ONCE:
        return 0, removed
    columns = (TRACES.c.tenant_key, TRACES.c.trace_id, TRACES.c.project_id, TRACES.c.span_count)
    is_marked = (TRACES.c.id.in_(ids), TRACES.c.deleted_at.is_not(None))
    gone = connection.execute(delete(TRACES).where(*is_marked).returning(*columns)).all()
    removed += _remove_logs(connection, [(row.tenant_key, row.trace_id) for row in gone])
    _count_removed(connection, day, gone)
    return len(gone), len(gone) + removed


def _remove_spans(connection: Connection, day: int, ids: Sequence[str], pace: RequestPace) -> int:
    of_traces = (SPANS.c.day == day, SPANS.c.trace.in_(ids))
    # Of one trace there may be more spans than a transaction should remove.
    most = SPANS_AT_ONCE if len(ids) == 1 else None
    if connection.dialect.name == "postgresql":
        removal = delete(SPANS).where(*of_traces)
        if most is not None:
            removal = removal.where(
                SPANS.c.span_id.in_(select(SPANS.c.span_id).where(*of_traces).limit(most))
            )
        return connection.execute(removal).rowcount
    chosen = select(SPANS.c.row).where(*of_traces).limit(most)
    rows = [tuple(row) for row in connection.execute(chosen)]
    for some in in_batches(rows, _ROWS_AT_ONCE):
        execute_many(connection, _REMOVE_SPAN, some)
        pace.count(len(some))
    return len(rows)


def _remove_logs(connection: Connection, keys: Sequence[tuple[str, str]]) -> int:
    key = tuple_(SPAN_LOGS.c.tenant_key, SPAN_LOGS.c.trace_id)
    return connection.execute(delete(SPAN_LOGS).where(key.in_(keys), ~_has_trace())).rowcount


def _has_trace() -> Any:
    """The condition that the trace of a log record is there."""
    return exists().where(
        TRACES.c.tenant_key == SPAN_LOGS.c.tenant_key,
        TRACES.c.trace_id == SPAN_LOGS.c.trace_id,
        TRACES.c.deleted_at.is_(None),
    )


def remove_lone_logs(connection: Connection, moment: int) -> int:
    """Remove some log records whose span has never come; return how many."""
    key = list(SPAN_LOGS.primary_key)
    expired = select(*key).where(SPAN_LOGS.c.expires_at <= moment).limit(SPANS_AT_ONCE)
    rows = [tuple(row) for row in connection.execute(expired)]
    if not rows:
        return 0
    return connection.execute(delete(SPAN_LOGS).where(tuple_(*key).in_(rows))).rowcount


def _count_removed(connection: Connection, day: int, gone: Iterable[Any]) -> None:
    traces: Counter[tuple[str, str]] = Counter()
    spans: Counter[tuple[str, str]] = Counter()
    for row in gone:
        key = (row.project_id or "", row.tenant_key)
        traces[key] += 1
        spans[key] += row.span_count
    at = now()
    rows = [
        {
            "project_key": key[0],
            "tenant_key": key[1],
            "day": day,
            "removed_traces": traces[key],
            "removed_spans": spans[key],
            "removed_at": at,
        }
        for key in sorted(traces)  # in one order in all servers
    ]
    _COUNT_REMOVED.execute_many(connection, rows)


def _build_count(dialect: str) -> ClauseElement:
    insert = INSERTS[dialect](TRACE_DAYS)
    counts = ("removed_traces", "removed_spans")
    sums = {name: TRACE_DAYS.c[name] + insert.excluded[name] for name in counts}
    counted: ClauseElement = insert.on_conflict_do_update(
        index_elements=list(TRACE_DAYS.primary_key), set_=sums | {"removed_at": insert.excluded.removed_at}
    )
    return counted


_COUNT_REMOVED: Final = DriverStatement(_build_count)


def remove_unused_sources(connection: Connection) -> int:
    """Remove some of the resources and scopes that no span and no log record names any more.

    A row has the last day on which something came that names it, and that belongs to a trace of that day or
    of an earlier one: where all traces are of later days, nothing names it.
    """
    first_days = [connection.execute(select(func.min(table.c.day))).scalar() for table in (TRACES, SPAN_LOGS)]
    first = min([now() // DAY - _DAYS_OPEN + 1, *(day for day in first_days if day is not None)])
    is_unused = TRACE_SOURCES.c.last_day < first
    chosen = select(TRACE_SOURCES.c.id).where(is_unused).limit(SPANS_AT_ONCE)
    # Asked again of the row that is deleted: a span may have come meanwhile that names it.
    return connection.execute(delete(TRACE_SOURCES).where(is_unused, TRACE_SOURCES.c.id.in_(chosen))).rowcount
