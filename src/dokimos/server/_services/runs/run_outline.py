"""The outcome and the scores of every item of a run, without their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Executable,
    case,
    false,
    func,
    literal_column,
    null,
    nulls_first,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by, array
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from dokimos.server._db.tables import EVALUATIONS, ITEMS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.runs.item_pages import ItemFilter, filter_items
from dokimos.server._services.runs.item_scores import join_scores
from dokimos.server._services.runs.runs import find_described_run

MOST_SCORES: Final = 2_000_000
"""Of a run with more scores, the last evaluators are left out: some 20 MB of JSON are enough for a page."""
_ORDER: Final = (ITEMS.c.ordinal, ITEMS.c.repetition)
_ITEM_OUTCOME: Final = case(
    (ITEMS.c.error.is_not(None), "e"), (ITEMS.c.judged.is_(false()), "u"), (ITEMS.c.passed, "p"), else_="f"
)


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

    ordinals: Sequence[int] = ()
    repetitions: Sequence[int] = ()
    outcomes: Sequence[str] = ()
    """`p` for passed, `f` for failed, `e` for errored, `u` for not judged."""
    latencies_ms: Sequence[int | None] = ()
    columns: dict[str, ScoreColumn] = field(default_factory=dict)
    excluded: set[str] = field(default_factory=set)
    """Evaluators that are not among the columns, since there would be too many scores."""


def read_outline(connection: Connection, principal: Principal, run_id: str, chosen: ItemFilter) -> RunOutline:
    """Return the outcome and the scores of the items of a run, of all or of those that a filter leaves.

    Rows are read as the driver returns them: a run of 100,000 items has some 500,000 scores, and an object
    for each takes longer than the database does (`benchmarks/server_pages.py`).

    Raises:
        NotFoundError: The caller sees no such run.
    """
    find_described_run(connection, principal, run_id)
    read = _read_arrays if connection.dialect.name == "postgresql" else _read_rows
    return read(connection, run_id, chosen)


def _read_rows(connection: Connection, run_id: str, chosen: ItemFilter) -> RunOutline:
    """Return the outline from a row for each item and each score, in a thread of the readers of SQLite."""
    query = select(ITEMS.c.id, *_ORDER, _ITEM_OUTCOME, ITEMS.c.latency_ms)
    items = _fetch(connection, filter_items(query, run_id, chosen).order_by(*_ORDER))
    if not items:
        return RunOutline()
    ids, ordinals, repetitions, outcomes, latencies = zip(*items, strict=True)
    outline = RunOutline(ordinals, repetitions, outcomes, latencies)
    positions = dict(zip(ids, range(len(ids)), strict=True))
    scores = select(
        EVALUATIONS.c.item_id, EVALUATIONS.c.evaluator, EVALUATIONS.c.score, _outcome_of(EVALUATIONS.c)
    )
    scores = filter_items(scores.join(ITEMS, ITEMS.c.id == EVALUATIONS.c.item_id), run_id, chosen)
    for item_id, evaluator, score, outcome in _fetch(
        connection, scores.order_by(*_ORDER, EVALUATIONS.c.position)
    ):
        column = outline.columns.get(evaluator) or _add_column(outline, evaluator)
        if column is not None:
            position = positions.get(item_id)
            if position is None:  # stored after the items were read
                continue
            column.scores[position] = score
            column.outcomes[position] = outcome
    return outline


def _read_arrays(connection: Connection, run_id: str, chosen: ItemFilter) -> RunOutline:
    """Return the outline from an array for each of its columns.

    PostgreSQL makes them: rows would be read on the event loop, and hold up other requests. It is one
    statement, since the next one could see other items.
    """
    outline = RunOutline()
    for evaluator, positions, outcomes, scores, repetitions, latencies, _ in _fetch(
        connection, _arrays(connection, run_id, chosen)
    ):
        if evaluator is None:  # the first row: the items
            outline = RunOutline(positions or (), repetitions or (), outcomes or "", latencies or ())
            continue
        column = _add_column(outline, evaluator)
        if column is None:
            continue
        if positions == list(range(len(outline.ordinals))):  # one score for each item, as usual
            column.scores, column.outcomes = scores, list(outcomes)
            continue
        for position, score, outcome in zip(positions, scores, outcomes, strict=True):
            column.scores[position] = score
            column.outcomes[position] = outcome
    return outline


def _arrays(connection: Connection, run_id: str, chosen: ItemFilter) -> CompoundSelect[Any]:
    """A row of arrays with the items, and one for each evaluator, in the order in which they appear."""

    def in_order(value: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.array_agg(aggregate_order_by(value, *order))

    position = (func.row_number().over(order_by=_ORDER) - 1).label("position")
    columns = (ITEMS.c.id, *_ORDER, ITEMS.c.latency_ms, _ITEM_OUTCOME.label("outcome"), position)
    items = filter_items(select(*columns), run_id, chosen).cte("items_of_run")
    order: tuple[ColumnElement[Any], ...] = (items.c.position,)
    heads = select(
        null().label("evaluator"),
        in_order(items.c.ordinal),
        func.string_agg(items.c.outcome, aggregate_order_by(literal_column("''"), *order)),
        null(),
        in_order(items.c.repetition),
        in_order(items.c.latency_ms),
        null().label("first"),
    )
    items_with_scores, scored = join_scores(connection, items)
    order = (items.c.position, scored.position)
    scores = select(
        scored.evaluator,
        in_order(items.c.position),
        func.string_agg(_outcome_of(scored), aggregate_order_by(literal_column("''"), *order)),
        in_order(scored.score),
        null(),
        null(),
        func.min(array(order)),
    )
    scores = scores.select_from(items_with_scores).group_by(scored.evaluator)
    return union_all(heads, scores).order_by(nulls_first(literal_column("first")))


def _outcome_of(scores: ReadOnlyColumnCollection[str, Any]) -> ColumnElement[str]:
    return case((scores.judged.is_(false()), "i"), (scores.success, "p"), else_="f")


def _add_column(outline: RunOutline, evaluator: str) -> ScoreColumn | None:
    """Return a column for an evaluator; None if there would be too many scores."""
    size = len(outline.ordinals)
    if (len(outline.columns) + 1) * size > MOST_SCORES and outline.columns:
        outline.excluded.add(evaluator)
        return None
    column = outline.columns[evaluator] = ScoreColumn(evaluator, [None] * size, ["-"] * size)
    return column


def _fetch(connection: Connection, query: Executable) -> Sequence[tuple[Any, ...]]:
    """Return rows as the driver has them."""
    cursor = connection.execute(query).cursor
    assert cursor is not None
    return cursor.fetchall()
