"""Items of a run: taken in, counted, read back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, tuple_, update

from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_ids
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.tables import (
    DATASET_ITEMS,
    EVALUATIONS,
    INGESTED_BATCHES,
    ITEMS,
    RUN_EVALUATORS,
    RUNS,
)
from dokimos.server._services.errors import ConflictError, InvalidRequestError
from dokimos.server._services.principal import Principal
from dokimos.server._services.runs import RunStatus, find_run


@dataclass(slots=True, kw_only=True)
class NewEvaluation:
    """One score that a client sends. Texts that are JSON are JSON already."""

    evaluator: str
    score: float
    threshold: float | None = None
    success: bool
    reason: str | None = None
    label: str | None = None
    metadata: str | None = None
    error_detail: str | None = None


@dataclass(slots=True, kw_only=True)
class NewItem:
    """One item that a client sends. Texts that are JSON are JSON already."""

    ordinal: int | None = None
    repetition: int = 0
    input: str
    expected_output: str | None = None
    actual_output: str
    metadata: str | None = None
    error: str | None = None
    dataset_item_id: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    latency_ms: int | None = None
    evaluations: Sequence[NewEvaluation] = ()

    @property
    def judged(self) -> bool:
        """Whether any evaluator scored it."""
        return bool(self.evaluations)

    @property
    def passed(self) -> bool:
        """Whether it was scored, and every evaluator is content."""
        return self.judged and all(evaluation.success for evaluation in self.evaluations)


@dataclass(slots=True)
class Counts:
    """What a run keeps of its items; the names are those of the columns."""

    item_count: int = 0
    passed_count: int = 0
    judged_count: int = 0
    errored_count: int = 0
    tokens_in: int = 0
    tokens_in_count: int = 0
    tokens_out: int = 0
    tokens_out_count: int = 0
    cost_usd: float = 0.0
    cost_count: int = 0
    latency_ms: int = 0
    latency_count: int = 0
    scores: dict[str, ScoreCounts] = field(default_factory=dict)

    def add(self, item: NewItem | Row[Any], *, sign: int = 1) -> None:
        """Add an item, or with `sign=-1` take one away that is replaced."""
        self.item_count += sign
        self.passed_count += sign * item.passed
        self.judged_count += sign * item.judged
        self.errored_count += sign * (item.error is not None)
        for value, total in (
            (item.tokens_in, "tokens_in"),
            (item.tokens_out, "tokens_out"),
            (item.cost_usd, "cost_usd"),
            (item.latency_ms, "latency_ms"),
        ):
            if value is not None:
                count = f"{total.partition('_ms')[0].partition('_usd')[0]}_count"
                setattr(self, total, getattr(self, total) + sign * value)
                setattr(self, count, getattr(self, count) + sign)

    def add_score(self, evaluation: NewEvaluation | Row[Any], *, sign: int = 1) -> None:
        """Add a score of an item, or with `sign=-1` take one away."""
        counts = self.scores.get(evaluation.evaluator)
        if counts is None:
            counts = self.scores[evaluation.evaluator] = ScoreCounts()
        counts.score_count += sign
        counts.score_sum += sign * evaluation.score
        counts.success_count += sign * evaluation.success


@dataclass(slots=True)
class ScoreCounts:
    """What a run keeps of one evaluator's scores; the names are those of the columns."""

    score_count: int = 0
    score_sum: float = 0.0
    success_count: int = 0


_TOTALS = tuple(each.name for each in fields(Counts) if each.name != "scores")


def add_items(
    connection: Connection,
    principal: Principal,
    run_id: str,
    items: Sequence[NewItem],
    *,
    idempotency_key: str | None = None,
    body_hash: str = "",
) -> bool:
    """Store items of a run that is going on; return False where this batch was stored before.

    An item with an ordinal replaces what the run has at that ordinal and repetition; one without gets the
    next ordinal and replaces nothing.

    Raises:
        ConflictError: The run has ended; or the key belongs to another batch; or an ordinal belongs to an
            item that was sent without one.
        NotFoundError: There is no such run that the caller sees.
    """
    run = find_run(connection, principal, run_id, for_update=True)
    principal.check_may_write(run.tenant_id, "The run")
    if idempotency_key is not None and _is_repeated(connection, run_id, idempotency_key, body_hash):
        return False
    if run.status != RunStatus.RUNNING:
        raise ConflictError(f"The run is {run.status}; items are accepted only while it is RUNNING")
    if idempotency_key is not None:
        insert_if_absent(
            connection,
            INGESTED_BATCHES,
            run_id=run_id,
            idempotency_key=idempotency_key,
            body_hash=body_hash,
            created_at=now(),
        )
    counts = Counts()
    next_ordinal = _store(connection, run, items, counts)
    _keep_counts(connection, run_id, counts, next_ordinal)
    return True


def _is_repeated(connection: Connection, run_id: str, key: str, body_hash: str) -> bool:
    query = select(INGESTED_BATCHES.c.body_hash).where(
        INGESTED_BATCHES.c.run_id == run_id, INGESTED_BATCHES.c.idempotency_key == key
    )
    earlier = connection.execute(query).scalar()
    if earlier is not None and earlier != body_hash:
        raise ConflictError("The Idempotency-Key has been used for another batch of this run")
    return earlier is not None


def _store(connection: Connection, run: Row[Any], items: Sequence[NewItem], counts: Counts) -> int:
    """Insert the items and their scores; return the next free ordinal of the run."""
    latest = {
        (item.ordinal, item.repetition): index for index, item in enumerate(items) if item.ordinal is not None
    }
    _remove_replaced(connection, run, latest, counts)
    linked = _links(connection, run, items)
    moment = now()
    next_ordinal: int = run.next_ordinal
    rows: list[dict[str, object]] = []
    scores: list[dict[str, object]] = []
    for index, (item_id, item) in enumerate(zip(new_ids(len(items)), items, strict=True)):
        ordinal = item.ordinal
        if ordinal is None:
            ordinal = next_ordinal
        elif latest[ordinal, item.repetition] != index:
            continue  # the same batch has it again, further on
        next_ordinal = max(next_ordinal, ordinal + 1)
        rows.append(_item_row(item, item_id, run.id, ordinal, linked, moment))
        counts.add(item)
        for position, evaluation in enumerate(item.evaluations):
            scores.append(_score_row(evaluation, item_id, position))
            counts.add_score(evaluation)
    connection.execute(insert(ITEMS), rows)
    if scores:
        connection.execute(insert(EVALUATIONS), scores)
    return next_ordinal


def _remove_replaced(
    connection: Connection, run: Row[Any], places: dict[tuple[int, int], int], counts: Counts
) -> None:
    """Remove what the run has at these places, and take it out of the counts."""
    if not any(ordinal < run.next_ordinal for ordinal, _ in places):
        return  # the usual case: all of them are new
    query = select(ITEMS).where(
        ITEMS.c.run_id == run.id, tuple_(ITEMS.c.ordinal, ITEMS.c.repetition).in_(list(places))
    )
    replaced = connection.execute(query).all()
    for row in replaced:
        if row.ordinal_assigned:
            field = f"items[{places[row.ordinal, row.repetition]}].ordinal"
            raise ConflictError(f"{field}: {row.ordinal} belongs to an item that was sent without an ordinal")
        counts.add(row, sign=-1)
    ids = [row.id for row in replaced]
    if not ids:
        return
    for score in connection.execute(select(EVALUATIONS).where(EVALUATIONS.c.item_id.in_(ids))):
        counts.add_score(score, sign=-1)
    connection.execute(delete(EVALUATIONS).where(EVALUATIONS.c.item_id.in_(ids)))
    connection.execute(delete(ITEMS).where(ITEMS.c.id.in_(ids)))


def _links(connection: Connection, run: Row[Any], items: Sequence[NewItem]) -> set[str]:
    """The dataset items that belong to the run's version; items of others are stored without a link."""
    ids = {item.dataset_item_id for item in items if item.dataset_item_id is not None}
    if not ids or run.dataset_version_id is None:
        return set()
    query = select(DATASET_ITEMS.c.id).where(
        DATASET_ITEMS.c.id.in_(ids), DATASET_ITEMS.c.version_id == run.dataset_version_id
    )
    return set(connection.execute(query).scalars())


def _item_row(
    item: NewItem, item_id: str, run_id: str, ordinal: int, linked: set[str], moment: int
) -> dict[str, object]:
    return {
        "id": item_id,
        "run_id": run_id,
        "ordinal": ordinal,
        "repetition": item.repetition,
        "ordinal_assigned": item.ordinal is None,
        "input": item.input,
        "expected_output": item.expected_output,
        "actual_output": item.actual_output,
        "metadata": item.metadata,
        "error": item.error,
        "dataset_item_id": item.dataset_item_id if item.dataset_item_id in linked else None,
        "tokens_in": item.tokens_in,
        "tokens_out": item.tokens_out,
        "cost_usd": item.cost_usd,
        "latency_ms": item.latency_ms,
        "passed": item.passed,
        "judged": item.judged,
        "created_at": moment,
    }


def _score_row(evaluation: NewEvaluation, item_id: str, position: int) -> dict[str, object]:
    return {
        "item_id": item_id,
        "position": position,
        "evaluator": evaluation.evaluator,
        "score": evaluation.score,
        "threshold": evaluation.threshold,
        "success": evaluation.success,
        "reason": evaluation.reason,
        "label": evaluation.label,
        "metadata": evaluation.metadata,
        "error_detail": evaluation.error_detail,
    }


def _keep_counts(connection: Connection, run_id: str, counts: Counts, next_ordinal: int) -> None:
    totals = {name: RUNS.c[name] + getattr(counts, name) for name in _TOTALS if getattr(counts, name)}
    change = update(RUNS).where(RUNS.c.id == run_id)
    connection.execute(change.values(next_ordinal=next_ordinal, last_activity_at=now(), **totals))
    for name, scores in counts.scores.items():
        _keep_scores(connection, run_id, name, scores)


def _keep_scores(connection: Connection, run_id: str, name: str, counts: ScoreCounts) -> None:
    table = RUN_EVALUATORS
    change = (
        update(table)
        .where(table.c.run_id == run_id, table.c.name == name)
        .values(
            score_count=table.c.score_count + counts.score_count,
            score_sum=table.c.score_sum + counts.score_sum,
            success_count=table.c.success_count + counts.success_count,
        )
    )
    if connection.execute(change).rowcount == 0:
        values = {name: getattr(counts, name) for name in ("score_count", "score_sum", "success_count")}
        position = len(connection.execute(select(table.c.name).where(table.c.run_id == run_id)).all())
        connection.execute(insert(table).values(run_id=run_id, name=name, position=position, **values))


def check_number(value: float | None, field: str) -> float | None:
    """Return a number that JSON can hold.

    Raises:
        InvalidRequestError: It is not finite.
    """
    if value is not None and not math.isfinite(value):
        raise InvalidRequestError("must be a finite number", field=field)
    return value
