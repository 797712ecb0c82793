"""What judging a project has cost by day and by job, beside the budgets that hold it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, case, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.judge_call_tables import JUDGE_BUDGETS, JUDGE_CALLS
from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._db.tables import RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.judging.judge_budgets import NOTHING, Amount, day_of
from dokimos.server._services.judging.judge_call_lists import are_visible, sums_of_calls
from dokimos.server._services.judging.judge_calls import CallStatus
from dokimos.server._services.projects.projects import find_project

MAX_DAYS: Final = 400
"""As many as the sums of days are kept."""
_LATEST_JOBS: Final = 20
_SUM: Final = JUDGE_BUDGETS.c
_JOB: Final = JUDGE_JOBS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What calls have cost, and what is reserved for those that are being made."""

    spent: Amount = NOTHING
    reserved: Amount = NOTHING
    unpriced_calls: int = 0
    lost_calls: int = 0


class SpendingDay(NamedTuple):
    """A day, in UTC, on which calls were made."""

    day: str
    spent: Spent


class SpendingJob(NamedTuple):
    """A job that may call a model."""

    job: Row[Any]
    spent: Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSpending:
    """What judging a project has cost."""

    today: str
    is_complete: bool
    """Whether the days hold all that counts in the budget of the project: for a caller who does not see all
    of a project, they hold the judge jobs that it sees."""
    days: Sequence[SpendingDay]
    jobs: Sequence[SpendingJob]
    """The latest ones, the newest first."""


def read_spending(connection: Connection, principal: Principal, name: str, days: int) -> ProjectSpending:
    """Return what the last days of a project have cost, today included, and its latest jobs.

    Raises:
        NotFoundError: There is no such project that the caller sees.
    """
    project = find_project(connection, principal, name)
    is_own = project.tenant_id is not None and project.tenant_id == principal.tenant
    is_complete = not principal.is_restricted or is_own
    moment = now()
    first = moment // DAY - days + 1
    read = _read_days if is_complete else _sum_visible_days
    return ProjectSpending(
        today=day_of(moment),
        is_complete=is_complete,
        days=read(connection, principal, project.id, range(first, moment // DAY + 1)),
        jobs=_read_jobs(connection, principal, project.id),
    )


def _read_days(
    connection: Connection, principal: Principal, project_id: str, days: range
) -> list[SpendingDay]:
    sums = _read_sums(connection, (f"project:{project_id}:{day_of(day * DAY)}" for day in days))
    return [SpendingDay(scope.rpartition(":")[2], spent) for scope, spent in sorted(sums.items())]


def _sum_visible_days(
    connection: Connection, principal: Principal, project_id: str, days: range
) -> list[SpendingDay]:
    call = JUDGE_CALLS.c
    day = (call.created_at // DAY).label("day")
    kind = case(
        (call.status == CallStatus.RESERVED, "reserved"),
        (call.status == CallStatus.LOST, "lost"),
        else_="spent",
    ).label("kind")
    query = (
        select(day, kind, *sums_of_calls())
        .where(*are_visible(principal, project_id), call.created_at >= days.start * DAY)
        .group_by(day, kind)
        .order_by(day)
    )
    found: dict[int, list[Row[Any]]] = {}
    for row in connection.execute(query):
        found.setdefault(int(row.day), []).append(row)
    return [SpendingDay(day_of(day * DAY), _add_up(rows)) for day, rows in found.items()]


def _add_up(rows: Iterable[Row[Any]]) -> Spent:
    spent = reserved = NOTHING
    unpriced = lost = 0
    for row in rows:
        amount = Amount(int(row.calls), int(row.tokens), int(row.nano_usd))
        if row.kind == "reserved":
            reserved = amount
            continue
        spent, unpriced = spent.plus(amount), unpriced + int(row.unpriced)
        lost += int(row.rows) if row.kind == "lost" else 0
    return Spent(spent=spent, reserved=reserved, unpriced_calls=unpriced, lost_calls=lost)


def _read_jobs(connection: Connection, principal: Principal, project_id: str) -> list[SpendingJob]:
    query = (
        select(JUDGE_JOBS)
        .join(RUNS, RUNS.c.id == _JOB.run_id)
        .where(_JOB.project_id == project_id, _JOB.connection_id.is_not(None))
        .where(principal.sees(JUDGE_JOBS), principal.sees(RUNS))
        .order_by(_JOB.id.desc())
        .limit(_LATEST_JOBS)
    )
    jobs = connection.execute(query).all()
    sums = _read_sums(connection, (f"job:{job.id}" for job in jobs))
    return [SpendingJob(job, sums.get(f"job:{job.id}", Spent())) for job in jobs]


def _read_sums(connection: Connection, scopes: Iterable[str]) -> dict[str, Spent]:
    return {
        row.scope: Spent(
            spent=Amount(row.spent_calls, row.spent_tokens, row.spent_nano_usd),
            reserved=Amount(row.reserved_calls, row.reserved_tokens, row.reserved_nano_usd),
            unpriced_calls=row.unpriced_calls,
            lost_calls=row.lost_calls,
        )
        for batch in in_batches(list(scopes))
        for row in connection.execute(select(JUDGE_BUDGETS).where(_SUM.scope.in_(batch)))
    }
