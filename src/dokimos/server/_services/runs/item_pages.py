"""Read the items of a run, page by page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, false, func, or_, select, true

from dokimos.server._db.tables import EVALUATIONS, ITEMS
from dokimos.server._services.datasets.dataset_items import measure_texts
from dokimos.server._services.list_pages import ListPage, SortKeys, find_place
from dokimos.server._services.projects.projects import contains


@dataclass(frozen=True, slots=True)
class ScoreRange:
    """Scores of an evaluator from one bound to another, both included; None for no bound."""

    evaluator: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFilter:
    """Which items of a run a page shows."""

    search: str | None = None
    outcome: str | None = None
    """`passed`, `failed`, `errored` or `unjudged`."""
    failed_evaluator: str | None = None
    """Items with which this evaluator is not content."""
    ordinals: Sequence[int] = ()
    """Items with these ordinals, in all their repetitions; without any, all."""
    ids: Sequence[str] = ()
    """Likewise, the items with these ids."""
    scores: ScoreRange | None = None


ITEM_ORDERS: Final = SortKeys(
    {
        "ordinal": ITEMS.c.ordinal,
        "latencyMs": func.coalesce(ITEMS.c.latency_ms, -1),
        "costUsd": func.coalesce(ITEMS.c.cost_usd, -1.0),
        "tokensIn": func.coalesce(ITEMS.c.tokens_in, -1),
        "tokensOut": func.coalesce(ITEMS.c.tokens_out, -1),
    },
    ties=(ITEMS.c.ordinal, ITEMS.c.repetition),
    default="ordinal",
)
"""By `ordinal`, an index has the items in order; for the others, those of the run are sorted."""


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Some items of a run with their scores, in the order of their ordinals."""

    items: Sequence[Row[Any]]
    evaluations: dict[str, list[Row[Any]]]
    """The scores of each item, by its id, in the order in which they were sent."""


def read_item_page(
    connection: Connection, run_id: str, chosen: ItemFilter, page: ListPage, *, offset: int, limit: int
) -> ItemPage:
    """Return items of a run.

    Raises:
        InvalidRequestError: The run has no item that the page could go on behind.
    """
    query = _query_page(connection, select(ITEMS), run_id, chosen, page)
    items = connection.execute(query.offset(offset).limit(limit)).all()
    return ItemPage(items, evaluations_of(connection, [item.id for item in items]))


def measure_item_page(
    connection: Connection, run_id: str, chosen: ItemFilter, page: ListPage, limit: int
) -> list[int]:
    """Return how long the texts of each item of a page are, without reading them."""
    texts = ("input", "expected_output", "actual_output", "metadata", "error")
    size = measure_texts(connection, *(ITEMS.c[name] for name in texts))
    query = _query_page(connection, select(size), run_id, chosen, page)
    return list(connection.execute(query.limit(limit)).scalars())


def _query_page(
    connection: Connection, query: Select[Any], run_id: str, chosen: ItemFilter, page: ListPage
) -> Select[Any]:
    query = page.order.apply(filter_items(query, run_id, chosen))
    if page.after is None:
        return query
    items_of_run = select(ITEMS).where(ITEMS.c.run_id == run_id)
    return query.where(page.order.is_behind(find_place(connection, items_of_run, page, ITEMS.c.id)))


def count_items(connection: Connection, run: Row[Any], chosen: ItemFilter) -> int:
    """Return how many items of a run a filter leaves: as the run keeps it, or else counted."""
    if not (chosen.search or chosen.failed_evaluator or chosen.ordinals or chosen.ids or chosen.scores):
        count = _look_up_count(run, chosen.outcome)
        if count is not None:
            return count
    return _count_items(connection, run.id, chosen)


def _look_up_count(run: Row[Any], outcome: str | None) -> int | None:
    """The count that the run keeps; None where an item with an error may be judged or not."""
    counts: dict[str | None, int] = {
        None: run.item_count,
        "passed": run.passed_count,
        "errored": run.errored_count,
    }
    if run.errored_count == 0:
        counts["failed"] = run.judged_count - run.passed_count
        counts["unjudged"] = run.item_count - run.judged_count
    return counts.get(outcome)


def _count_items(connection: Connection, run_id: str, chosen: ItemFilter) -> int:
    query = filter_items(select(func.count()).select_from(ITEMS), run_id, chosen)
    count: int = connection.execute(query).scalar_one()
    return count


def evaluations_of(connection: Connection, item_ids: Sequence[str]) -> dict[str, list[Row[Any]]]:
    """Return the scores of items."""
    evaluations: dict[str, list[Row[Any]]] = defaultdict(list)
    query = select(EVALUATIONS).where(EVALUATIONS.c.item_id.in_(item_ids))
    for row in connection.execute(query.order_by(EVALUATIONS.c.item_id, EVALUATIONS.c.position)):
        evaluations[row.item_id].append(row)
    return evaluations


def filter_items(query: Select[Any], run_id: str, chosen: ItemFilter) -> Select[Any]:
    """Restrict a query over items to those of a run that a filter leaves."""
    query = query.where(ITEMS.c.run_id == run_id)
    if chosen.ordinals:
        query = query.where(ITEMS.c.ordinal.in_(chosen.ordinals))
    if chosen.ids:
        query = query.where(ITEMS.c.id.in_(chosen.ids))
    if chosen.search:
        columns = (ITEMS.c.input, ITEMS.c.expected_output, ITEMS.c.actual_output, ITEMS.c.error)
        query = query.where(or_(*(contains(column, chosen.search) for column in columns)))
    if chosen.outcome is not None:
        query = query.where(_OUTCOMES[chosen.outcome])
    if chosen.failed_evaluator is not None:
        failed = _has_score(chosen.failed_evaluator, EVALUATIONS.c.success.is_(false()))
        # An item passed only where every evaluator is content, which leaves few to look at.
        query = query.where(ITEMS.c.passed.is_(false()), failed)
    if chosen.scores is not None:
        query = query.where(_has_score(chosen.scores.evaluator, *_bounds(chosen.scores)))
    return query


def _has_score(evaluator: str, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """The condition that an evaluator gave an item such a score.

    Looked up for each item. PostgreSQL would turn `EXISTS` into a join, and read the scores of all runs
    for it.
    """
    found = (
        select(EVALUATIONS.c.position)
        .where(EVALUATIONS.c.item_id == ITEMS.c.id, EVALUATIONS.c.evaluator == evaluator, *conditions)
        .limit(1)
        .correlate(ITEMS)
        .scalar_subquery()
    )
    return found.is_not(None)


def _bounds(scores: ScoreRange) -> list[ColumnElement[bool]]:
    low = [] if scores.low is None else [EVALUATIONS.c.score >= scores.low]
    return low if scores.high is None else [*low, EVALUATIONS.c.score <= scores.high]


_OUTCOMES: dict[str, ColumnElement[bool]] = {
    "passed": ITEMS.c.passed.is_(true()),
    "failed": and_(ITEMS.c.passed.is_(false()), ITEMS.c.judged.is_(true()), ITEMS.c.error.is_(None)),
    "errored": ITEMS.c.error.is_not(None),
    "unjudged": and_(ITEMS.c.judged.is_(false()), ITEMS.c.error.is_(None)),
}
