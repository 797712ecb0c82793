"""The items that a judge job has still to score, as cases of the library."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, func, select, tuple_

from dokimos.server._db.judge_tables import JUDGE_ERRORS, JUDGE_SCORES
from dokimos.server._db.tables import EVALUATIONS, ITEMS
from dokimos.server._services.runs.item_scores import any_of_item

if TYPE_CHECKING:
    from dokimos._core.test_case import EvalTestCase

_OWN_KEY: Final = "dokimos"
"""The member of an item's metadata in which our client says what the wire has no field for."""


@dataclass(frozen=True, slots=True)
class ItemPlace:
    """An item that is to be scored, and how much there is of it."""

    id: str
    place: tuple[int, int]
    size: int
    """Characters of its texts."""


def find_items(
    connection: Connection, job: Row[Any], after: tuple[int, int] | None, most: int
) -> list[ItemPlace]:
    """Return the next items that a job has neither scored nor failed to score.

    Args:
        after: The ordinal and the repetition behind which to look, None for the first ones.
    """
    texts = (ITEMS.c.input, ITEMS.c.expected_output, ITEMS.c.actual_output, ITEMS.c.metadata)
    size = sum((func.coalesce(func.length(text), 0) for text in texts[1:]), func.length(texts[0]))
    query: Select[Any] = (
        select(ITEMS.c.id, ITEMS.c.ordinal, ITEMS.c.repetition, size.label("size"))
        .where(ITEMS.c.run_id == job.run_id, ~_is_done(job))
        .order_by(ITEMS.c.ordinal, ITEMS.c.repetition)
        .limit(most)
    )
    if after is not None:
        query = query.where(tuple_(ITEMS.c.ordinal, ITEMS.c.repetition) > tuple_(*after))
    return [ItemPlace(row.id, (row.ordinal, row.repetition), row.size) for row in connection.execute(query)]


def count_open_items(connection: Connection, job: Row[Any]) -> int:
    """Return how many items a job has neither scored nor failed to score."""
    query = select(func.count()).select_from(ITEMS).where(ITEMS.c.run_id == job.run_id, ~_is_done(job))
    count: int = connection.execute(query).scalar_one()
    return count


def read_items(connection: Connection, item_ids: Sequence[str]) -> Sequence[Row[Any]]:
    """Return items, those that are still there."""
    return connection.execute(select(ITEMS).where(ITEMS.c.id.in_(item_ids))).all()


def _is_done(job: Row[Any]) -> ColumnElement[bool]:
    failed = any_of_item(JUDGE_ERRORS.c.item_id, JUDGE_ERRORS.c.job_id == job.id)
    if job.replaces:
        return failed | any_of_item(JUDGE_SCORES.c.item_id, JUDGE_SCORES.c.job_id == job.id)
    return failed | any_of_item(EVALUATIONS.c.item_id, EVALUATIONS.c.evaluator == job.evaluator_name)


def find_task_error(item: Row[Any]) -> str | None:
    """Return why the application gave no output for an item, None where it gave one.

    Our client sends errors of evaluators as the error of their item too, and names them in its metadata.
    """
    if item.error is None:
        return None
    about = json.loads(item.metadata or "{}").get(_OWN_KEY)
    if isinstance(about, dict) and about.get("errors"):
        return None
    error = json.loads(item.error)
    if isinstance(error, dict):
        error = error.get("message", error)
    return error if isinstance(error, str) else json.dumps(error)


def build_case(item: Row[Any]) -> EvalTestCase:
    """Return an item as what evaluators of the library score."""
    from dokimos._core.metrics import CallMetrics
    from dokimos._core.test_case import EvalTestCase

    metrics = None
    if not (item.tokens_in is None and item.tokens_out is None and item.latency_ms is None) or (
        item.cost_usd is not None
    ):
        metrics = CallMetrics(
            item.tokens_in, item.tokens_out, latency_ms=item.latency_ms, cost_usd=item.cost_usd
        )
    return EvalTestCase(
        _read_map(item.input),
        _read_map(item.actual_output),
        expected_outputs=_read_map(item.expected_output),
        metadata=_read_map(item.metadata),
        id=item.id,
        metrics=metrics,
    )


def _read_map(text: str | None) -> Mapping[str, Any]:
    value = None if text is None else json.loads(text)
    return value if isinstance(value, dict) else {}
