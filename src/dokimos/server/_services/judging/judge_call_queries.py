"""What is known of the calls of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Row, Table, Text, bindparam, func, literal_column, select, update

from dokimos.server._db.batches import in_batches
from dokimos.server._db.columns import Id
from dokimos.server._db.driver_statements import DriverStatement, driver_id
from dokimos.server._db.judge_call_tables import JUDGE_BUDGETS, JUDGE_CALLS
from dokimos.server._services.judging.judge_budgets import NANO
from dokimos.server._services.judging.judge_calls import CallStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpending:
    """What a job has cost until now."""

    calls: int
    tokens: int
    cost_usd: float | None
    """None where the price of no call is known."""
    unpriced_calls: int
    lost_calls: int
    """Calls of which nobody knows how they ended; what needed them asked again."""


def spending_of(connection: Connection, job_id: str) -> JobSpending:
    """Return what the calls of a job have cost, those that are being made excluded."""
    return spendings_of(connection, [job_id])[job_id]


def spendings_of(connection: Connection, job_ids: Sequence[str]) -> dict[str, JobSpending]:
    """Return by its id what the calls of each job have cost, those that are being made excluded."""
    found = dict.fromkeys(job_ids, _NOTHING)
    for batch in in_batches([f"job:{job_id}" for job_id in job_ids]):
        for row in connection.execute(select(JUDGE_BUDGETS).where(JUDGE_BUDGETS.c.scope.in_(batch))):
            found[row.scope.removeprefix("job:")] = _read_spending(row)
    return found


_NOTHING: Final = JobSpending(calls=0, tokens=0, cost_usd=None, unpriced_calls=0, lost_calls=0)


def _read_spending(row: Row[Any]) -> JobSpending:
    is_unknown = row.unpriced_calls >= row.spent_calls
    return JobSpending(
        calls=row.spent_calls,
        tokens=row.spent_tokens,
        cost_usd=None if is_unknown else row.spent_nano_usd / NANO,
        unpriced_calls=row.unpriced_calls,
        lost_calls=row.lost_calls,
    )


def forget_unusable(connection: Connection, job_id: str) -> int:
    """Let replies that are of no use be asked for again, once each; return how many there were.

    For somebody who has the errors of a job retried. They were paid for, so their rows stay.
    """
    change = update(JUDGE_CALLS).where(_CALL.job_id == job_id, _CALL.status == CallStatus.UNUSABLE)
    return connection.execute(change.values(status=CallStatus.REPLACED)).rowcount


def find_reply(
    connection: Connection, job_id: str, key: str, calls: Table = JUDGE_CALLS
) -> tuple[str, str | None] | None:
    """Return the reply to a call as the table keeps it, and why it is of no use; None where there is none."""
    values = {"of_job": driver_id(job_id, connection), "of_key": key}
    row = _find_reply(calls).first(connection, values)
    return None if row is None or row[0] is None else (row[0], row[1])


def list_keys(
    connection: Connection,
    job_id: str,
    status: CallStatus,
    after: str,
    most: int,
    calls: Table = JUDGE_CALLS,
) -> list[str]:
    """Return keys of a job's calls of a status, in order, behind one of them."""
    call = calls.c
    query = (
        select(call.key)
        .where(call.job_id == job_id, call.status == status, call.key > after)
        .order_by(call.key)
        .limit(most)
    )
    return [key for key in connection.execute(query).scalars() if key is not None]


def largest_by_identity(
    connection: Connection, job_id: str, calls: Table = JUDGE_CALLS
) -> Sequence[tuple[str, int, int, int]]:
    """Return for each model of a job how many calls were answered, and the most that one of them took.

    That is in tokens, and in billionths of a dollar.
    """
    call = calls.c
    query = (
        select(
            call.identity,
            func.sum(call.calls),
            func.max(call.tokens),
            func.max(func.coalesce(call.nano_usd, 0)),
        )
        .where(call.job_id == job_id, call.status.in_(_PAID))
        .group_by(call.identity)
    )
    return [(row[0], int(row[1]), int(row[2]), int(row[3])) for row in connection.execute(query)]


_CALL: Final = JUDGE_CALLS.c
_KNOWN: Final = (CallStatus.ANSWERED, CallStatus.UNUSABLE)
_PAID: Final = (*_KNOWN, CallStatus.REPLACED, CallStatus.EXPIRED)


@cache
def _find_reply(calls: Table) -> DriverStatement:
    call = calls.c
    return DriverStatement(
        lambda _: (
            select(call.reply, call.problem)
            .where(
                call.job_id == bindparam("of_job", type_=Id()),
                call.key == bindparam("of_key", type_=Text()),
                call.status.in_([literal_column(f"'{status}'") for status in _KNOWN]),
            )
            .order_by(call.status, call.id.desc())
        )
    )
