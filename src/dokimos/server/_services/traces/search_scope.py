"""Where a search of traces looks: which traces, and which days, in the order of the list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, func, select

from dokimos.server._db.clock import DAY
from dokimos.server._db.trace_tables import TRACES

LAST_ID: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"
FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"
_NANOSECONDS: Final = 1000
"""In a microsecond."""
_FEW: Final = 200
"""Traces outside a period that are sooner looked at than the index of starts of the whole period."""


@dataclass(frozen=True, slots=True)
class TraceScope:
    """Where a search looks."""

    is_inside: ColumnElement[bool]
    """The condition on traces that indexes answer."""
    conditions: Sequence[ColumnElement[bool]]
    """All conditions on traces."""
    is_descending: bool = True
    after: str | None = None
    """The trace behind which it begins."""
    project_id: str | None = None
    start_from: int | None = None
    """Nanoseconds since 1970 before which no trace of it began."""
    start_to: int | None = None
    """Those before which each of them began."""
    wanted_count: int = 200
    """Traces that fill a page: PostgreSQL reads as many at first, and more where some are left out."""
    is_filtered: bool = True
    """Whether anything is asked for but a project, a period and what is searched for."""

    def is_behind(self, place: str | None) -> ColumnElement[bool]:
        """The condition that a trace comes later than another one, or any where that is None."""
        column = TRACES.c.id
        if self.is_descending:
            return column < (place or LAST_ID)
        return column > (place or FIRST_ID)

    def is_up_to(self, place: str) -> ColumnElement[bool]:
        """The condition that a trace is another one or comes before it."""
        return TRACES.c.id >= place if self.is_descending else TRACES.c.id <= place

    def is_later(self, trace: str, place: str | None) -> bool:
        """Whether a trace comes later than another one."""
        return place is None or (trace < place if self.is_descending else trace > place)

    def apply(self, query: Select[Any]) -> Select[Any]:
        """Return a query of traces in the order of the search."""
        return query.order_by(TRACES.c.id.desc() if self.is_descending else TRACES.c.id.asc())

    @property
    def of_project(self) -> list[ColumnElement[bool]]:
        """The condition that a trace is of the project, none where none is asked for."""
        return [] if self.project_id is None else [TRACES.c.project_id == self.project_id]


def choose_days(connection: Connection, scope: TraceScope) -> Iterator[tuple[int, TraceScope]]:
    """Yield the days that have traces to look at, in the order of the list, and where to look on each.

    A search of a period begins where the first trace comes that began in it. Finding the next day takes two
    looks at an index.
    """
    last = None if scope.start_to is None else _day_of_start(scope.start_to)
    day = _day_before(scope.after, scope)
    begin: str | None = None
    while (day := _find_next_day(connection, day, scope)) is not None:
        of_day = scope
        if last is not None and _is_past(connection, day, last, scope):
            if begin is None or not _may_be_of(begin, day, scope):
                begin = _find_begin(connection, day, scope)
                if begin is None:
                    return
            of_day = replace(scope, after=_place_before(begin, scope))
        if of_day.after is None or scope.is_later(last_of_day(connection, day, scope), of_day.after):
            yield day, of_day
        elif begin is not None:
            day = _day_before(begin, scope, day)


def _find_next_day(connection: Connection, day: int | None, scope: TraceScope) -> int | None:
    """Return the next day that has traces."""
    column = TRACES.c.day
    query = select(func.max(column) if scope.is_descending else func.min(column))
    if day is not None:
        query = query.where(column < day if scope.is_descending else column > day)
    if scope.start_from is not None:
        # Traces whose clock is ahead by more than a day are not found by the time that it shows.
        query = query.where(column >= _day_of_start(scope.start_from) - 1)
    found: int | None = connection.execute(query).scalar()
    return found


def _day_before(trace: str | None, scope: TraceScope, day: int | None = None) -> int | None:
    """Return a day after which the next one may have a trace, and which is not before `day`."""
    if trace is None:
        return day
    shown = day_of_id(trace)  # its day may be counted by another clock
    if scope.is_descending:
        return shown + 2 if day is None else min(day, shown + 2)
    return shown - 2 if day is None else max(day, shown - 2)


def first_of_day(connection: Connection, day: int, scope: TraceScope) -> str:
    """Return the first trace of a day that has some, in the order of the list."""
    return _end_of_day(connection, day, newest=scope.is_descending)


def last_of_day(connection: Connection, day: int, scope: TraceScope) -> str:
    """Return the last trace of a day that has some, in the order of the list."""
    return _end_of_day(connection, day, newest=not scope.is_descending)


def _end_of_day(connection: Connection, day: int, *, newest: bool) -> str:
    order = TRACES.c.id.desc() if newest else TRACES.c.id.asc()
    query = select(TRACES.c.id).where(TRACES.c.day == day).order_by(order).limit(1)
    end: str = connection.execute(query).scalar_one()
    return end


def _is_past(connection: Connection, day: int, last: int, scope: TraceScope) -> bool:
    """Whether many traces of a day came after a period, whose last day is `last`."""
    if day != last or not scope.is_descending:
        return day > last
    assert scope.start_to is not None
    end = id_at(scope.start_to // _NANOSECONDS)
    later = select(TRACES.c.id).where(*scope.of_project, TRACES.c.id >= end, scope.is_behind(scope.after))
    return connection.execute(scope.apply(later).offset(_FEW).limit(1)).first() is not None


def _find_begin(connection: Connection, day: int, scope: TraceScope) -> str | None:
    """Return the first trace, from a day on, that began in the period of a search.

    Few traces come days after they began. The index of starts holds the ids as well, which say when that was:
    it is read from the begin of the period to its end, instead of all traces that came later.
    """
    identifier = func.coalesce(TRACES.c.id, TRACES.c.id)  # an expression, which no other index has in order
    query = select(identifier).where(TRACES.c.start_ns < scope.start_to, *scope.of_project)
    if scope.start_from is not None:
        query = query.where(TRACES.c.start_ns >= scope.start_from)
    if scope.is_descending:
        end = id_of_day(day + 2)
        bound = end if scope.after is None else min(end, scope.after)
        query = query.where(identifier < bound).order_by(identifier.desc())
    else:
        start = id_of_day(day - 1)
        query = query.where(identifier >= start).order_by(identifier.asc())
        if scope.after is not None:
            query = query.where(identifier > scope.after)
    found: str | None = connection.execute(query.limit(1)).scalar()
    return found


def _may_be_of(begin: str, day: int, scope: TraceScope) -> bool:
    """Whether the first trace of a period, found from another day on, is the first one from a day on."""
    return begin < id_of_day(day + 2) if scope.is_descending else begin >= id_of_day(day - 1)


def _place_before(trace: str, scope: TraceScope) -> str:
    """Return the place behind which a trace is the first one."""
    number = int(trace.replace("-", ""), 16) + (1 if scope.is_descending else -1)
    return _format_id(f"{number:032x}")


def _day_of_start(nanoseconds: int) -> int:
    return nanoseconds // _NANOSECONDS // DAY


def day_of_id(identifier: str) -> int:
    """Return the day on which an id was made."""
    return int(identifier.replace("-", "")[:12], 16) * 1000 // DAY


def id_of_day(day: int) -> str:
    """Return the first id of a day."""
    return id_at(day * DAY)


def id_at(moment: int) -> str:
    """Return the first id of a millisecond, that of a time in microseconds."""
    return _format_id(f"{max(0, moment // 1000):012x}".ljust(32, "0"))


def _format_id(digits: str) -> str:
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(parts)
