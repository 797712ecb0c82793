"""Items that a run has already, found again when they are sent once more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Connection, Row, select, tuple_

from dokimos.server._db.batches import in_batches
from dokimos.server._db.tables import EVALUATIONS, ITEMS
from dokimos.server._services.runs.new_items import NewEvaluation, NewItem

_content_of: Final = attrgetter(
    "input", "expected_output", "actual_output", "metadata", "error", "tokens_in", "tokens_out", "cost_usd",
    "latency_ms", "judged", "passed",
)  # fmt: skip
_score_of: Final = attrgetter(*NewEvaluation._fields)


def holds_items(connection: Connection, run_id: str, items: Sequence[NewItem]) -> bool:
    """Say whether a run has these very items at their places; never where one of them has no ordinal."""
    if any(item.ordinal is None for item in items):
        return False
    by_place = {(item.ordinal, item.repetition): item for item in items}
    return all(_holds(connection, run_id, batch, by_place) for batch in in_batches(list(by_place)))


def _holds(
    connection: Connection,
    run_id: str,
    places: Sequence[tuple[int | None, int]],
    by_place: dict[tuple[int | None, int], NewItem],
) -> bool:
    is_there = tuple_(ITEMS.c.ordinal, ITEMS.c.repetition).in_(places)
    rows = connection.execute(select(ITEMS).where(ITEMS.c.run_id == run_id, is_there)).all()
    if len(rows) < len(places):
        return False
    query = select(EVALUATIONS).where(EVALUATIONS.c.item_id.in_([row.id for row in rows]))
    scores: defaultdict[str, list[Row[Any]]] = defaultdict(list)
    for score in connection.execute(query.order_by(EVALUATIONS.c.item_id, EVALUATIONS.c.position)):
        scores[score.item_id].append(score)
    return all(_is_equal(row, scores[row.id], by_place[row.ordinal, row.repetition]) for row in rows)


def _is_equal(row: Row[Any], scores: Sequence[Row[Any]], item: NewItem) -> bool:
    return (
        not row.ordinal_assigned
        and _content_of(row) == _content_of(item)
        # One that is not of the run's version is stored without its link.
        and row.dataset_item_id in (None, item.dataset_item_id)
        and [_score_of(score) for score in scores] == [tuple(each) for each in item.evaluations]
        and {score.position for score in scores if score.judged is False} == set(item.unjudged)
    )
