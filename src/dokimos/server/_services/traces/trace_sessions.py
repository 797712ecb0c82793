"""Sessions: traces that say that they belong together, such as the turns of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, literal_column, select

from dokimos.server._db.trace_tables import TRACES
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.traces.trace_filter import HAS_ERROR
from dokimos.server._services.traces.trace_lists import WINDOW

_AT_ONCE: Final = 500
"""Traces that are looked at with one query."""
_IS_IN_SESSION: Final[ColumnElement[bool]] = literal_column("session_id IS NOT NULL")  # as the index says it
_Key: TypeAlias = tuple[str, str | None, str]
"""A session, its project and its tenant: others may call theirs the same."""


@dataclass(frozen=True, slots=True)
class Session:
    """The traces of a session, counted."""

    latest_id: str
    """The trace of it that the server heard of last."""
    counts: Row[Any]


def list_sessions(
    connection: Connection,
    principal: Principal,
    project_id: str | None,
    *,
    after: str | None,
    limit: int,
) -> tuple[list[Session], str | None]:
    """Return sessions that the caller sees, the one with the newest trace first, and where the list goes on.

    Args:
        after: The `latest_id` of the session that the list goes on behind.
    """
    columns = TRACES.c
    visible = [principal.sees(TRACES), *([] if project_id is None else [columns.project_id == project_id])]
    query: Select[Any] = select(columns.id, *_KEY).where(*visible, _IS_IN_SESSION).order_by(columns.id.desc())
    seen: set[_Key] = set()
    sessions: list[Session] = []
    place, looked_at = after, 0
    while looked_at < WINDOW:
        part = query if place is None else query.where(columns.id < place)
        traces = connection.execute(part.limit(_AT_ONCE)).all()
        latest = _latest(traces, seen)
        counts = _count(connection, visible, [key[0] for key in latest], after)
        # A session with a trace before the cursor was on a page before this one.
        sessions += [
            Session(trace_id, counts[key])
            for key, trace_id in latest.items()
            if key in counts and not counts[key].shown
        ]
        if len(sessions) > limit:
            return sessions[:limit], sessions[limit - 1].latest_id
        if len(traces) < _AT_ONCE:
            return sessions, None
        place, looked_at = traces[-1].id, looked_at + len(traces)
    return sessions, place


def _latest(traces: Iterable[Row[Any]], seen: set[_Key]) -> dict[_Key, str]:
    """Return the first of the traces of each session that was not seen before."""
    latest: dict[_Key, str] = {}
    for row in traces:
        key = (row.session_id, row.project_id, row.tenant_key)
        if key not in seen:
            seen.add(key)
            latest[key] = row.id
    return latest


def _count(
    connection: Connection, visible: Sequence[ColumnElement[bool]], sessions: Sequence[str], after: str | None
) -> dict[_Key, Row[Any]]:
    shown: ColumnElement[int] = (
        literal_column("0") if after is None else func.sum(case((TRACES.c.id >= after, 1), else_=0))
    )
    # A condition that no index serves: SQLite would read all traces of the project to count some sessions.
    is_visible = case((and_(*visible), 1), else_=0) == 1
    query: Select[Any] = (
        select(*_KEY, *_COUNTS, shown.label("shown"))
        .where(TRACES.c.session_id.in_(set(sessions)), is_visible)
        .group_by(*_KEY)
    )
    return {(row.session_id, row.project_id, row.tenant_key): row for row in connection.execute(query)}


_KEY: Final = (TRACES.c.session_id, TRACES.c.project_id, TRACES.c.tenant_key)
_COUNTS: Final = (
    func.count().label("trace_count"),
    func.sum(case((HAS_ERROR, 1), else_=0)).label("error_count"),
    func.sum(TRACES.c.span_count).label("span_count"),
    func.min(TRACES.c.start_ns).label("start_ns"),
    func.max(TRACES.c.end_ns).label("end_ns"),
    func.min(TRACES.c.created_at).label("created_at"),
    func.max(TRACES.c.updated_at).label("updated_at"),
    func.sum(TRACES.c.tokens_in).label("tokens_in"),
    func.sum(TRACES.c.tokens_out).label("tokens_out"),
    func.sum(TRACES.c.cost_usd).label("cost_usd"),
    func.sum(TRACES.c.priced_calls).label("priced_calls"),
    func.sum(TRACES.c.unpriced_calls).label("unpriced_calls"),
)
