"""Items of a run: taken in, counted, read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, Select, bindparam, delete, select, tuple_, update

from dokimos.server._db.batches import in_batches
from dokimos.server._db.bulk_insert import driver_id, insert_rows
from dokimos.server._db.clock import now
from dokimos.server._db.driver_statements import DriverStatement
from dokimos.server._db.ids import new_ids
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.tables import (
    DATASET_ITEMS,
    EVALUATIONS,
    INGESTED_BATCHES,
    ITEMS,
    RUN_EVALUATORS,
    RUNS,
)
from dokimos.server._services.errors import ConflictError, NotFoundError
from dokimos.server._services.events import announce_items
from dokimos.server._services.principal import Principal
from dokimos.server._services.runs import RunStatus

LARGEST_SUMMED_SCORE: Final = 1e290
"""As what larger scores count in the sum of an evaluator: it stays finite, and a score can be taken back."""


class NewEvaluation(NamedTuple):
    """One score that a client sends. Texts that are JSON are JSON already.

    The fields are the columns of the table from `evaluator` on, in their order, so that one is most of a row.
    """

    evaluator: str
    score: float
    threshold: float | None
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
    unjudged: Sequence[int] = ()
    """Positions of the scores without a verdict, whose `success` says nothing and is true."""

    @property
    def judged(self) -> bool:
        """Whether any evaluator gave a verdict on it."""
        return len(self.evaluations) > len(self.unjudged)

    @property
    def is_informational(self) -> bool:
        """Whether it has scores, and none of them with a verdict."""
        return bool(self.unjudged) and not self.judged and self.error is None

    @property
    def passed(self) -> bool:
        """Whether it was judged without an error, and every evaluator is content."""
        return (
            self.judged and self.error is None and all(evaluation.success for evaluation in self.evaluations)
        )


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

    def add_unjudged(self, item: NewItem) -> None:
        """Count the scores of an item that have no verdict, which `add_score` took for successes."""
        if item.unjudged:
            self.informational_count += item.is_informational
            for position in item.unjudged:
                self.scores[item.evaluations[position].evaluator].success_count -= 1

    def add_score(self, evaluation: NewEvaluation | Row[Any], *, sign: int = 1) -> None:
        """Add a score of an item, or with `sign=-1` take one away."""
        counts = self.scores.get(evaluation.evaluator)
        if counts is None:
            counts = self.scores[evaluation.evaluator] = ScoreCounts()
        counts.score_count += sign
        counts.score_sum += sign * min(max(evaluation.score, -LARGEST_SUMMED_SCORE), LARGEST_SUMMED_SCORE)
        counts.success_count += sign * evaluation.success


@dataclass(slots=True)
class ScoreCounts:
    """What a run keeps of one evaluator's scores; the names are those of the columns."""

    score_count: int = 0
    score_sum: float = 0.0
    success_count: int = 0


_TOTALS: Final = tuple(each.name for each in fields(Counts) if each.name != "scores")


# The statements of the hot path are built once: building one costs more than SQLite takes to run it.
_LOCK_RUN: Final[Select[Any]] = (
    select(
        RUNS.c.id,
        RUNS.c.tenant_id,
        RUNS.c.status,
        RUNS.c.next_ordinal,
        RUNS.c.dataset_version_id,
        RUNS.c.deleted_at,
    )
    .where(RUNS.c.id == bindparam("run"))
    .with_for_update()
)
_KEEP_KEY: Final = DriverStatement(
    lambda dialect: (
        INSERTS[dialect](INGESTED_BATCHES)
        .values({column.name: bindparam(column.name) for column in INGESTED_BATCHES.c})
        .on_conflict_do_nothing()
    )
)
_READ_HASH: Final = select(INGESTED_BATCHES.c.body_hash).where(
    INGESTED_BATCHES.c.run_id == bindparam("run"), INGESTED_BATCHES.c.idempotency_key == bindparam("key")
)
_COUNT: Final = DriverStatement(
    lambda _: (
        update(RUNS)
        .where(RUNS.c.id == bindparam("run"))
        .values(
            next_ordinal=bindparam("next"),
            last_activity_at=bindparam("now"),
            **{name: RUNS.c[name] + bindparam(f"add_{name}") for name in _TOTALS},
        )
    )
)
# Few scores have no verdict, and only our own clients say so: the rows of the others cost nothing for it.
_MARK_UNJUDGED: Final = (
    update(EVALUATIONS)
    .where(
        EVALUATIONS.c.item_id == bindparam("item", type_=EVALUATIONS.c.item_id.type),
        EVALUATIONS.c.position == bindparam("place"),
    )
    .values(judged=False)
)
_COUNTED: Final = ("score_count", "score_sum", "success_count")


def _count_scores(dialect: str) -> Any:
    """Add to what is counted of an evaluator, which is new to the run or not."""
    row: dict[str, Any] = {name: bindparam(name) for name in ("run_id", "name", "position", *_COUNTED)}
    statement = INSERTS[dialect](RUN_EVALUATORS).values(row)
    return statement.on_conflict_do_update(
        index_elements=["run_id", "name"],
        set_={name: RUN_EVALUATORS.c[name] + statement.excluded[name] for name in _COUNTED},
    )


_COUNT_SCORES: Final = DriverStatement(_count_scores)


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
    run = _lock_run(connection, principal, run_id)
    if idempotency_key is not None and _is_repeated(connection, run_id, idempotency_key, body_hash):
        return False
    if run.status != RunStatus.RUNNING:
        raise ConflictError(f"The run is {run.status}; items are accepted only while it is RUNNING")
    counts = Counts()
    next_ordinal = _store(connection, run, items, counts)
    _keep_counts(connection, run_id, counts, next_ordinal)
    announce_items(connection, run_id)
    return True


def _lock_run(connection: Connection, principal: Principal, run_id: str) -> Row[Any]:
    run: Row[Any] | None = connection.execute(_LOCK_RUN, {"run": run_id}).first()
    if run is None or run.deleted_at is not None or not principal.sees_tenant(run.tenant_id):
        raise NotFoundError(f"Run not found: {run_id}")
    principal.check_may_write(run.tenant_id, "The run")
    return run


def _is_repeated(connection: Connection, run_id: str, key: str, body_hash: str) -> bool:
    """Keep the key of a batch; return True where the run has it already."""
    row = {
        "run_id": driver_id(run_id, connection),
        "idempotency_key": key,
        "body_hash": body_hash,
        "created_at": now(),
    }
    if _KEEP_KEY.execute(connection, row).rowcount:
        return False
    if connection.execute(_READ_HASH, {"run": run_id, "key": key}).scalar() != body_hash:
        raise ConflictError("The Idempotency-Key has been used for another batch of this run")
    return True


def _store(connection: Connection, run: Row[Any], items: Sequence[NewItem], counts: Counts) -> int:
    """Insert the items and their scores; return the next free ordinal of the run."""
    latest = {
        (item.ordinal, item.repetition): index for index, item in enumerate(items) if item.ordinal is not None
    }
    _remove_replaced(connection, run, latest, counts)
    linked = _links(connection, run, items)
    moment = now()
    run_id = driver_id(run.id, connection)
    next_ordinal: int = max([run.next_ordinal, *(ordinal + 1 for ordinal, _ in latest)])
    rows: list[tuple[object, ...]] = []
    scores: list[tuple[object, ...]] = []
    unjudged: list[dict[str, object]] = []
    for index, (new, item) in enumerate(zip(new_ids(len(items)), items, strict=True)):
        ordinal = item.ordinal
        if ordinal is None:
            ordinal = next_ordinal
            next_ordinal += 1
        elif latest[ordinal, item.repetition] != index:
            continue  # the same batch has it again, further on
        item_id = driver_id(new, connection)
        link = driver_id(item.dataset_item_id if item.dataset_item_id in linked else None, connection)
        rows.append((item_id, run_id, ordinal, *_item_values(item, link), moment))
        counts.add(item)
        for position, evaluation in enumerate(item.evaluations):
            scores.append((item_id, position, *evaluation))
            counts.add_score(evaluation)
        counts.add_unjudged(item)
        unjudged += [{"item": new, "place": position} for position in item.unjudged]
    insert_rows(connection, ITEMS, rows)
    insert_rows(connection, EVALUATIONS, scores)
    if unjudged:
        connection.execute(_MARK_UNJUDGED, unjudged)
    return next_ordinal


def _remove_replaced(
    connection: Connection, run: Row[Any], places: dict[tuple[int, int], int], counts: Counts
) -> None:
    """Remove what the run has at these places, and take it out of the counts."""
    if not any(ordinal < run.next_ordinal for ordinal, _ in places):
        return  # the usual case: all of them are new
    for batch in in_batches(list(places)):
        _remove_places(connection, run, batch, places, counts)


def _remove_places(
    connection: Connection,
    run: Row[Any],
    batch: Sequence[tuple[int, int]],
    places: dict[tuple[int, int], int],
    counts: Counts,
) -> None:
    query = select(ITEMS).where(
        ITEMS.c.run_id == run.id, tuple_(ITEMS.c.ordinal, ITEMS.c.repetition).in_(batch)
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
    unjudged = {row.id for row in replaced if not row.judged and row.error is None}
    for score in connection.execute(select(EVALUATIONS).where(EVALUATIONS.c.item_id.in_(ids))):
        counts.add_score(score, sign=-1)
        if score.judged is False:
            counts.scores[score.evaluator].success_count += 1
        if score.item_id in unjudged:
            unjudged.remove(score.item_id)
            counts.informational_count -= 1
    connection.execute(delete(EVALUATIONS).where(EVALUATIONS.c.item_id.in_(ids)))
    connection.execute(delete(ITEMS).where(ITEMS.c.id.in_(ids)))


def _links(connection: Connection, run: Row[Any], items: Sequence[NewItem]) -> set[str]:
    """The dataset items that belong to the run's version; items of others are stored without a link."""
    ids = {item.dataset_item_id for item in items if item.dataset_item_id is not None}
    if not ids or run.dataset_version_id is None:
        return set()
    linked: set[str] = set()
    for batch in in_batches(sorted(ids)):
        query = select(DATASET_ITEMS.c.id).where(
            DATASET_ITEMS.c.id.in_(batch), DATASET_ITEMS.c.version_id == run.dataset_version_id
        )
        linked.update(connection.execute(query).scalars())
    return linked


def _item_values(item: NewItem, dataset_item_id: str | bytes | None) -> tuple[object, ...]:
    """The columns of an item from `repetition` to `judged`, in the order of the table."""
    return (
        item.repetition,
        item.ordinal is None,
        item.input,
        item.expected_output,
        item.actual_output,
        item.metadata,
        item.error,
        dataset_item_id,
        item.tokens_in,
        item.tokens_out,
        item.cost_usd,
        item.latency_ms,
        item.passed,
        item.judged,
    )


def _keep_counts(connection: Connection, run_id: str, counts: Counts, next_ordinal: int) -> None:
    run = driver_id(run_id, connection)
    totals = {f"add_{name}": getattr(counts, name) for name in _TOTALS}
    _COUNT.execute(connection, {"run": run, "next": next_ordinal, "now": now(), **totals})
    scores = [
        {
            "run_id": run,
            "name": name,
            "position": position,
            "score_count": each.score_count,
            "score_sum": each.score_sum,
            "success_count": each.success_count,
        }
        for position, (name, each) in enumerate(counts.scores.items())
    ]
    if scores:
        _COUNT_SCORES.execute_many(connection, scores)
