"""What a run keeps of its items and their scores: never recounted, changed with the items."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, case, func, literal_column, update

from dokimos.server._db.clock import now
from dokimos.server._db.columns import Id
from dokimos.server._db.driver_statements import DriverStatement
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.tables import RUN_EVALUATORS, RUNS
from dokimos.server._services.runs.new_items import NewEvaluation, NewItem
from dokimos.server._services.runs.runs import RunStatus

LARGEST_SUMMED_SCORE: Final = 1e290
"""As what larger scores count in the sum of an evaluator: it stays finite, and a score can be taken back."""

_ROUNDING: Final = 1e-12
"""A share of a number, larger than what is lost of it when it becomes a decimal of 15 digits."""


@dataclass(slots=True)
class Counts:
    """What a run keeps of its items; the names are those of the columns."""

    item_count: int = 0
    passed_count: int = 0
    judged_count: int = 0
    errored_count: int = 0
    informational_count: int = 0
    tokens_in: int = 0
    tokens_in_count: int = 0
    tokens_out: int = 0
    tokens_out_count: int = 0
    cost_usd: float = 0.0
    cost_count: int = 0
    latency_ms: int = 0
    latency_count: int = 0
    scores: dict[str, ScoreCounts] = field(default_factory=dict)

    def add_new(self, item: NewItem) -> None:
        """Add an item with its scores."""
        self.add(item)
        for evaluation in item.evaluations:
            self.add_score(evaluation)
        if item.unjudged:
            self.informational_count += item.is_informational
            for position in item.unjudged:
                self.scores[item.evaluations[position].evaluator].success_count -= 1

    def add(self, item: NewItem | Row[Any], *, sign: int = 1) -> None:
        """Add an item without its scores, or with `sign=-1` take one away that is replaced."""
        self.item_count += sign
        self.passed_count += sign * item.passed
        self.judged_count += sign * item.judged
        self.errored_count += sign * (item.error is not None)
        if item.tokens_in is not None:
            self.tokens_in += sign * item.tokens_in
            self.tokens_in_count += sign
        if item.tokens_out is not None:
            self.tokens_out += sign * item.tokens_out
            self.tokens_out_count += sign
        if item.cost_usd is not None:
            self.cost_usd += sign * item.cost_usd
            self.cost_count += sign
        if item.latency_ms is not None:
            self.latency_ms += sign * item.latency_ms
            self.latency_count += sign

    def add_score(self, evaluation: NewEvaluation | Row[Any], *, sign: int = 1) -> None:
        """Add a score of an item, or with `sign=-1` take one away."""
        counts = self.scores.get(evaluation.evaluator)
        if counts is None:
            counts = self.scores[evaluation.evaluator] = ScoreCounts()
        counts.score_count += sign
        score, threshold = evaluation.score, evaluation.threshold
        if sign > 0 and threshold is not None:
            # No more than any database calculates, which rounds in its own way.
            distance = min(abs(score - threshold), LARGEST_SUMMED_SCORE)
            distance = max(distance - _ROUNDING * (abs(score) + abs(threshold)), 0.0)
            if counts.nearest is None or distance < counts.nearest:
                counts.nearest = distance
        if not -LARGEST_SUMMED_SCORE <= score <= LARGEST_SUMMED_SCORE:
            score = math.copysign(LARGEST_SUMMED_SCORE, score)
        counts.score_sum += sign * score
        counts.success_count += sign * evaluation.success


@dataclass(slots=True)
class ScoreCounts:
    """What a run keeps of one evaluator's scores; the names are those of the columns."""

    score_count: int = 0
    score_sum: float = 0.0
    success_count: int = 0
    nearest: float | None = None
    """How close the closest score that was added is to its threshold; None where none has one."""


_TOTALS: Final = tuple(each.name for each in fields(Counts) if each.name != "scores")


# The statements of the hot path are built once: building one costs more than SQLite takes to run it.
_COUNT_ITEMS: Final = DriverStatement(
    lambda _: (
        update(RUNS)
        .where(
            RUNS.c.id == bindparam("run"),
            RUNS.c.status == literal_column(f"'{RunStatus.RUNNING}'"),
            RUNS.c.deleted_at.is_(None),
        )
        .values(
            next_ordinal=case(
                (RUNS.c.next_ordinal < bindparam("end"), bindparam("end")), else_=RUNS.c.next_ordinal
            )
            + bindparam("assigned"),
            last_activity_at=bindparam("now"),
            **{name: RUNS.c[name] + bindparam(f"add_{name}") for name in _TOTALS},
        )
        .returning(RUNS.c.tenant_id, RUNS.c.project_id, RUNS.c.next_ordinal)
    )
)
_COUNTED: Final = ("score_count", "score_sum", "success_count")


def _count_scores(dialect: str) -> Any:
    """Add to what is counted of an evaluator, which is new to the run or not."""
    names = ("run_id", "name", "position", *_COUNTED, "nearest")
    statement = INSERTS[dialect](RUN_EVALUATORS).values(
        {name: bindparam(name) for name in names}
        | {"nearest_count": bindparam("score_count"), "nearest_sum": bindparam("score_sum")}
    )
    kept, added = RUN_EVALUATORS.c, statement.excluded
    least = func.min if dialect == "sqlite" else func.least
    return statement.on_conflict_do_update(
        index_elements=["run_id", "name"],
        set_={
            **{name: kept[name] + added[name] for name in _COUNTED},
            "nearest_count": kept.nearest_count + added.score_count,
            "nearest_sum": kept.nearest_sum + added.score_sum,
            "nearest": func.coalesce(least(kept.nearest, added.nearest), kept.nearest, added.nearest),
        },
    )


_COUNT_SCORES: Final = DriverStatement(_count_scores)


def count_items(
    connection: Connection, run: str | bytes | None, counts: Counts, *, end: int = 0, assigned: int = 0
) -> tuple[str | None, str, int] | None:
    """Add to the counts of a run that is going on, and reserve ordinals; its row is locked from then on.

    Args:
        run: The id, as the driver takes it.
        end: Where the ordinals that clients gave end.
        assigned: How many ordinals to reserve behind them.

    Returns:
        The tenant and the project of the run, and its next ordinal; None where there is no such run that is
        going on.
    """
    totals = {f"add_{name}": getattr(counts, name) for name in _TOTALS}
    values = {"run": run, "end": end, "assigned": assigned, "now": now(), **totals}
    row = _COUNT_ITEMS.first(connection, values)
    return None if row is None else (row[0], Id.from_driver(row[1]), row[2])


def count_scores(connection: Connection, run: str | bytes | None, counts: Counts) -> None:
    """Add to the counts of the run's evaluators."""
    rows = [
        {
            "run_id": run,
            "name": name,
            "position": position,
            "score_count": each.score_count,
            "score_sum": each.score_sum,
            "success_count": each.success_count,
            "nearest": each.nearest,
        }
        for position, (name, each) in enumerate(counts.scores.items())
    ]
    if rows:
        _COUNT_SCORES.execute_many(connection, rows)
