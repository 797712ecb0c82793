"""Which server works on which job: it is claimed for some time, with a sign of life before that ends.

A server claims a job (a lease), asks the model outside any transaction, and stores results under its lease.
Where it is killed meanwhile, or stands still for longer, the lease ends and another server goes on; what the
first one stores after that is refused (`LeaseLost`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, delete, not_, or_, select, update

from dokimos.server._db.clock import SECOND, now
from dokimos.server._db.ids import new_id
from dokimos.server._db.judge_tables import JUDGE_JOBS, JUDGE_SCORES
from dokimos.server._db.tables import PROJECTS, RUNS
from dokimos.server._services.judging.judge_jobs import JobStatus, announce_job
from dokimos.server._services.judging.judge_leases import LeaseLost, release_lost
from dokimos.server._services.judging.judged_runs import release_run

MAX_LOST: Final = 5
"""So many servers may end with a job without one item that got on; after that the job is at fault."""
MAX_ERROR_LENGTH: Final = 500
_SLACK: Final = 60 * SECOND
"""By how much clocks of several servers may differ."""
_LOOKED_AT: Final = 100
_JOB: Final = JUDGE_JOBS.c
# Every page of results comes here: building the statements costs more than SQLite takes to run them.
_OF_JOB: Final = bindparam("of_job", type_=_JOB.id.type)
_LOCK_RUN: Final = (
    select(RUNS.c.id)
    .where(RUNS.c.id == select(_JOB.run_id).where(_JOB.id == _OF_JOB).scalar_subquery())
    .where(RUNS.c.deleted_at.is_(None))
    .with_for_update()
)
_LOCK_JOB: Final = (
    select(JUDGE_JOBS).where(_JOB.id == _OF_JOB, _JOB.lease == bindparam("of_lease")).with_for_update()
)


def has_due_jobs(connection: Connection) -> bool:
    """Say whether there is a job to work on, or a paused one whose server has ended."""
    moment = now()
    queries = (_select_due(moment), _select_abandoned(moment))
    return any(connection.execute(query.limit(1)).first() is not None for query in queries)


def claim_jobs(connection: Connection, *, most: int, seconds: float) -> list[Row[Any]]:
    """Take jobs that are due, the oldest first, each under a lease of its own.

    Args:
        connection: Of a transaction that writes.
        most: How many at most.
        seconds: How long others leave them alone.
    """
    moment = now()
    _release_abandoned(connection, moment)
    # Rows that another server is taking are left to it; SQLite has one writer.
    due = connection.execute(
        _select_due(moment).limit(min(most, _LOOKED_AT)).with_for_update(skip_locked=True)
    )
    taken: list[Row[Any]] = []
    for job_id, was_leased in [(row.id, row.lease is not None) for row in due]:
        values: dict[str, Any] = {
            "status": JobStatus.CLAIMED,
            "lease": new_id(),
            "leased_at": moment,
            "leased_until": moment + int(seconds * SECOND),
            "claimed_at": moment,
            "done_before": _JOB.scored_count + _JOB.error_count + _JOB.skipped_count,
        }
        # A server that ended with the job has not tried in vain what it was about.
        values |= (
            {"lost_count": _JOB.lost_count + 1} if was_leased else {"attempt_count": _JOB.attempt_count + 1}
        )
        change = update(JUDGE_JOBS).where(_JOB.id == job_id).values(values).returning(JUDGE_JOBS)
        job = connection.execute(change).one()
        release_lost(connection, job_id, job.lease)
        announce_job(connection, job)
        taken.append(job)
    return taken


def renew_leases(connection: Connection, leases: Collection[str], seconds: float) -> None:
    """Say that this server still works on its jobs."""
    moment = now()
    change = update(JUDGE_JOBS).where(_JOB.lease.in_(leases))
    connection.execute(change.values(leased_at=moment, leased_until=moment + int(seconds * SECOND)))


def read_orders(connection: Connection, leases: Collection[str]) -> dict[str, str]:
    """Return the status of each job that is still this server's, by its lease."""
    query = select(_JOB.lease, _JOB.status).where(_JOB.lease.in_(leases))
    return {row.lease: row.status for row in connection.execute(query)}


def lock_job(connection: Connection, job_id: str, lease: str) -> Row[Any]:
    """Lock a job, and its run before it, for a transaction that stores something under its lease.

    Raises:
        LeaseLost: It is not this server's any more, or its run has been deleted.
    """
    values = {"of_job": job_id, "of_lease": lease}
    if connection.execute(_LOCK_RUN, values).first() is None:
        raise LeaseLost(f"The run of job {job_id} has been deleted.")
    job = connection.execute(_LOCK_JOB, values).first()
    if job is None:
        raise LeaseLost(f"Job {job_id} is not this server's any more.")
    return job


def give_back(connection: Connection, job_id: str, lease: str) -> None:
    """Let others continue with a job at once; one that was paused stays so."""
    job = lock_job(connection, job_id, lease)
    values: dict[str, Any] = {"lease": None}
    if job.status == JobStatus.CLAIMED:
        moment = now()
        values |= {"status": JobStatus.PENDING, "scheduled_at": moment, "next_attempt_at": moment}
    values["attempt_count"] = max(0, job.attempt_count - 1)  # it was not in vain
    _change(connection, job_id, values)


def put_off(
    connection: Connection, job_id: str, lease: str, error: str, seconds: float, *, is_attempt: bool = True
) -> None:
    """Leave the rest of a job to a later attempt.

    Args:
        connection: Of a transaction that writes.
        job_id, lease: The job.
        error: Why.
        seconds: When it is due again.
        is_attempt: Whether this was one of the attempts that a job has.
    """
    job = lock_job(connection, job_id, lease)
    values: dict[str, Any] = {"lease": None, "last_error": error[:MAX_ERROR_LENGTH]}
    if not is_attempt:
        values["attempt_count"] = max(0, job.attempt_count - 1)
    if job.status == JobStatus.CLAIMED:
        moment = now()
        due = moment + int(seconds * SECOND)
        values |= {"status": JobStatus.PENDING, "scheduled_at": moment, "next_attempt_at": due}
    _change(connection, job_id, values)


def end_job(connection: Connection, job_id: str, lease: str, status: JobStatus, error: str | None) -> str:
    """End a job, and give its run back; return the id of the run.

    Args:
        connection: Of a transaction that writes.
        job_id, lease: The job.
        status: `SUCCEEDED` or `FAILED`.
        error: Why it failed, or what went wrong on the way.
    """
    job = lock_job(connection, job_id, lease)
    values: dict[str, Any] = {"status": status, "lease": None, "completed_at": now()}
    values["last_error"] = None if error is None else error[:MAX_ERROR_LENGTH]
    connection.execute(delete(JUDGE_SCORES).where(JUDGE_SCORES.c.job_id == job_id))
    _change(connection, job_id, values)
    release_run(connection, job.run_id)
    return str(job.run_id)


def _change(connection: Connection, job_id: str, values: dict[str, Any]) -> None:
    change = update(JUDGE_JOBS).where(_JOB.id == job_id).values(values).returning(JUDGE_JOBS)
    release_lost(connection, job_id, None)
    announce_job(connection, connection.execute(change).one())


def _release_abandoned(connection: Connection, moment: int) -> None:
    """Settle what servers that ended were still asking for jobs that had just been paused."""
    query = _select_abandoned(moment).limit(_LOOKED_AT).with_for_update(skip_locked=True)
    for job_id in connection.execute(query).scalars().all():
        _change(connection, job_id, {"lease": None})


def _select_abandoned(moment: int) -> Any:
    return (
        select(_JOB.id)
        .where(_JOB.status == JobStatus.PAUSED, _JOB.lease.is_not(None), not_(_is_leased(moment)))
        .order_by(_JOB.id)
    )


def _is_leased(moment: int) -> ColumnElement[bool]:
    return and_(_JOB.lease.is_not(None), _JOB.leased_until > moment, _JOB.leased_at <= moment + _SLACK)


def _select_due(moment: int) -> Any:
    is_due = or_(_JOB.next_attempt_at <= moment, _JOB.scheduled_at > moment + _SLACK)
    # Below a project or a run that is deleted nothing is scored; the purge removes it.
    is_there = _JOB.run_id.in_(
        select(RUNS.c.id)
        .join(PROJECTS, PROJECTS.c.id == RUNS.c.project_id)
        .where(RUNS.c.id == _JOB.run_id, RUNS.c.deleted_at.is_(None), PROJECTS.c.deleted_at.is_(None))
        .correlate(JUDGE_JOBS)
    )
    is_waiting = and_(_JOB.status == JobStatus.PENDING, is_due)
    return (
        select(_JOB.id, _JOB.lease)
        .where(or_(is_waiting, _JOB.status == JobStatus.CLAIMED), not_(_is_leased(moment)), is_there)
        .order_by(_JOB.next_attempt_at, _JOB.id)
    )


def describe_lost(job: Row[Any]) -> str | None:
    """Return why a job must not be tried again, None where it may be."""
    if job.lost_count < MAX_LOST:
        return None
    return (
        f"{job.lost_count} servers ended while they worked on this job, and none of them got on. Look at "
        "their logs and at the first items that have no score, such as for their size."
    )
