"""The scores of an evaluator that was changed take the place of its earlier ones: all at once, or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, tuple_, update

from dokimos.server._db.driver_statements import driver_id
from dokimos.server._db.judge_tables import JUDGE_SCORES
from dokimos.server._db.tables import EVALUATIONS, ITEMS, RUNS
from dokimos.server._services.judging.judge_claims import lock_job
from dokimos.server._services.judging.judge_evaluators import EvaluatorFacts
from dokimos.server._services.judging.judge_names import keep_evaluator
from dokimos.server._services.judging.judge_results import count_reviewed_failures, describe_evaluator
from dokimos.server._services.runs.item_counts import Counts, count_scores
from dokimos.server._services.runs.new_items import NewEvaluation

_AT_ONCE: Final = 500
_STAGED: Final = ("score", "threshold", "success", "reason", "label", "metadata", "judged")


def replace_scores(connection: Connection, job_id: str, lease: str, facts: EvaluatorFacts) -> None:
    """Put the scores that a job has kept in the place of all earlier ones under its name.

    Items that it could not score have none afterwards: scores of two evaluators would not mean the same.

    Raises:
        LeaseLost: The job is not this server's any more.
    """
    job = lock_job(connection, job_id, lease)
    counts, reviewed_failures = Counts(), 0
    last: tuple[int, int] | None = None
    while True:
        query = (
            select(ITEMS.c.id, ITEMS.c.ordinal, ITEMS.c.repetition, ITEMS.c.judged, ITEMS.c.passed)
            .add_columns(ITEMS.c.reviewed, ITEMS.c.error.is_not(None).label("has_error"))
            .where(ITEMS.c.run_id == job.run_id)
            .order_by(ITEMS.c.ordinal, ITEMS.c.repetition)
            .limit(_AT_ONCE)
        )
        if last is not None:
            query = query.where(tuple_(ITEMS.c.ordinal, ITEMS.c.repetition) > tuple_(*last))
        items = connection.execute(query).all()
        if not items:
            break
        reviewed_failures += _replace_in(connection, job, items, counts)
        last = (items[-1].ordinal, items[-1].repetition)
    names = ("judged_count", "passed_count", "informational_count")
    values = {name: RUNS.c[name] + getattr(counts, name) for name in names}
    values["reviewed_failed_count"] = RUNS.c.reviewed_failed_count + reviewed_failures
    connection.execute(update(RUNS).where(RUNS.c.id == job.run_id).values(values))
    count_scores(connection, driver_id(job.run_id, connection), counts)
    describe_evaluator(connection, job.run_id, job.evaluator_name, facts)
    keep_evaluator(connection, job)


def _replace_in(connection: Connection, job: Row[Any], items: Sequence[Row[Any]], counts: Counts) -> int:
    """Replace the scores of some items; return how many more reviewed ones do not pass."""
    ids = [item.id for item in items]
    present: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(select(EVALUATIONS).where(EVALUATIONS.c.item_id.in_(ids))):
        present[row.item_id].append(row)
    kept = select(JUDGE_SCORES).where(JUDGE_SCORES.c.job_id == job.id, JUDGE_SCORES.c.item_id.in_(ids))
    staged = {row.item_id: row for row in connection.execute(kept)}
    rows: list[dict[str, Any]] = []
    flags: list[dict[str, Any]] = []
    for item in items:
        earlier, score = present[item.id], staged.get(item.id)
        after: list[Any] = []
        for row in earlier:
            if row.evaluator == job.evaluator_name:
                _count(counts, job.evaluator_name, row, sign=-1)
            else:
                after.append(row)
        if score is not None:
            _count(counts, job.evaluator_name, score, sign=1)
            rows.append(_make_evaluation(job.evaluator_name, score, earlier))
            after.append(score)
        flags += _judge_again(item, earlier, after, counts)
    connection.execute(
        delete(EVALUATIONS).where(
            EVALUATIONS.c.item_id.in_(ids), EVALUATIONS.c.evaluator == job.evaluator_name
        )
    )
    if rows:
        connection.execute(insert(EVALUATIONS), rows)
    if flags:
        connection.execute(_SET_FLAGS, flags)
    return count_reviewed_failures({item.id: item for item in items}, flags)


def _make_evaluation(name: str, score: Row[Any], earlier: Sequence[Row[Any]]) -> dict[str, Any]:
    """The row of a new score: in the place of the one before, or after the item's other scores."""
    places = [row.position for row in earlier if row.evaluator == name]
    position = places[0] if places else max((row.position for row in earlier), default=-1) + 1
    values = {column: getattr(score, column) for column in _STAGED}
    return {"item_id": score.item_id, "position": position, "evaluator": name, **values}


_SET_FLAGS: Final = (
    update(ITEMS)
    .where(ITEMS.c.id == bindparam("item", type_=ITEMS.c.id.type))
    .values(judged=bindparam("is_judged"), passed=bindparam("is_passed"))
)


def _count(counts: Counts, name: str, row: Row[Any], *, sign: int) -> None:
    is_success = bool(row.success) and row.judged is not False
    counts.add_score(NewEvaluation(name, row.score, row.threshold, is_success), sign=sign)


def _judge_again(
    item: Row[Any], before: Sequence[Any], after: Sequence[Any], counts: Counts
) -> list[dict[str, Any]]:
    """Count what an item is with other scores; return its new flags where they differ."""
    verdicts = [row.success for row in after if row.judged is not False]
    judged = bool(verdicts)
    passed = judged and not item.has_error and all(verdicts)
    counts.judged_count += judged - item.judged
    counts.passed_count += passed - item.passed
    for scores, is_judged, sign in ((before, item.judged, -1), (after, judged, 1)):
        is_informational = bool(scores) and not is_judged and not item.has_error
        counts.informational_count += sign * (is_informational and any(r.judged is False for r in scores))
    if (judged, passed) == (item.judged, item.passed):
        return []
    return [{"item": item.id, "is_judged": judged, "is_passed": passed}]
