"""The status of a run while judge jobs score it: they hold it, and give it back."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Row, exists, func, literal_column, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._db.tables import PROJECTS, RUNS
from dokimos.server._services.events import EventKind, announce_run, counts_of
from dokimos.server._services.runs.runs import RunStatus
from dokimos.server._services.visible_counts import activity_at

ACTIVE: Final = ("PENDING", "CLAIMED", "PAUSED")
"""The statuses of jobs that are not at their end."""
FAILED: Final = "FAILED"
_UNKNOWN: Final = "The run was being scored, and its judge job is gone; how it had ended is not known."


def hold_run(connection: Connection, run: Row[Any]) -> None:
    """Let a run be EVALUATING, and remember what it was.

    Args:
        run: Its row, which the transaction has locked.
    """
    if run.status == RunStatus.EVALUATING:
        return
    values: dict[str, Any] = {"status": RunStatus.EVALUATING, "status_reason": None}
    if run.own_status is None:  # otherwise a failed job holds it already
        values |= {"own_status": run.status, "own_status_reason": run.status_reason}
    connection.execute(update(RUNS).where(RUNS.c.id == run.id).values(values))
    announce_run(connection, EventKind.RUN_UPDATED, run, {"status": RunStatus.EVALUATING, **counts_of(run)})


def release_run(connection: Connection, run_id: str) -> None:
    """Give a run the status back that it had, once no job of it is active.

    The run is FAILED instead as long as the last job of one of its evaluators is. Whatever compares the run
    does so again: its scores may have changed.
    """
    query = select(RUNS).where(RUNS.c.id == run_id, RUNS.c.deleted_at.is_(None)).with_for_update()
    run = connection.execute(query).first()
    if run is None or _has_active_jobs(connection, run_id):
        return
    is_unknown = run.own_status is None
    if is_unknown and run.status != RunStatus.EVALUATING:
        return
    failure = _find_failure(connection, run_id)
    if failure is None:
        values = {
            "status": RunStatus.FAILED if is_unknown else run.own_status,
            "status_reason": _UNKNOWN if is_unknown else run.own_status_reason,
            "own_status": None,
            "own_status_reason": None,
        }
    else:
        values = {
            "status": RunStatus.FAILED,
            "status_reason": _describe(failure, run),
        }
    moment = now()
    status = values["status"]
    is_running = status == RunStatus.RUNNING
    values["completed_at"] = None if is_running else max(moment, run.started_at)
    values |= {"verdict": None, "last_activity_at": moment}
    connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(values))
    connection.execute(
        update(PROJECTS).where(PROJECTS.c.id == run.project_id).values(**activity_at(moment, run.tenant_id))
    )
    kind = EventKind.RUN_UPDATED if is_running else EventKind.RUN_COMPLETED
    announce_run(connection, kind, run, {"status": status, **counts_of(run)})


def release_idle_runs(connection: Connection, most: int = 100) -> list[str]:
    """Give runs their status back that are EVALUATING, and of which no job is active; return their ids.

    Whoever ends a job does that, too. These are runs whose jobs vanished in another way, such as with an
    import from a server that was scoring them.
    """
    has_active_job = exists().where(JUDGE_JOBS.c.run_id == RUNS.c.id, JUDGE_JOBS.c.status.in_(ACTIVE))
    query = select(RUNS.c.id).where(
        RUNS.c.status == literal_column("'EVALUATING'"),  # as the index has it
        RUNS.c.deleted_at.is_(None),
        ~has_active_job,
    )
    run_ids = connection.execute(query.order_by(RUNS.c.id).limit(most)).scalars().all()
    for run_id in run_ids:
        release_run(connection, run_id)
    return list(run_ids)


def _has_active_jobs(connection: Connection, run_id: str) -> bool:
    query = select(JUDGE_JOBS.c.id).where(JUDGE_JOBS.c.run_id == run_id, JUDGE_JOBS.c.status.in_(ACTIVE))
    return connection.execute(query.limit(1)).first() is not None


def _describe(failure: Row[Any], run: Row[Any]) -> str:
    """Why a run failed; below a shared run, others do not read what went wrong with a tenant's job."""
    why = f": {failure.last_error}" if failure.tenant_id == run.tenant_id else "."
    return f"The judge job '{failure.evaluator_name}' failed{why}"


def _find_failure(connection: Connection, run_id: str) -> Row[Any] | None:
    """The first failed job that no later job of the same evaluator has made good."""
    place = func.row_number().over(
        partition_by=JUDGE_JOBS.c.evaluator_name,
        order_by=(JUDGE_JOBS.c.created_at.desc(), JUDGE_JOBS.c.id.desc()),
    )
    names = ("id", "evaluator_name", "status", "last_error", "tenant_id")
    jobs = select(*(JUDGE_JOBS.c[name] for name in names), place.label("place"))
    last = jobs.where(JUDGE_JOBS.c.run_id == run_id).subquery()
    query = select(last).where(last.c.place == 1, last.c.status == FAILED).order_by(last.c.id)
    return connection.execute(query.limit(1)).first()
