"""The review queue: items without a verdict of a person, the oldest first.

Millions of items may wait, and millions may be decided. Runs keep how many of their items are decided, and an
index has the others of each run in order; so a page reads from those runs that begin before it is full.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, cast, func, or_, select, true

from dokimos.server._db.batches import in_batches
from dokimos.server._db.columns import NUMBER
from dokimos.server._db.review_tables import RUN_REVIEW_COUNTS
from dokimos.server._db.tables import EXPERIMENTS, ITEMS, PROJECTS, RUNS
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.projects.projects import find_experiment, find_project
from dokimos.server._services.reviews.review_filter import (
    QueueFilter,
    filter_items,
    is_pending,
    may_have_near,
)
from dokimos.server._services.runs.runs import find_run

_RUNS_AT_ONCE: Final = 50
_SKIPPED_AT_ONCE: Final = 2000
"""Items before a page that are in memory at a time."""
_START: Final = (0, "")
"""A place before all items."""
_LATE: Final = 600 * 1_000_000
"""By how many microseconds an item may be later than its run says: a batch waits for others of the run."""


@dataclass(frozen=True, slots=True, order=True)
class Waiting:
    """An item of the queue."""

    created_at: int
    item_id: str
    run: Row[Any] = field(compare=False)
    """With the names of its experiment and project."""
    sampled: bool = field(default=False, compare=False)
    """Whether chance chose it, whatever it holds."""
    probability: float | None = field(default=None, compare=False)
    """With which probability chance chose each item of the queue; None where it did not."""

    @property
    def place(self) -> tuple[int, str]:
        """Where it is in the order of the queue."""
        return self.created_at, self.item_id


@dataclass(frozen=True, slots=True)
class QueuePart:
    """Consecutive items of a queue."""

    items: list[Waiting]
    skipped: int
    """How many were skipped before them: all that there are where the queue ends before the part begins."""


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where an item is: the place among those of its run that wait."""

    run: Row[Any]
    place: int
    total: int
    """The items of the queue."""


@dataclass(slots=True)
class _Position:
    """How far a queue has been read."""

    place: tuple[int, str] | None
    """Of the last item; None for none."""
    run: Row[Any] | None = None
    """The last run of which nothing is left, nor of those before it; None for none."""
    ends: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The place of the last item of each run in which no more are, so that it is not searched again."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue of a caller, as far as it is asked for.

    Args:
        connection: To read with.
        principal: Whose queue it is.
        chosen: What is asked for.
        conditions: More that an item must meet.
        is_for_editors: Whether only those projects count in which the caller may review.
    """

    connection: Connection
    principal: Principal
    chosen: QueueFilter
    conditions: tuple[ColumnElement[bool], ...] = ()
    is_for_editors: bool = False

    def count(self) -> int:
        """Return how many items wait in the runs asked for, from what the runs keep."""
        scoped = self._select_runs().subquery()
        total = select(func.coalesce(func.sum(scoped.c.pending_count), 0))
        return int(self.connection.execute(total).scalar_one())

    def read(self, limit: int, *, offset: int = 0, after: str | None = None) -> QueuePart:
        """Return the items that have waited longest, in the order of their times and ids.

        Args:
            limit: How many at most.
            offset: How many to skip before them.
            after: The id of the item behind which to go on.

        Raises:
            InvalidRequestError: `after` is not the id of an item that the caller sees.
        """
        position = _Position(None if after is None else self._find_place(after))
        skipped = 0
        if after is None and not self.chosen.is_narrowed and not self.conditions:
            skipped = self._skip_runs(position, offset)
        while skipped < offset:
            needed = min(offset - skipped, _SKIPPED_AT_ONCE)
            count = len(self._read_on(position, needed))
            skipped += count
            if count < needed:
                return QueuePart([], skipped)
        return QueuePart(self._read_on(position, limit), skipped)

    def _skip_runs(self, position: _Position, offset: int) -> int:
        """Move behind items whose place the counts of runs tell; return how many these are."""
        skipped = 0
        for run, next_run in _with_next(self._runs_in_order(position)):
            is_over = next_run is None or next_run.started_at >= run.last_activity_at
            left = offset - skipped
            if not left or not is_over:
                break
            if left < run.pending_count:
                for last in self.read_places(run, [left - 1]):
                    position.place = last.place
                    skipped = offset
                break
            skipped += run.pending_count
            position.run = run
        return skipped

    def _read_on(self, position: _Position, limit: int) -> list[Waiting]:
        """Return the items that come next, and move behind them."""
        found: list[Waiting] = []
        place = position.place
        for run in self._runs_in_order(position):
            last = found[-1].created_at if len(found) >= limit else None
            if last is not None and run.started_at > last:
                break  # no item is older than its run
            end = position.ends.get(run.id)
            if end is not None and end <= (place or _START):
                continue
            moments = [moment for moment in (last, None if end is None else end[0]) if moment is not None]
            own = self.read_run(run, limit, place, min(moments, default=None))
            if not moments and len(own) < limit:
                position.ends[run.id] = own[-1].place if own else _START
            found = list(heapq.merge(found, own))[:limit] if found else own
        if found:
            position.place = found[-1].place
        return found

    def read_run(
        self,
        run: Row[Any],
        limit: int,
        place: tuple[int, str] | None = None,
        last: int | None = None,
    ) -> list[Waiting]:
        """Return items of one run, behind a place and not later than a time."""
        query = (
            select(ITEMS.c.created_at, ITEMS.c.id)
            .where(ITEMS.c.run_id == run.id, *self._conditions_in(run, limit))
            .order_by(ITEMS.c.created_at, ITEMS.c.id)
            .limit(limit)
        )
        if place is not None:
            moment, item_id = place
            is_behind = or_(ITEMS.c.created_at > moment, ITEMS.c.id > item_id)
            query = query.where(ITEMS.c.created_at >= moment, is_behind)
        if last is not None:
            query = query.where(ITEMS.c.created_at <= last)
        return [Waiting(row.created_at, row.id, run) for row in self.connection.execute(query)]

    def read_items(self, run: Row[Any], item_ids: Sequence[str]) -> list[Waiting]:
        """Return those of some items of a run that are in the queue."""
        found: list[Waiting] = []
        for batch in in_batches(item_ids):
            # Without a condition on the run, whose index would be read from its beginning.
            is_there = ITEMS.c.id.in_(batch)
            query = select(ITEMS.c.created_at, ITEMS.c.id).where(is_there, *self._conditions_in(run))
            found += [Waiting(row.created_at, row.id, run) for row in self.connection.execute(query)]
        return found

    def read_places(self, run: Row[Any], places: Collection[int]) -> list[Waiting]:
        """Return the items at places among those of a run that wait, without those that are not asked for.

        What lies before a place is counted, so each half is read from its own end and from one place to the
        next: however many places there are, no item is counted twice.
        """
        last = run.pending_count - 1
        middle = last // 2
        found = self._walk(run, sorted({place for place in places if place <= middle}))
        return found + self._walk(
            run, sorted({last - place for place in places if middle < place <= last}), is_backward=True
        )

    def _walk(self, run: Row[Any], places: Sequence[int], *, is_backward: bool = False) -> list[Waiting]:
        """Read items at places that ascend; backward, they count from the end."""
        is_asked_for = and_(true(), *self._conditions_in(run)).label("is_asked_for")
        found: list[Waiting] = []
        start, behind = 0, None
        for place in places:
            at_place = self._select_place(run, place - start, behind, is_backward=is_backward)
            query = select(ITEMS.c.created_at, ITEMS.c.id, is_asked_for)
            row = self.connection.execute(query.where(ITEMS.c.id == at_place.scalar_subquery())).first()
            if row is None:
                break  # somebody has decided items meanwhile
            start, behind = place + 1, (row.created_at, row.id)
            if row.is_asked_for:
                found.append(Waiting(row.created_at, row.id, run))
        return found

    def _select_place(
        self, run: Row[Any], skipped: int, behind: tuple[int, str] | None, *, is_backward: bool
    ) -> Select[Any]:
        """The query of the id of an item that waits, so many behind another one."""
        moment, item_id = ITEMS.c.created_at, ITEMS.c.id
        order = (moment.desc(), item_id.desc()) if is_backward else (moment, item_id)
        # Only what an index has decides about the place: all items before it are counted.
        query = (
            select(item_id)
            .where(ITEMS.c.run_id == run.id, *is_pending(self.principal, run, by_annotations=False))
            .order_by(*order)
            .limit(1)
            .offset(skipped)
            .correlate(None)
        )
        if behind is None:
            return query
        if is_backward:
            return query.where(moment <= behind[0], or_(moment < behind[0], item_id < behind[1]))
        return query.where(moment >= behind[0], or_(moment > behind[0], item_id > behind[1]))

    def _conditions_in(self, run: Row[Any], limit: int | None = None) -> tuple[ColumnElement[bool], ...]:
        """The conditions that an item of a run is asked for.

        Of a run with many failures, a page is full before long where items are read in the order of the
        queue. The database expects to find few, and would rather read and sort all that failed.
        """
        failed = run.failed_count
        in_order = limit is not None and limit * run.pending_count < failed * failed
        return (
            *is_pending(self.principal, run),
            *filter_items(self.connection, self.principal, self.chosen, in_order=in_order),
            *self.conditions,
        )

    def find_places(self, shares: Sequence[float]) -> list[QueuePlace]:
        """Return the items that have shares of all others before them, as places in their runs.

        There may be thousands of runs, of which the database chooses these. It numbers their ids alone, in
        any order: to sort and carry the rows takes more than twice as long.
        """
        if not shares:
            return []
        scoped = self._select_runs().subquery()
        # A float holds such counts exactly; the sum of whole numbers would be a decimal, which is slow.
        pending = cast(scoped.c.pending_count, NUMBER).label("pending")
        waiting = select(scoped.c.id, pending).cte("waiting")
        upto = func.sum(waiting.c.pending).over(rows=(None, 0)).label("upto")
        numbered = select(waiting.c.id, waiting.c.pending, upto).subquery()
        counted = select(func.sum(waiting.c.pending).label("total")).subquery()
        chosen = [share * counted.c.total for share in shares]
        before = numbered.c.upto - numbered.c.pending
        is_in = or_(*(and_(before <= each, each < numbered.c.upto) for each in chosen))
        query = select(numbered, counted.c.total).join_from(numbered, counted, true()).where(is_in)
        found = self.connection.execute(query).all()
        runs = {run.id: run for run in self.read_runs(ids=[row.id for row in found])} if found else {}
        places: list[QueuePlace] = []
        for row in found:
            first, end = int(row.upto - row.pending), int(row.upto)
            numbers = (int(share * row.total) for share in shares)
            places += [
                QueuePlace(runs[row.id], number - first, int(row.total))
                for number in numbers
                if first <= number < end and row.id in runs
            ]
        return places

    def read_runs(self, *, ids: Sequence[str]) -> Sequence[Row[Any]]:
        """Return some of the runs in which items wait."""
        return self.connection.execute(self._select_runs().where(RUNS.c.id.in_(ids))).all()

    def read_latest_runs(self, limit: int) -> Sequence[Row[Any]]:
        """Return the runs in which items wait, those first that began last."""
        order = (RUNS.c.started_at.desc(), RUNS.c.id.desc())
        return self.connection.execute(self._select_runs().order_by(*order).limit(limit)).all()

    def _runs_in_order(self, position: _Position) -> Iterator[Row[Any]]:
        query = self._select_runs().order_by(RUNS.c.started_at, RUNS.c.id).limit(_RUNS_AT_ONCE)
        if position.place is not None:
            query = query.where(RUNS.c.last_activity_at >= position.place[0] - _LATE)
        last = position.run
        while True:
            behind = query
            if last is not None:
                is_later = or_(RUNS.c.started_at > last.started_at, RUNS.c.id > last.id)
                behind = query.where(RUNS.c.started_at >= last.started_at, is_later)
            runs = self.connection.execute(behind).all()
            yield from runs
            if len(runs) < _RUNS_AT_ONCE:
                return
            last = runs[-1]

    def _select_runs(self) -> Select[Any]:
        pending: ColumnElement[int] = RUNS.c.item_count - RUNS.c.reviewed_count
        failed = RUNS.c.item_count - RUNS.c.passed_count - RUNS.c.reviewed_failed_count
        reopened: ColumnElement[int] = func.coalesce(RUN_REVIEW_COUNTS.c.reopened_count, 0)
        own = self.principal.tenant if self.principal.is_restricted else None
        if own is not None:
            pending = pending - func.coalesce(RUN_REVIEW_COUNTS.c.decided_count, 0) + reopened
        columns = RUNS.c
        query = (
            select(
                columns.id, columns.tenant_id, columns.project_id, columns.experiment_id, columns.started_at,
                columns.last_activity_at, pending.label("pending_count"), failed.label("failed_count"),
                reopened.label("reopened_count"),
                EXPERIMENTS.c.name.label("experiment_name"), PROJECTS.c.name.label("project_name"),
            )
            .join(EXPERIMENTS, EXPERIMENTS.c.id == columns.experiment_id)
            .join(PROJECTS, PROJECTS.c.id == columns.project_id)
            .outerjoin(
                RUN_REVIEW_COUNTS,
                and_(RUN_REVIEW_COUNTS.c.run_id == columns.id, RUN_REVIEW_COUNTS.c.tenant_id == (own or "")),
            )
            .where(
                self.principal.sees(RUNS),
                EXPERIMENTS.c.deleted_at.is_(None),
                PROJECTS.c.deleted_at.is_(None),
                pending > 0,
            )
        )  # fmt: skip
        if own is None and (self.chosen.outcome is not None or self.chosen.disagree):
            query = query.where(failed > 0)
        if self.chosen.outcome == "errored":
            query = query.where(columns.errored_count > 0)
        if self.chosen.near is not None:
            query = query.where(may_have_near(self.connection, self.chosen.near))
        if self.is_for_editors and self.principal.role < Role.EDITOR:
            roles = self.principal.project_roles.items()
            query = query.where(columns.project_id.in_([key for key, role in roles if role >= Role.EDITOR]))
        return query.where(*self.scope())

    def scope(self) -> Iterator[ColumnElement[bool]]:
        """Yield the conditions that a run is asked for."""
        connection, principal, chosen = self.connection, self.principal, self.chosen
        if chosen.project is not None:
            yield RUNS.c.project_id == find_project(connection, principal, chosen.project).id
        if chosen.experiment_id is not None:
            yield RUNS.c.experiment_id == find_experiment(connection, principal, chosen.experiment_id).id
        if chosen.run_id is not None:
            yield RUNS.c.id == find_run(connection, principal, chosen.run_id).id

    def _find_place(self, item_id: str) -> tuple[int, str]:
        query = (
            select(ITEMS.c.created_at)
            .join(RUNS, RUNS.c.id == ITEMS.c.run_id)
            .where(ITEMS.c.id == item_id, self.principal.sees(RUNS))
        )
        moment = self.connection.execute(query).scalar()
        if moment is None:
            raise InvalidRequestError("is not the id of an item", field="after")
        return moment, item_id


def _with_next(runs: Iterator[Row[Any]]) -> Iterator[tuple[Row[Any], Row[Any] | None]]:
    """Each run with the one that begins after it."""
    current = next(runs, None)
    while current is not None:
        following = next(runs, None)
        yield current, following
        current = following
