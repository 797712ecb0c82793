"""The outcome and the scores of every item of a run, without their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from dokimos.server._db.tables import EVALUATIONS, ITEMS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.runs.item_pages import ItemFilter, filter_items
from dokimos.server._services.runs.runs import find_described_run

MOST_SCORES: Final = 2_000_000
"""Of a run with more scores, the last evaluators are left out: some 20 MB of JSON are enough for a page."""
_ROWS_AT_ONCE: Final = 5_000


@dataclass(slots=True)
class ScoreColumn:
    """What one evaluator said of the items of a run, in their order."""

    evaluator: str
    scores: list[float | None]
    outcomes: list[str]
    """`p` for passed, `f` for failed, `i` for a score without a verdict, `-` for an item without a score.

    Of an item that the evaluator scored several times, the last score counts.
    """


@dataclass(slots=True)
class RunOutline:
    """The items of a run in the order of their ordinals, as columns."""

    ordinals: list[int] = field(default_factory=list)
    repetitions: list[int] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    """`p` for passed, `f` for failed, `e` for errored, `u` for not judged."""
    latencies_ms: list[int | None] = field(default_factory=list)
    columns: dict[str, ScoreColumn] = field(default_factory=dict)
    excluded: set[str] = field(default_factory=set)
    """Evaluators that are not among the columns, since there would be too many scores."""


def read_outline(connection: Connection, principal: Principal, run_id: str, chosen: ItemFilter) -> RunOutline:
    """Return the outcome and the scores of the items of a run, of all or of those that a filter leaves.

    Raises:
        NotFoundError: The caller sees no such run.
    """
    find_described_run(connection, principal, run_id)
    outline = RunOutline()
    positions: dict[str, int] = {}
    order = (ITEMS.c.ordinal, ITEMS.c.repetition)
    is_errored = ITEMS.c.error.is_not(None).label("is_errored")
    columns = (ITEMS.c.id, *order, ITEMS.c.passed, ITEMS.c.judged, is_errored, ITEMS.c.latency_ms)
    for item in connection.execute(filter_items(select(*columns), run_id, chosen).order_by(*order)):
        positions[item.id] = len(positions)
        outline.ordinals.append(item.ordinal)
        outline.repetitions.append(item.repetition)
        outline.outcomes.append(_outcome_of_item(item))
        outline.latencies_ms.append(item.latency_ms)
    scores = filter_items(
        select(
            EVALUATIONS.c.item_id,
            EVALUATIONS.c.evaluator,
            EVALUATIONS.c.score,
            EVALUATIONS.c.success,
            EVALUATIONS.c.judged,
        ).join(ITEMS, ITEMS.c.id == EVALUATIONS.c.item_id),
        run_id,
        chosen,
    ).order_by(*order, EVALUATIONS.c.position)
    rows = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(scores)
    for part in rows.partitions(_ROWS_AT_ONCE):
        _add_scores(outline, part, positions)
    return outline


def _add_scores(outline: RunOutline, rows: Sequence[Row[Any]], positions: dict[str, int]) -> None:
    size = len(positions)
    for row in rows:
        evaluator = row.evaluator
        position = positions.get(row.item_id)
        column = outline.columns.get(evaluator)
        if position is None:  # stored after the items were read
            continue
        if column is None:
            if (len(outline.columns) + 1) * size > MOST_SCORES and outline.columns:
                outline.excluded.add(evaluator)
                continue
            column = outline.columns[evaluator] = ScoreColumn(evaluator, [None] * size, ["-"] * size)
        column.scores[position] = row.score
        column.outcomes[position] = "i" if row.judged is False else "p" if row.success else "f"


def _outcome_of_item(item: Row[Any]) -> str:
    if item.is_errored:
        return "e"
    if not item.judged:
        return "u"
    return "p" if item.passed else "f"
