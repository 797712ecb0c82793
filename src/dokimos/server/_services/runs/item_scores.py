"""Conditions and joins that look up the scores of each item, however many the store holds.

PostgreSQL plans by guessing how many rows match, and guesses too many scores for an item. Of a run of 100,000
items in a store of 15 million scores, it would rather read the scores of all runs, which takes seconds.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, func, select, true
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from dokimos.server._db.tables import EVALUATIONS, ITEMS


def any_of_item(item_id: ColumnElement[str], *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """The condition that an item has a row in a table that refers to items.

    A value rather than EXISTS, which PostgreSQL may turn into a join or into a read of the whole table.
    """
    found = select(item_id).where(item_id == ITEMS.c.id, *conditions).limit(1).correlate(ITEMS)
    return found.scalar_subquery().is_not(None)


def join_scores(
    connection: Connection, items: FromClause = ITEMS
) -> tuple[FromClause, ReadOnlyColumnCollection[str, Any]]:
    """Return items joined with their scores, to select from, and the columns of the scores."""
    is_of_item = EVALUATIONS.c.item_id == items.c.id
    if connection.dialect.name != "postgresql":  # SQLite looks up in any case
        return items.join(EVALUATIONS, is_of_item), EVALUATIONS.c
    # `OFFSET 0` keeps the planner from taking the subquery apart.
    scores = select(EVALUATIONS).where(is_of_item).offset(0).lateral("scores")
    return items.join(scores, true()), scores.c


def list_evaluators(connection: Connection, run_id: str) -> dict[str, bool]:
    """Return the evaluators that scored items of a run, by name, each with whether it gave labels."""
    items = select(ITEMS.c.id).where(ITEMS.c.run_id == run_id).subquery("items_of_run")
    items_with_scores, scored = join_scores(connection, items)
    label_count = func.count(scored.label)
    query = select(scored.evaluator, label_count).select_from(items_with_scores).group_by(scored.evaluator)
    return {name: count > 0 for name, count in sorted(tuple(row) for row in connection.execute(query))}
