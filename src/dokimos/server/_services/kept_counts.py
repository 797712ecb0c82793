"""Denormalized counts, which are kept with rows: what they should be, and where they differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from dokimos.server._db.batches import in_batches
from dokimos.server._db.tables import (
    DATASET_ITEMS,
    DATASET_VERSIONS,
    DATASETS,
    EVALUATIONS,
    EXPERIMENTS,
    ITEMS,
    PROJECTS,
    RUN_EVALUATORS,
    RUNS,
)
from dokimos.server._services.runs.item_counts import LARGEST_SUMMED_SCORE
from dokimos.server._services.runs.item_scores import join_scores

_RUNS_AT_ONCE: Final = 100
_TOLERANCE: Final = 1e-6
"""By how much sums of floating-point numbers may differ, relative to the sum of their sizes: the order of
adding changes the last digits, and scores that are taken back leave some."""
_FLOATS: Final = ("cost_usd", "score_sum")


@dataclass(frozen=True, slots=True)
class CountDifference:
    """A kept count that is not what its rows give."""

    table: Table
    row_id: str
    column: str
    kept: float | None
    counted: float | None
    evaluator: str | None = None
    """Of which evaluator of a run, where it is one."""

    def __str__(self) -> str:
        whose = f" of the evaluator '{self.evaluator}'" if self.evaluator is not None else ""
        return f"{self.table.name} {self.row_id}: {self.column}{whose} is {self.kept}, counted {self.counted}"


def _count(below: Table, *conditions: ColumnElement[bool]) -> ColumnElement[int]:
    return select(func.count()).select_from(below).where(*conditions).scalar_subquery()


_VERSIONS_OF_DATASET: Final = (
    select(DATASET_VERSIONS)
    .where(DATASET_VERSIONS.c.dataset_id == DATASETS.c.id, DATASET_VERSIONS.c.version.is_not(None))
    .order_by(DATASET_VERSIONS.c.version.desc())
    .limit(1)
    .correlate(DATASETS)
)
COUNTED: Final[dict[Table, dict[str, ColumnElement[Any]]]] = {
    # Before the datasets, which repeat what their latest version has.
    DATASET_VERSIONS: {
        "item_count": _count(DATASET_ITEMS, DATASET_ITEMS.c.version_id == DATASET_VERSIONS.c.id),
    },
    PROJECTS: {
        "experiment_count": _count(
            EXPERIMENTS, EXPERIMENTS.c.project_id == PROJECTS.c.id, EXPERIMENTS.c.deleted_at.is_(None)
        ),
        "run_count": _count(RUNS, RUNS.c.project_id == PROJECTS.c.id, RUNS.c.deleted_at.is_(None)),
    },
    EXPERIMENTS: {
        "run_count": _count(RUNS, RUNS.c.experiment_id == EXPERIMENTS.c.id, RUNS.c.deleted_at.is_(None)),
    },
    DATASETS: {
        "latest_version": _VERSIONS_OF_DATASET.with_only_columns(
            DATASET_VERSIONS.c.version
        ).scalar_subquery(),
        "latest_item_count": func.coalesce(
            _VERSIONS_OF_DATASET.with_only_columns(DATASET_VERSIONS.c.item_count).scalar_subquery(), 0
        ),
    },
}
"""What the counts of a row should be, by queries that name the row."""
_SEEN: Final[dict[Table, ColumnElement[bool]]] = {
    PROJECTS: PROJECTS.c.deleted_at.is_(None),
    EXPERIMENTS: EXPERIMENTS.c.deleted_at.is_(None),
    DATASETS: DATASETS.c.deleted_at.is_(None),
    # Below a deleted dataset, the purge removes items first.
    DATASET_VERSIONS: and_(
        DATASET_VERSIONS.c.version.is_not(None),
        exists().where(DATASETS.c.id == DATASET_VERSIONS.c.dataset_id, DATASETS.c.deleted_at.is_(None)),
    ),
}


def find_differences(connection: Connection) -> Iterator[CountDifference]:
    """Yield the kept counts that are not what their rows give, in one snapshot."""
    for table, counted in COUNTED.items():
        differs = or_(*(table.c[name].is_distinct_from(count) for name, count in counted.items()))
        columns = [
            each for name, count in counted.items() for each in (table.c[name], count.label(f"{name}_"))
        ]
        for row in connection.execute(select(table.c.id, *columns).where(_SEEN[table], differs)):
            for name in counted:
                kept, count = getattr(row, name), getattr(row, f"{name}_")
                if kept != count:
                    yield CountDifference(table, row.id, name, kept, count)
    for runs in _read_runs(connection):
        yield from _find_differences_of_runs(connection, runs)


def repair_counts(connection: Connection, differences: Sequence[CountDifference]) -> None:
    """Set counts to what their rows give now; who changes these rows waits for the end of the transaction."""
    for table, counted in COUNTED.items():
        ids = sorted({each.row_id for each in differences if each.table is table})
        for batch in in_batches(ids):
            lock = select(table.c.id).where(table.c.id.in_(batch)).order_by(table.c.id).with_for_update()
            connection.execute(lock).all()
            connection.execute(update(table).where(table.c.id.in_(batch)).values(counted))
    run_ids = sorted({each.row_id for each in differences if each.table in (RUNS, RUN_EVALUATORS)})
    for run_id in run_ids:
        runs = connection.execute(_SELECT_KEPT.where(RUNS.c.id == run_id).with_for_update()).all()
        for difference in list(_find_differences_of_runs(connection, runs)):
            _store(connection, difference)


def recount(connection: Connection, table: Table, row_ids: Sequence[str]) -> None:
    """Count what is kept of projects, experiments or datasets again, after rows below them were added."""
    values = dict(COUNTED[table])
    if table is EXPERIMENTS:
        newest = (
            select(RUNS.c.id)
            .where(RUNS.c.experiment_id == EXPERIMENTS.c.id, RUNS.c.deleted_at.is_(None))
            .order_by(RUNS.c.started_at.desc(), RUNS.c.id.desc())
            .limit(1)
        )
        values["latest_run_id"] = newest.scalar_subquery()
        values["verdict_run_id"] = newest.where(RUNS.c.verdict.is_not(None)).scalar_subquery()
    for batch in in_batches(row_ids):
        connection.execute(update(table).where(table.c.id.in_(batch)).values(values))


def _read_runs(connection: Connection) -> Iterator[Sequence[Row[Any]]]:
    last: str | None = None
    while True:
        query = _SELECT_KEPT.where(RUNS.c.deleted_at.is_(None)).order_by(RUNS.c.id).limit(_RUNS_AT_ONCE)
        runs = connection.execute(query if last is None else query.where(RUNS.c.id > last)).all()
        if not runs:
            return
        yield runs
        last = runs[-1].id


def _find_differences_of_runs(connection: Connection, runs: Sequence[Row[Any]]) -> Iterator[CountDifference]:
    ids = [run.id for run in runs]
    counted = {row.run_id: row for row in connection.execute(_select_totals(ids))}
    informational = dict(_pairs(connection, _select_informational(ids)))
    for run in runs:
        row = counted.get(run.id)
        for name in _TOTALS:
            count = 0 if row is None else _number(getattr(row, name))
            size = count if row is None or name not in _FLOATS else row.cost_size
            if not _is_equal(getattr(run, name), count, size):
                yield CountDifference(RUNS, run.id, name, getattr(run, name), count)
        if run.informational_count != informational.get(run.id, 0):
            kept = run.informational_count
            yield CountDifference(RUNS, run.id, "informational_count", kept, informational.get(run.id, 0))
        if row is not None and run.next_ordinal <= row.last_ordinal:
            yield CountDifference(RUNS, run.id, "next_ordinal", run.next_ordinal, row.last_ordinal + 1)
    yield from _find_differences_of_scores(connection, ids)


def _find_differences_of_scores(connection: Connection, ids: Sequence[str]) -> Iterator[CountDifference]:
    query = select(RUN_EVALUATORS).where(RUN_EVALUATORS.c.run_id.in_(ids))
    kept = {(row.run_id, row.name): row for row in connection.execute(query)}
    counted = {
        (row.run_id, row.evaluator): row for row in connection.execute(_select_scores(connection, ids))
    }
    for key in kept.keys() | counted.keys():
        stored, row = kept.get(key), counted.get(key)
        for name in ("score_count", "score_sum", "success_count"):
            has = None if stored is None else getattr(stored, name)
            count = 0 if row is None else _number(getattr(row, name))
            size = row.score_size if row is not None and name in _FLOATS else count
            if has is None or not _is_equal(has, count, size):
                yield CountDifference(RUN_EVALUATORS, key[0], name, has, count, evaluator=key[1])


def _number(value: Any) -> float:
    """A count as the tables keep it: PostgreSQL sums whole numbers into decimals."""
    return int(value) if isinstance(value, Decimal) else value


def _is_equal(kept: float, counted: float, size: float) -> bool:
    if isinstance(counted, int):
        return kept == counted
    # Sums of what cannot be added any more are not compared.
    return not math.isfinite(size) or abs(kept - counted) <= _TOLERANCE * max(1.0, size)


def _is(flag: ColumnElement[bool], value: bool) -> ColumnElement[bool]:
    """Whether a flag has a value, also where it may be NULL; both databases spell this one."""
    return flag.is_not_distinct_from(value)


_TOTALS: Final = {
    "item_count": func.count(),
    "passed_count": func.sum(case((_is(ITEMS.c.passed, True), 1), else_=0)),
    "judged_count": func.sum(case((_is(ITEMS.c.judged, True), 1), else_=0)),
    "errored_count": func.count(ITEMS.c.error),
    "reviewed_count": func.count(ITEMS.c.reviewed),
    "reviewed_failed_count": func.sum(
        case((and_(ITEMS.c.reviewed.is_not(None), ~_is(ITEMS.c.passed, True)), 1), else_=0)
    ),
    **{
        name: function(ITEMS.c[column])
        for column in ("tokens_in", "tokens_out", "latency_ms")
        for name, function in (
            (column, lambda each: func.coalesce(func.sum(each), 0)),
            (f"{column.removesuffix('_ms')}_count", func.count),
        )
    },
    "cost_usd": func.coalesce(func.sum(ITEMS.c.cost_usd), 0.0),
    "cost_count": func.count(ITEMS.c.cost_usd),
}


_SELECT_KEPT: Final = select(
    *(RUNS.c[name] for name in ("id", "next_ordinal", "informational_count", *_TOTALS))
)


def _select_totals(run_ids: Sequence[str]) -> Select[Any]:
    return (
        select(
            ITEMS.c.run_id,
            func.max(ITEMS.c.ordinal).label("last_ordinal"),
            func.coalesce(func.sum(func.abs(ITEMS.c.cost_usd)), 0.0).label("cost_size"),
            *(total.label(name) for name, total in _TOTALS.items()),
        )
        .where(ITEMS.c.run_id.in_(run_ids))
        .group_by(ITEMS.c.run_id)
    )


def _select_informational(run_ids: Sequence[str]) -> Select[Any]:
    """How many items of each run have scores of which none has a verdict."""
    has_unjudged = exists().where(EVALUATIONS.c.item_id == ITEMS.c.id, _is(EVALUATIONS.c.judged, False))
    return (
        select(ITEMS.c.run_id, func.count())
        .where(ITEMS.c.run_id.in_(run_ids), _is(ITEMS.c.judged, False), ITEMS.c.error.is_(None), has_unjudged)
        .group_by(ITEMS.c.run_id)
    )


def _select_scores(connection: Connection, run_ids: Sequence[str]) -> Select[Any]:
    items, scores = join_scores(connection)
    score = scores.score
    summed = case(
        (score > LARGEST_SUMMED_SCORE, LARGEST_SUMMED_SCORE),
        (score < -LARGEST_SUMMED_SCORE, -LARGEST_SUMMED_SCORE),
        else_=score,
    )
    is_success = and_(_is(scores.success, True), ~_is(scores.judged, False))
    return (
        select(
            ITEMS.c.run_id,
            scores.evaluator,
            func.count().label("score_count"),
            func.sum(summed).label("score_sum"),
            func.sum(func.abs(summed)).label("score_size"),
            func.sum(case((is_success, 1), else_=0)).label("success_count"),
        )
        .select_from(items)
        .where(ITEMS.c.run_id.in_(run_ids))
        .group_by(ITEMS.c.run_id, scores.evaluator)
    )


def _pairs(connection: Connection, query: Select[Any]) -> Iterator[tuple[str, int]]:
    for row in connection.execute(query):
        yield row[0], row[1]


def _store(connection: Connection, difference: CountDifference) -> None:
    table, values = difference.table, {difference.column: difference.counted}
    if table is RUNS:
        connection.execute(update(RUNS).where(RUNS.c.id == difference.row_id).values(values))
        return
    own = {"run_id": difference.row_id, "name": difference.evaluator}
    is_own = and_(*(RUN_EVALUATORS.c[name] == value for name, value in own.items()))
    if not connection.execute(update(RUN_EVALUATORS).where(is_own).values(values)).rowcount:
        position = select(func.count()).where(RUN_EVALUATORS.c.run_id == difference.row_id)
        number = connection.execute(position).scalar_one()
        connection.execute(insert(RUN_EVALUATORS).values(**own, position=number, **values))
