"""What keeps the tables tidy: runs that went quiet, and rows that were deleted."""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, delete, exists, or_, select, update

from dokimos.server._db.clock import HOUR, SECOND, now
from dokimos.server._db.tables import (
    DATASET_ITEMS,
    DATASET_VERSIONS,
    DATASETS,
    EXPERIMENTS,
    ITEMS,
    PROJECTS,
    RUNS,
)
from dokimos.server._services.comparisons.comparison_retention import purge_comparisons, purge_comparisons_of
from dokimos.server._services.datasets.dataset_versions import give_up_quiet_version
from dokimos.server._services.events import RUN_COLUMNS, EventKind, announce_run, counts_of
from dokimos.server._services.judging.judge_call_retention import purge_calls_of
from dokimos.server._services.runs.runs import COMPARABLE, RunStatus

_UNFINISHED_MICROSECONDS: Final = 600_000_000
"""How long a dataset version that is being written may go without new items before it counts as given up."""
_VERDICTS_AT_ONCE: Final = 1000
PURGE_ROWS: Final = 500
"""Rows that one transaction deletes at most: other writers wait no longer than that takes."""


def fail_stale_runs(connection: Connection, hours: float) -> list[str]:
    """Mark runs as failed that have been running without a sign of life; return their ids."""
    moment = now()
    reason = f"No items and no status arrived for {hours:g} hours; the client has probably ended."
    change = (
        update(RUNS)
        .where(
            RUNS.c.status == RunStatus.RUNNING,
            RUNS.c.deleted_at.is_(None),
            RUNS.c.last_activity_at < moment - int(hours * HOUR),
        )
        .values(status=RunStatus.FAILED, status_reason=reason, completed_at=moment)
        .returning(*RUN_COLUMNS)
    )
    failed = connection.execute(change).all()
    for run in failed:
        announce_run(connection, EventKind.RUN_COMPLETED, run, {"status": run.status, **counts_of(run)})
    return [run.id for run in failed]


def find_runs_without_verdict(
    connection: Connection, quiet_seconds: float, seconds: float
) -> list[tuple[str, int]]:
    """Return runs that ended some time ago and have no verdict yet, each with when it last changed.

    Args:
        connection: Of a transaction that reads.
        quiet_seconds: How long ago that was at least, so that their verdict is not being computed.
        seconds: How long ago it was at most.
    """
    moment = now()
    span = moment - int(seconds * SECOND), moment - int(quiet_seconds * SECOND)
    query = (
        select(RUNS.c.id, RUNS.c.last_activity_at)
        .where(
            # The condition of the index `ix_runs_without_verdict`, which is not used without it.
            RUNS.c.verdict.is_(None),
            RUNS.c.completed_at.is_not(None),
            # One that was sent late ended long ago, and the reaper ends one of which nothing has arrived.
            or_(RUNS.c.completed_at.between(*span), RUNS.c.last_activity_at.between(*span)),
            RUNS.c.status.in_(COMPARABLE),
            RUNS.c.deleted_at.is_(None),
        )
        .order_by(RUNS.c.completed_at)
        .limit(_VERDICTS_AT_ONCE)
    )
    return [(run.id, run.last_activity_at) for run in connection.execute(query)]


def purge_deleted_rows(connection: Connection) -> int:
    """Do one step of the purge; return how many rows it touched, 0 when nothing is left.

    The rows below a row go before it, `PURGE_ROWS` at once at most: a cascade would hold up other writers.
    """
    comparisons = purge_comparisons(connection)
    if comparisons:
        return comparisons
    run = _first_deleted(connection, RUNS)
    if run is not None:
        return (
            _delete_some(connection, ITEMS, ITEMS.c.run_id == run)
            or purge_comparisons_of(connection, run)
            or purge_calls_of(connection, run)
            or _delete_row(connection, RUNS, run)
        )
    version = give_up_quiet_version(connection, now() - _UNFINISHED_MICROSECONDS)
    if version is not None:
        is_below = DATASET_ITEMS.c.version_id == version
        return _delete_some(connection, DATASET_ITEMS, is_below) or _delete_row(
            connection, DATASET_VERSIONS, version
        )
    dataset = _first_deleted(connection, DATASETS)
    if dataset is not None:
        versions = select(DATASET_VERSIONS.c.id).where(DATASET_VERSIONS.c.dataset_id == dataset)
        is_below = DATASET_ITEMS.c.version_id.in_(versions)
        return _delete_some(connection, DATASET_ITEMS, is_below) or _delete_row(connection, DATASETS, dataset)
    orphans = _mark_orphans_deleted(connection)
    if orphans:
        return orphans
    for table, below, belongs_to in (
        (EXPERIMENTS, RUNS, RUNS.c.experiment_id == EXPERIMENTS.c.id),
        (PROJECTS, EXPERIMENTS, EXPERIMENTS.c.project_id == PROJECTS.c.id),
    ):
        is_empty = ~exists(select(below.c.id).where(belongs_to))
        removed = connection.execute(delete(table).where(table.c.deleted_at.is_not(None), is_empty)).rowcount
        if removed:
            return removed
    return 0


def _mark_orphans_deleted(connection: Connection) -> int:
    """Mark what is below deleted rows: on PostgreSQL, a run may start while its project is being deleted."""
    marked = 0
    for below, parent, key in (
        (EXPERIMENTS, PROJECTS, EXPERIMENTS.c.project_id),
        (RUNS, EXPERIMENTS, RUNS.c.experiment_id),
    ):
        is_orphan = key.in_(select(parent.c.id).where(parent.c.deleted_at.is_not(None)))
        change = update(below).where(below.c.deleted_at.is_(None), is_orphan).values(deleted_at=now())
        marked += connection.execute(change).rowcount
    return marked


def _first_deleted(connection: Connection, table: Table) -> str | None:
    row_id: str | None = connection.execute(
        select(table.c.id).where(table.c.deleted_at.is_not(None)).limit(1)
    ).scalar()
    return row_id


def _delete_some(connection: Connection, table: Table, condition: ColumnElement[bool]) -> int:
    chosen = select(table.c.id).where(condition).limit(PURGE_ROWS)
    return connection.execute(delete(table).where(table.c.id.in_(chosen))).rowcount


def _delete_row(connection: Connection, table: Table, row_id: str) -> int:
    return connection.execute(delete(table).where(table.c.id == row_id)).rowcount
