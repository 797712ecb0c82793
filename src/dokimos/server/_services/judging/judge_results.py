"""What a judge job found, stored: scores of items with what is counted of them, and errors apart from scores.

A transaction locks the run and then the job, checks the lease, and stores what is not there yet. Whoever
repeats it stores nothing twice.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, Row, Select, Table, bindparam, func, insert, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.driver_statements import driver_id
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.judge_tables import JUDGE_ERRORS, JUDGE_JOBS, JUDGE_SCORES
from dokimos.server._db.tables import EVALUATIONS, ITEMS, RUN_EVALUATORS, RUNS
from dokimos.server._services.events import announce_items
from dokimos.server._services.judging.judge_claims import lock_job
from dokimos.server._services.judging.judge_evaluators import EvaluatorFacts
from dokimos.server._services.judging.judge_jobs import announce_job
from dokimos.server._services.judging.judge_names import keep_evaluator
from dokimos.server._services.runs.item_counts import Counts, count_scores
from dokimos.server._services.runs.new_items import NewEvaluation

SKIPPED: Final = "skipped"
"""The kind of what is not the fault of an evaluator: the application gave no output to score."""
MAX_MESSAGE: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemScore:
    """A score of an item. Texts that are JSON are JSON already."""

    item_id: str
    score: float
    threshold: float | None
    success: bool | None
    """None for a score without a verdict."""
    reason: str | None = None
    label: str | None = None
    metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemError:
    """Why an item has no score."""

    item_id: str
    kind: str
    message: str


ItemOutcome = ItemScore | ItemError


def store_outcomes(
    connection: Connection, job_id: str, lease: str, outcomes: Sequence[ItemOutcome]
) -> Row[Any]:
    """Store what a job found on some items; return the job.

    Raises:
        LeaseLost: The job is not this server's any more.
    """
    job = lock_job(connection, job_id, lease)
    ids = [outcome.item_id for outcome in outcomes]
    # Some may have been replaced or removed meanwhile.
    items = {row.id: row for row in connection.execute(_ITEM_FACTS, {"ids": ids})}
    scores = [each for each in outcomes if isinstance(each, ItemScore) and each.item_id in items]
    errors = [each for each in outcomes if isinstance(each, ItemError) and each.item_id in items]
    if job.replaces:
        stored = _keep_scores(connection, job, scores)
    else:
        stored = add_scores(connection, job.run_id, job.evaluator_name, scores, items)
        if stored:
            keep_evaluator(connection, job)
    failed = _insert_new(connection, job, errors)
    skipped = sum(each.kind == SKIPPED for each in failed)
    values = {
        "of_job": job_id,
        "more_scores": stored,
        "more_errors": len(failed) - skipped,
        "more_skipped": skipped,
    }
    job = connection.execute(_COUNT_OUTCOMES, values).one()
    announce_job(connection, job, is_progress=True)
    announce_items(connection, job.run_id)
    return job


def add_scores(
    connection: Connection,
    run_id: str,
    evaluator: str,
    scores: Sequence[ItemScore],
    items: Mapping[str, Row[Any]],
) -> int:
    """Add scores of an evaluator to items that have none of it, and count them; return how many.

    Args:
        connection: Of a transaction that has locked the run.
        items: What `_ITEM_FACTS` tells of the items.
    """
    present = _read_present(connection, [each.item_id for each in scores])
    rows: list[dict[str, Any]] = []
    flags: list[dict[str, Any]] = []
    counts = Counts()
    for each in scores:
        earlier = present[each.item_id]
        if any(row.evaluator == evaluator for row in earlier):
            continue
        item = items[each.item_id]
        position = max((row.position for row in earlier), default=-1) + 1
        rows.append({"item_id": each.item_id, "position": position, **_score_row(evaluator, each)})
        _count(counts, evaluator, each)
        after = _judge_again(item, each)
        counts.informational_count += _is_informational(after, item, [*earlier, each])
        counts.informational_count -= _is_informational((item.judged, item.passed), item, earlier)
        if after != (item.judged, item.passed):
            judged, passed = after
            counts.judged_count += judged - item.judged
            counts.passed_count += passed - item.passed
            flags.append({"item": each.item_id, "is_judged": judged, "is_passed": passed})
    if rows:
        connection.execute(_INSERT_SCORES, rows)
    if flags:
        connection.execute(_SET_FLAGS, flags)
    _count_run(connection, run_id, counts, count_reviewed_failures(items, flags))
    return len(rows)


def count_reviewed_failures(items: Mapping[str, Row[Any]], flags: Sequence[Mapping[str, Any]]) -> int:
    """How many more reviewed items do not pass, once items have new flags; negative for fewer."""
    changes = ((items[each["item"]], each["is_passed"]) for each in flags)
    return sum(item.passed - is_passed for item, is_passed in changes if item.reviewed)


def describe_evaluator(connection: Connection, run_id: str, name: str, facts: EvaluatorFacts) -> None:
    """Keep what is known of the evaluator of a job beside the counts of its scores."""
    values = asdict(facts)
    position = select(func.count()).where(RUN_EVALUATORS.c.run_id == run_id)
    row = {"run_id": run_id, "name": name, "position": connection.execute(position).scalar_one(), **values}
    statement = INSERTS[connection.dialect.name](RUN_EVALUATORS).values(row)
    connection.execute(statement.on_conflict_do_update(index_elements=["run_id", "name"], set_=values))


# Statements that each page of results runs are built once: building one takes longer than it runs.
_IDS: Final[BindParameter[Any]] = bindparam("ids", expanding=True)
_ITEM_FACTS: Final = select(
    ITEMS.c.id,
    ITEMS.c.judged,
    ITEMS.c.passed,
    ITEMS.c.reviewed,
    ITEMS.c.error.is_not(None).label("has_error"),
).where(ITEMS.c.id.in_(_IDS))
_PRESENT: Final[Select[Any]] = select(
    EVALUATIONS.c.item_id, EVALUATIONS.c.position, EVALUATIONS.c.evaluator, EVALUATIONS.c.judged
).where(EVALUATIONS.c.item_id.in_(_IDS))
_INSERT_SCORES: Final = insert(EVALUATIONS)
_COUNT_OUTCOMES: Final = (
    update(JUDGE_JOBS)
    .where(JUDGE_JOBS.c.id == bindparam("of_job"))
    .values(
        scored_count=JUDGE_JOBS.c.scored_count + bindparam("more_scores"),
        error_count=JUDGE_JOBS.c.error_count + bindparam("more_errors"),
        skipped_count=JUDGE_JOBS.c.skipped_count + bindparam("more_skipped"),
        lost_count=0,
    )
    .returning(JUDGE_JOBS)
)
_COUNTED: Final = ("judged_count", "passed_count", "informational_count", "reviewed_failed_count")
_COUNT_RUN: Final = (
    update(RUNS)
    .where(RUNS.c.id == bindparam("of_run"))
    .values(
        {name: RUNS.c[name] + bindparam(f"more_{name}") for name in _COUNTED}
        | {"last_activity_at": bindparam("moment")}
    )
)
_SET_FLAGS: Final = (
    update(ITEMS)
    .where(ITEMS.c.id == bindparam("item", type_=ITEMS.c.id.type))
    .values(judged=bindparam("is_judged"), passed=bindparam("is_passed"))
)


def _read_present(connection: Connection, item_ids: Sequence[str]) -> dict[str, list[Row[Any]]]:
    present: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(_PRESENT, {"ids": item_ids}):
        present[row.item_id].append(row)
    return present


def _score_row(evaluator: str, score: ItemScore) -> dict[str, Any]:
    return {
        "evaluator": evaluator,
        "score": score.score,
        "threshold": score.threshold,
        "success": score.success is not False,
        "reason": score.reason,
        "label": score.label,
        "metadata": score.metadata,
        "judged": False if score.success is None else None,
    }


def _judge_again(item: Row[Any], score: ItemScore) -> tuple[bool, bool]:
    """Whether an item is judged, and whether it passed, with one more score."""
    if score.success is None:
        return item.judged, item.passed
    passed = item.passed if item.judged else not item.has_error
    return True, passed and score.success


def _is_informational(flags: tuple[bool, bool], item: Row[Any], scores: Sequence[Any]) -> bool:
    """Whether an item has scores, and none of them with a verdict."""
    if flags[0] or item.has_error:
        return False
    return any(
        each.success is None if isinstance(each, ItemScore) else each.judged is False for each in scores
    )


def _count(counts: Counts, evaluator: str, score: ItemScore) -> None:
    counts.add_score(NewEvaluation(evaluator, score.score, score.threshold, score.success is True))


def _count_run(connection: Connection, run_id: str, counts: Counts, reviewed_failures: int) -> None:
    values = {f"more_{name}": getattr(counts, name) for name in _COUNTED[:-1]}
    values["more_reviewed_failed_count"] = reviewed_failures
    connection.execute(_COUNT_RUN, {"of_run": run_id, "moment": now(), **values})
    count_scores(connection, driver_id(run_id, connection), counts)


def _keep_scores(connection: Connection, job: Row[Any], scores: Sequence[ItemScore]) -> int:
    """Keep scores until all of them are there; they replace earlier ones then."""
    known = _find_known(connection, JUDGE_SCORES, job, scores)
    rows = []
    for each in scores:
        if each.item_id not in known:
            row = {"job_id": job.id, "item_id": each.item_id, **_score_row("", each)}
            del row["evaluator"]
            rows.append(row)
    if rows:
        connection.execute(insert(JUDGE_SCORES), rows)
    return len(rows)


def _insert_new(connection: Connection, job: Row[Any], errors: Sequence[ItemError]) -> list[ItemError]:
    moment = now()
    known = _find_known(connection, JUDGE_ERRORS, job, errors)
    new = [each for each in errors if each.item_id not in known]
    rows = [
        {
            "job_id": job.id,
            "item_id": each.item_id,
            "kind": each.kind,
            "message": json.dumps(each.message[:MAX_MESSAGE]),
            "created_at": moment,
        }
        for each in new
    ]
    if rows:
        connection.execute(insert(JUDGE_ERRORS), rows)
    return new


def _find_known(
    connection: Connection, table: Table, job: Row[Any], outcomes: Sequence[ItemOutcome]
) -> set[str]:
    """Return the items of which a job has stored an outcome before; nobody else stores one meanwhile."""
    if not outcomes:
        return set()
    ids = [each.item_id for each in outcomes]
    query = select(table.c.item_id).where(table.c.job_id == job.id, table.c.item_id.in_(ids))
    return set(connection.execute(query).scalars())
