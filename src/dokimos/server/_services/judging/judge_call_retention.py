"""How long calls to models are kept: replies some days after their job, their costs as long as the job."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, delete, exists, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.judge_call_tables import JUDGE_BUDGETS, JUDGE_CALLS
from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._services.judging.judge_budgets import day_of
from dokimos.server._services.judging.judge_calls import CallStatus
from dokimos.server._services.judging.judge_leases import lock_jobs, release_lost

PURGE_ROWS: Final = 500
_DAY: Final = 86_400_000_000
_SUM_DAYS: Final = 400
"""How long the sums of a day are kept: for a look at the same month of the last year."""
_CALL: Final = JUDGE_CALLS.c
_WITH_REPLY: Final = (CallStatus.ANSWERED, CallStatus.UNUSABLE, CallStatus.REPLACED)


def expire_replies(connection: Connection, days: float) -> int:
    """Remove some replies of jobs that ended so many days ago; return how many, 0 when none is left.

    What they cost stays. A job that is taken up again later asks anew for what it still needs.
    """
    if days < 0:
        return 0
    has_replies = exists(
        select(_CALL.id).where(_CALL.job_id == JUDGE_JOBS.c.id, _CALL.status.in_(_WITH_REPLY))
    )
    is_over = (JUDGE_JOBS.c.completed_at < now() - int(days * _DAY), JUDGE_JOBS.c.lease.is_(None))
    job = connection.execute(select(JUDGE_JOBS.c.id).where(*is_over, has_replies).limit(1)).scalar()
    if job is None:
        return 0
    chosen = select(_CALL.id).where(_CALL.job_id == job, _CALL.status.in_(_WITH_REPLY)).limit(PURGE_ROWS)
    change = update(JUDGE_CALLS).where(_CALL.id.in_(chosen))
    return connection.execute(change.values(status=CallStatus.EXPIRED, reply=None)).rowcount


def purge_calls_of(connection: Connection, run_id: str) -> int:
    """Remove some calls of the jobs of a run that is being removed; return how many, 0 when none is left.

    Those that were still being made count as spent in the budgets of their day.
    """
    jobs = select(JUDGE_JOBS.c.id).where(JUDGE_JOBS.c.run_id == run_id)
    for job in lock_jobs(connection, JUDGE_JOBS.c.run_id == run_id):
        release_lost(connection, job, None)
    chosen = select(_CALL.id).where(_CALL.job_id.in_(jobs)).limit(PURGE_ROWS)
    return connection.execute(delete(JUDGE_CALLS).where(_CALL.id.in_(chosen))).rowcount


def purge_sums(connection: Connection) -> int:
    """Remove the sums of days that are long past; return how many."""
    oldest = day_of(max(0, now() - _SUM_DAYS * _DAY))
    return connection.execute(delete(JUDGE_BUDGETS).where(JUDGE_BUDGETS.c.day < oldest)).rowcount
