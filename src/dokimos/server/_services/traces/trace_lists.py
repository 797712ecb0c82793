"""Lists of traces: pages that cost the same however many traces there are.

A condition that no index answers is looked at for so many traces at most: a page with fewer rows than asked
for then says behind which trace to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, bindparam, false, func, not_, select

from dokimos.server._db.trace_tables import TRACE_DAYS, TRACE_HOURS, TRACES
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.list_pages import ListPage, Order, find_place
from dokimos.server._services.traces.search_scope import TraceScope
from dokimos.server._services.traces.trace_cursors import write_cursor
from dokimos.server._services.traces.trace_filter import TraceFilter, check_order, is_by_id, is_by_score
from dokimos.server._services.traces.trace_scores import by_jobs, read_scored, select_by_score
from dokimos.server._services.traces.trace_search import find_candidates

WINDOW: Final = 10_000
"""Traces that are looked at for one page."""
_NEAR: Final = 500
"""Traces before a page that are read with it."""
_MOST_REMOVED: Final = 1000
"""Marked traces that may be about to be removed while an index counts the others."""
_LISTED: Final = tuple(
    column for column in TRACES.c if column.name not in ("summary", "tenant_key", "match_due_at")
)


@dataclass(frozen=True, slots=True)
class TracePage:
    """A page of traces."""

    rows: Sequence[Row[Any]]
    next_after: str | None
    """The cursor of the next page, None at the end of the list; its trace need not be on the page."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What one stream of rows has for a page."""

    keys: list[tuple[Any, ...]]
    """The values of the order of each row, the last of which is its id."""
    end: tuple[Any, ...] | None
    """The row up to which the stream was looked at, None for its end."""


def list_traces(
    connection: Connection,
    principal: Principal,
    chosen: TraceFilter,
    page: ListPage,
    *,
    limit: int,
    offset: int = 0,
) -> TracePage:
    """Return a page of the traces that the caller sees.

    Raises:
        InvalidRequestError: The list cannot be sorted so, or `page.after` is not a trace of it.
    """
    check_order(chosen, page.order)
    place = _find_place(connection, principal, page, chosen)
    if chosen.is_search:
        return _search(connection, principal, chosen, page, limit, offset)
    streams = visible_parts(principal, chosen.project_id)
    sees_all = principal.role is not Role.NONE and not principal.is_restricted
    if offset > _NEAR and sees_all and _is_found_by_index(chosen, page.order):
        removed = _read_removed(connection, chosen, page.order)
        if removed is not None:
            place = _find_last_before(connection, chosen, page.order, offset, removed)
            if place is None:
                return TracePage((), None)
            offset = 0
    count = limit + offset + 1
    parts = [_read_part(connection, seen, chosen, page.order, place, count, sees_all) for seen in streams]
    keys, end = _merge(parts, page.order, count)
    last = keys[offset + limit - 1] if len(keys) > offset + limit else end
    shown = [key[-1] for key in keys[offset : offset + limit]]
    return TracePage(_read_rows(connection, shown), None if last is None else write_cursor(page.order, last))


def _find_place(
    connection: Connection, principal: Principal, page: ListPage, chosen: TraceFilter
) -> Sequence[Any] | None:
    if page.after is None:
        return None
    if page.place is not None:
        return page.place
    if is_by_score(page.order):
        assert chosen.scores is not None
        scored = replace(chosen.scores, min_score=None, max_score=None, result=None)
        own = (principal.sees(TRACES), TRACES.c.id == page.after)
        query = select_by_score(scored, chosen.project_id, page.order, own)
        row = connection.execute(query.limit(1)).first()
        if row is None:
            raise InvalidRequestError("is not the id of a row of this list", field="after")
        return tuple(row)
    if is_by_id(page.order):
        return (page.after,)  # also where it has been removed meanwhile
    return find_place(connection, select(TRACES).where(principal.sees(TRACES)), page, TRACES.c.id)


def visible_parts(principal: Principal, project_id: str | None) -> list[ColumnElement[bool]]:
    """Return what the caller sees as conditions for each of which an index has the rows in order."""
    columns = TRACES.c
    if principal.role is Role.NONE and project_id is None:
        own = [columns.project_id == each for each in sorted(principal.project_roles)]
        return [and_(principal.sees(TRACES), each) for each in own] or [false()]
    if principal.is_restricted and project_id is None:
        tenants = dict.fromkeys((principal.tenant or "", ""))
        return [and_(principal.sees(TRACES), columns.tenant_key == tenant) for tenant in tenants]
    return [principal.sees(TRACES)]


def _read_part(
    connection: Connection,
    seen: ColumnElement[bool],
    chosen: TraceFilter,
    order: Order,
    place: Sequence[Any] | None,
    count: int,
    sees_all: bool,
) -> _Part:
    by_id = is_by_id(order)
    if by_id and chosen.scores is not None:
        return _read_scored_part(connection, seen, chosen, order, place, count)
    if is_by_score(order):
        return _read_part_by_score(connection, seen, chosen, order, place, count)
    bounds = [seen, *_bounds_of_list(chosen, order)]
    if place is not None:
        bounds.append(order.is_behind(place))
    end = None
    if not _is_found_by_index(chosen, order):
        # An index has the ids alone, and to read 10,000 rows takes 30 times as long. Removed ones may count.
        counted = bounds[1:] if by_id and sees_all and chosen.trace_id is None else bounds
        query = order.apply(select(*order.values).where(*counted)).offset(WINDOW - 1).limit(1)
        row = connection.execute(query).first()
        end = None if row is None else tuple(row)
    if end is not None:
        bounds += _up_to(order, end)
    query = order.apply(select(*order.values).where(*bounds, *chosen.conditions(order)))
    keys = [tuple(row) for row in connection.execute(query.limit(count))]
    return _Part(keys, None if len(keys) == count else end)


def _read_removed(
    connection: Connection, chosen: TraceFilter, order: Order
) -> Sequence[tuple[Any, ...]] | None:
    """Return the keys of the traces of a list that are marked as removed; None where many traces are."""
    columns = TRACES.c
    marked = select(columns.id).where(columns.deleted_at.is_not(None)).order_by(columns.day, columns.id)
    ids = connection.execute(marked.limit(_MOST_REMOVED + 1)).scalars().all()
    if not ids:
        return ()
    if len(ids) > _MOST_REMOVED:
        return None
    query = select(*order.values).where(columns.id.in_(ids), *chosen.conditions(order))
    return [tuple(row) for row in connection.execute(query)]


def _find_last_before(
    connection: Connection,
    chosen: TraceFilter,
    order: Order,
    count: int,
    removed: Sequence[tuple[Any, ...]],
) -> tuple[Any, ...] | None:
    """Return the last of the first traces of a list, None where there are fewer.

    An index counts them without a look at each, but has those that are removed as well.

    Args:
        count: How many traces come first.
        removed: The keys of those that do not count.
    """
    bounds = _bounds_of_list(chosen, order)
    keys = order.apply(select(*order.values).where(*bounds, *chosen.conditions(order)))
    place: tuple[Any, ...] | None = None
    missing = count
    while missing:
        query = keys if place is None else keys.where(order.is_behind(place))
        row = connection.execute(query.offset(missing - 1).limit(1)).first()
        if row is None:
            return None
        last, place = place, tuple(row)
        passed = [key for key in removed if _is_up_to(key, place, order)]
        missing = sum(last is None or not _is_up_to(key, last, order) for key in passed)
    return place


def _is_up_to(key: tuple[Any, ...], place: tuple[Any, ...], order: Order) -> bool:
    return key >= place if order.is_descending else key <= place


def _bounds_of_list(chosen: TraceFilter, order: Order) -> list[ColumnElement[bool]]:
    """The conditions that an index answers in the order of the list."""
    if is_by_id(order):
        return chosen.find_indexed()
    return [*_project(chosen), *_bounds_of_order(chosen, order)]


def _is_found_by_index(chosen: TraceFilter, order: Order) -> bool:
    """Whether an index has just the traces that are asked for, in their order."""
    names: tuple[str, ...] = _BOUNDS.get(_name_of(order), ())
    if is_by_id(order) and chosen.status == "error":
        names = ("status",)
    nothing: dict[str, Any] = dict.fromkeys(names)
    return not replace(chosen, **nothing).is_narrow


def _read_scored_part(
    connection: Connection,
    seen: ColumnElement[bool],
    chosen: TraceFilter,
    order: Order,
    place: Sequence[Any] | None,
    count: int,
) -> _Part:
    """Read from the results of rules, of which most projects have far fewer than traces."""
    assert chosen.scores is not None
    found = read_scored(
        connection,
        chosen.scores,
        chosen.project_id,
        (seen, *replace(chosen, scores=None).conditions(order)),
        after=None if place is None else place[0],
        is_descending=order.is_descending,
        count=count,
        window=WINDOW,
    )
    is_whole = found.end is None or len(found.ids) == count
    return _Part([(each,) for each in found.ids], None if is_whole else (found.end,))


def _read_part_by_score(
    connection: Connection,
    seen: ColumnElement[bool],
    chosen: TraceFilter,
    order: Order,
    place: Sequence[Any] | None,
    count: int,
) -> _Part:
    assert chosen.scores is not None
    own = by_jobs(order)
    bounds = [] if place is None else [own.is_behind(place)]
    in_range = replace(chosen.scores, result=None)
    window = select_by_score(in_range, chosen.project_id, order, bounds)
    end = connection.execute(window.offset(WINDOW - 1).limit(1)).first()
    if end is not None:
        bounds += _up_to(own, tuple(end))
    conditions = (seen, *bounds, *replace(chosen, scores=None).conditions(order))
    query = select_by_score(chosen.scores, chosen.project_id, order, conditions)
    keys = [tuple(row) for row in connection.execute(query.limit(count))]
    return _Part(keys, None if end is None or len(keys) == count else tuple(end))


def _project(chosen: TraceFilter) -> list[ColumnElement[bool]]:
    return [] if chosen.project_id is None else [TRACES.c.project_id == chosen.project_id]


def _bounds_of_order(chosen: TraceFilter, order: Order) -> list[ColumnElement[bool]]:
    """The conditions on the value that the list is sorted by: the index begins and ends there."""
    names = _BOUNDS.get(_name_of(order))
    if names is None:
        return []
    return TraceFilter(**{name: getattr(chosen, name) for name in names}).conditions(order)


def _name_of(order: Order) -> str:
    return getattr(order.values[0], "name", "")


_BOUNDS: Final = {
    "start_ns": ("start_from", "start_to"),
    "duration_ns": ("min_duration_ns", "max_duration_ns"),
    "cost_usd": ("min_cost", "max_cost"),
}


def _up_to(order: Order, end: Sequence[Any]) -> list[ColumnElement[bool]]:
    first = order.values[0]
    within: ColumnElement[bool] = first >= end[0] if order.is_descending else first <= end[0]
    return [within] if len(end) == 1 else [within, not_(order.is_behind(end))]


def _merge(
    parts: Sequence[_Part], order: Order, count: int
) -> tuple[list[tuple[Any, ...]], tuple[Any, ...] | None]:
    """Return the first rows of all streams, and up to where they are all of them if there are too few."""
    sign = -1 if order.is_descending else 1

    def compare_keys(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
        return sign * ((a > b) - (a < b))

    compare = cmp_to_key(compare_keys)
    ends = [part.end for part in parts if part.end is not None]
    end = min(ends, key=compare) if ends else None
    keys = sorted((key for part in parts for key in part.keys), key=compare)
    if end is not None:
        bound = compare(end)
        keys = [key for key in keys if not bound < compare(key)]
    return keys[:count], None if len(keys) >= count else end


def _read_rows(connection: Connection, ids: Sequence[str]) -> list[Row[Any]]:
    if not ids:
        return []
    rows = {row.id: row for row in connection.execute(select(*_LISTED).where(TRACES.c.id.in_(ids)))}
    return [rows[each] for each in ids if each in rows]


def _search(
    connection: Connection,
    principal: Principal,
    chosen: TraceFilter,
    page: ListPage,
    limit: int,
    offset: int,
) -> TracePage:
    conditions = (principal.sees(TRACES), *chosen.conditions(page.order))
    scope = TraceScope(
        is_inside=and_(principal.sees(TRACES), *_project(chosen)),
        conditions=conditions,
        is_descending=page.order.is_descending,
        after=page.after,
        project_id=chosen.project_id,
        start_from=chosen.start_from,
        start_to=chosen.start_to,
        wanted_count=offset + limit + 1,
        is_filtered=chosen.is_filtered,
    )
    is_chosen = TRACES.c.id.in_(bindparam("chosen", expanding=True))
    query: Select[Any] = page.order.apply(select(TRACES.c.id).where(is_chosen, *conditions))
    found: list[str] = []
    seen, end = 0, None
    for batch in find_candidates(connection, chosen.words, chosen.attributes, scope):
        if batch.traces:
            found += connection.execute(query, {"chosen": batch.traces}).scalars().all()
        seen += batch.seen_count
        end = batch.end if seen >= WINDOW else None
        if len(found) > offset + limit or end is not None:
            break
    shown = found[offset : offset + limit]
    last = shown[-1] if len(found) > offset + limit else end
    return TracePage(_read_rows(connection, shown), last)


def count_traces(connection: Connection, principal: Principal, project_id: str | None) -> int:
    """Return how many traces the caller sees, of one project or of all, from what is counted by the hour.

    What retention has removed stays in the hours, for the dashboards, and is subtracted.
    """
    counted = _sum(connection, principal, project_id, TRACE_HOURS, TRACE_HOURS.c.trace_count)
    removed = _sum(connection, principal, project_id, TRACE_DAYS, TRACE_DAYS.c.removed_traces)
    return max(0, counted - removed)


def _sum(
    connection: Connection,
    principal: Principal,
    project_id: str | None,
    table: Any,
    column: ColumnElement[int],
) -> int:
    conditions = visible_keys(principal, table, project_id)
    return int(connection.execute(select(func.coalesce(func.sum(column), 0)).where(*conditions)).scalar_one())


def visible_keys(principal: Principal, table: Any, project_id: str | None) -> list[ColumnElement[bool]]:
    """Return which rows of a table of counts are of traces that the caller sees, of one project or of all."""
    conditions: list[ColumnElement[bool]] = []
    if project_id is not None:
        conditions.append(table.c.project_key == project_id)
    if principal.is_restricted:
        conditions.append(table.c.tenant_key.in_({"", principal.tenant or ""}))
    if principal.role is Role.NONE:
        conditions.append(table.c.project_key.in_(sorted(principal.project_roles)))
    return conditions
