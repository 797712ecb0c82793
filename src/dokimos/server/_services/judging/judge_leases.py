"""Whose job it is: a worker stores something only while the job is its own.

A worker that was frozen for longer than its lease finds, in the same transaction in which it would store
something, that another one has taken its place. So nothing is stored or counted twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, Text, bindparam, literal_column, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.columns import Id
from dokimos.server._db.driver_statements import DriverStatement, driver_id
from dokimos.server._db.judge_call_tables import JUDGE_CALLS
from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._services.judging.judge_budgets import Amount, LockedSums, Sum, day_of, sums_of
from dokimos.server._services.judging.judge_calls import CallStatus


class LedgerTables(NamedTuple):
    """Where the calls of a job are, and the job; those of judge jobs and of online evaluation are alike."""

    calls: Table
    jobs: Table


JUDGE_LEDGER: Final = LedgerTables(JUDGE_CALLS, JUDGE_JOBS)


class LeaseLost(Exception):
    """The job is not this worker's any more: it ended, was cancelled, or another server has taken it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedJob:
    """A job, and the lease under which a worker works on it."""

    job_id: str
    project_id: str
    tenant_id: str | None
    lease: str
    tables: LedgerTables = JUDGE_LEDGER

    def sums(self, project_id: str, day: str) -> tuple[Sum, ...]:
        """Return the sums in which a call of a day counts."""
        return sums_of(self.job_id, project_id, day)


def check_lease(connection: Connection, job: LeasedJob) -> None:
    """Make sure that a job is a worker's own until the end of the transaction.

    Raises:
        LeaseLost: It is not.
    """
    values = {"of_job": driver_id(job.job_id, connection), "of_lease": job.lease}
    if _check_lease(job.tables.jobs).first(connection, values) is None:
        raise LeaseLost(f"Job {job.job_id} is not this server's any more.")


def release_lost(connection: Connection, job_id: str, lease: str | None) -> int:
    """Settle the calls of a judge job that no worker waits for any more; return how many there were."""
    return settle_lost(connection, JUDGE_CALLS, job_id, lease, partial(sums_of, job_id))


def settle_lost(
    connection: Connection,
    calls: Table,
    job_id: str,
    lease: str | None,
    sums_of_call: Callable[[str, str], tuple[Sum, ...]],
) -> int:
    """Settle the calls of a job that no worker waits for any more; return how many there were.

    They were being made when their server was killed or frozen. Nobody knows whether they were answered, and
    their provider may bill them, so each counts as spent as much as was reserved for it.

    Args:
        connection: Of the transaction that gives the job to another worker, or to none: it holds the row of
            the job, so that the former worker stores nothing any more.
        calls: The table of the calls.
        job_id: The job.
        lease: That of the worker which has it now, whose own calls go on; None for none.
        sums_of_call: Returns for a project and a day the sums in which a call counts.
    """
    column = calls.c
    is_lost = [column.job_id == job_id, column.status == CallStatus.RESERVED]
    if lease is not None:
        is_lost.append(column.lease != lease)
    change = (
        update(calls)
        .where(*is_lost)
        .values(status=CallStatus.LOST, answered_at=now())
        .returning(column.project_id, column.created_at, column.calls, column.tokens, column.nano_usd)
    )
    lost = connection.execute(change).all()
    if lost:
        of = {call: sums_of_call(call.project_id, day_of(call.created_at)) for call in lost}
        locked = LockedSums.lock(connection, [each for sums in of.values() for each in sums])
        for call in lost:
            amount = Amount(call.calls, call.tokens, call.nano_usd or 0)
            unpriced = int(call.nano_usd is None)
            locked.settle(of[call], amount, amount, unpriced=unpriced, lost=1)
        locked.store(connection)
    return len(lost)


def lock_jobs(connection: Connection, *chosen: ColumnElement[bool]) -> list[str]:
    """Lock jobs until the transaction ends, and return their ids: no call of theirs is begun meanwhile.

    Whoever removes jobs locks them before `release_lost`; a call that was begun after it would stay reserved
    in the sums of its day.
    """
    query = select(JUDGE_JOBS.c.id).where(*chosen).order_by(JUDGE_JOBS.c.id).with_for_update()
    return [str(job_id) for job_id in connection.execute(query).scalars()]


def give_up_calls(connection: Connection, job: LeasedJob) -> int:
    """Settle the calls that are still being made when a worker ends with a job, as `release_lost` does.

    Raises:
        LeaseLost: The job is not this worker's any more.
    """
    check_lease(connection, job)
    return settle_lost(connection, job.tables.calls, job.job_id, None, job.sums)


def take_over(connection: Connection, job: LeasedJob) -> int:
    """Settle the calls of earlier workers on a job; return how many there were.

    Raises:
        LeaseLost: The job is not this worker's any more.
    """
    check_lease(connection, job)
    return settle_lost(connection, job.tables.calls, job.job_id, job.lease, job.sums)


@cache
def _check_lease(jobs: Table) -> DriverStatement:
    return DriverStatement(
        lambda _: (
            select(literal_column("1"))
            .select_from(jobs)
            .where(
                jobs.c.id == bindparam("of_job", type_=Id()),
                jobs.c.lease == bindparam("of_lease", type_=Text()),
                # One that is paused stores what it is still answered.
                jobs.c.status.in_([literal_column("'CLAIMED'"), literal_column("'PAUSED'")]),
            )
            # Whoever takes the job away waits until this transaction has ended, or this one sees that it is
            # gone.
            .with_for_update(read=True)
        )
    )
