"""The rows of calls to models: reserved before a call is made, settled with its reply, in groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    Text,
    and_,
    bindparam,
    case,
    exists,
    literal_column,
    select,
    update,
)

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.columns import LONG, Id
from dokimos.server._db.driver_statements import DriverStatement, driver_id, insert_rows
from dokimos.server._db.ids import new_id
from dokimos.server._services.judging.judge_budgets import NOTHING, Limits, LockedSums, Sum, day_of
from dokimos.server._services.judging.judge_calls import CallStatus, EndedCall, Group, NewCall
from dokimos.server._services.judging.judge_leases import LeasedJob, check_lease


def store_group(
    connection: Connection, job: LeasedJob, limits: Limits, group: Group, *, is_repeated: bool
) -> None:
    """Store what is over, and reserve what is new as far as it fits; `NewCall.exceeded` says what did not.

    Args:
        is_repeated: Whether an earlier attempt to store the group may have succeeded.

    Raises:
        LeaseLost: The job is not this worker's any more; nothing is stored.
    """
    check_lease(connection, job)
    ended, new = group.ended, group.new
    if is_repeated:
        ended, new = _without_stored(connection, job.tables.calls, ended, new)
    _end_calls(connection, job.tables.calls, ended)
    _mark_unusable(connection, job, group.rejected)
    moment = now()
    today = job.sums(job.project_id, day_of(moment)) if new else ()
    sums = {each: each for call in ended for each in _sums(job, call)}
    locked = LockedSums.lock(connection, [*sums, *today])
    for call in ended:
        locked.settle(
            _sums(job, call),
            call.call.amount,
            call.spent,
            unpriced=int(call.spent.calls > 0 and not call.is_priced),
            lost=int(call.status is CallStatus.LOST),
        )
    admitted = []
    for one in new:
        if one.is_assumed:
            one.amount = locked.cut(today, limits, one.amount)
        one.exceeded = locked.find_exceeded(today, limits, one.amount)
        if one.exceeded is None:
            one.created_at = moment
            locked.reserve(today, one.amount)
            admitted.append(one)
    _insert_calls(connection, job, admitted)
    _insert_replies(connection, job, group.puts, moment)
    locked.store(connection)


def _sums(job: LeasedJob, ended: EndedCall) -> tuple[Sum, ...]:
    return job.sums(job.project_id, day_of(ended.call.created_at))


def _without_stored(
    connection: Connection, calls: Table, ended: Sequence[EndedCall], new: Sequence[NewCall]
) -> tuple[list[EndedCall], list[NewCall]]:
    """Return what an earlier attempt, of which nobody knows how it ended, has not stored."""
    ids = [*(each.call.call_id for each in ended), *(one.call_id for one in new)]
    stored = _statuses(connection, calls, ids)
    for one in new:
        if one.call_id in stored:
            one.exceeded = None
            one.created_at = stored[one.call_id][1]
    return (
        [each for each in ended if stored.get(each.call.call_id, ("",))[0] == CallStatus.RESERVED],
        [one for one in new if one.call_id not in stored],
    )


def _statuses(connection: Connection, calls: Table, call_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
    columns = (calls.c.id, calls.c.status, calls.c.created_at)
    return {
        row.id: (row.status, row.created_at)
        for batch in in_batches(call_ids)
        for row in connection.execute(select(*columns).where(calls.c.id.in_(batch)))
    }


def _end_calls(connection: Connection, calls: Table, ended: Iterable[EndedCall]) -> None:
    rows, unmade = [], []
    moment = now()
    for each in ended:
        call_id = driver_id(each.call.call_id, connection)
        if each.status is None:
            unmade.append({"of_call": call_id})
            continue
        rows.append(
            {
                "of_call": call_id,
                "new_status": each.status.value,
                "new_tokens": each.spent.tokens,
                "new_nano_usd": each.spent.nano_usd if each.is_priced else None,
                "new_reply": each.reply,
                "new_problem": each.problem,
                "moment": moment,
            }
        )
    if rows:
        _end_call(calls).execute_many(connection, rows)
    if unmade:
        _remove_call(calls).execute_many(connection, unmade)


def _mark_unusable(connection: Connection, job: LeasedJob, keys: Collection[str]) -> None:
    calls = job.tables.calls
    for batch in in_batches(sorted(keys)):
        change = update(calls).where(
            calls.c.job_id == job.job_id, calls.c.key.in_(batch), calls.c.status == CallStatus.ANSWERED
        )
        connection.execute(change.values(status=CallStatus.UNUSABLE))


def _insert_calls(connection: Connection, job: LeasedJob, calls: Iterable[NewCall]) -> None:
    job_id, project_id = driver_id(job.job_id, connection), driver_id(job.project_id, connection)
    rows = [
        (
            driver_id(call.call_id, connection),
            job_id,
            project_id,
            job.tenant_id,
            call.key,
            call.identity,
            CallStatus.RESERVED.value,
            call.amount.calls,
            call.amount.tokens,
            call.amount.nano_usd if call.is_priced else None,
            None,
            None,
            job.lease,
            call.created_at,
        )
        for call in calls
    ]
    insert_rows(connection, job.tables.calls, rows)


def _insert_replies(
    connection: Connection, job: LeasedJob, puts: Iterable[tuple[str, str, str]], moment: int
) -> None:
    """Insert replies that cost nothing of their own, unless the call is answered already."""
    by_key = {key: (identity, reply) for key, identity, reply in puts}
    if not by_key:
        return
    call = job.tables.calls.c
    is_answered = (call.job_id == job.job_id, call.status == CallStatus.ANSWERED)
    known = {
        key
        for batch in in_batches(sorted(by_key))
        for key in connection.execute(select(call.key).where(*is_answered, call.key.in_(batch))).scalars()
    }
    job_id, project_id = driver_id(job.job_id, connection), driver_id(job.project_id, connection)
    rows: list[tuple[object, ...]] = [
        (
            driver_id(new_id(), connection),
            job_id,
            project_id,
            job.tenant_id,
            key,
            identity,
            CallStatus.ANSWERED.value,
            *NOTHING,
            reply,
            None,
            job.lease,
            moment,
            moment,
        )
        for key, (identity, reply) in by_key.items()
        if key not in known
    ]
    insert_rows(connection, job.tables.calls, rows)


_REPLACED: Final[ColumnElement[Any]] = literal_column(f"'{CallStatus.REPLACED}'")


def _is_answered_already(calls: Table) -> ColumnElement[bool]:
    """Whether a call that is answered now was answered already: of equal ones, one may be inside another."""
    call, other = calls.c, calls.alias("other").c
    answered: ColumnElement[Any] = literal_column(f"'{CallStatus.ANSWERED}'")
    return and_(
        bindparam("new_status", type_=Text()) == answered,
        exists(
            select(other.id).where(
                other.job_id == call.job_id, other.key == call.key, other.status == answered
            )
        ),
    )


@cache
def _end_call(calls: Table) -> DriverStatement:
    status = bindparam("new_status", type_=Text())
    return DriverStatement(
        lambda _: (
            update(calls)
            .where(calls.c.id == bindparam("of_call", type_=Id()))
            .values(
                status=case((_is_answered_already(calls), _REPLACED), else_=status),
                tokens=bindparam("new_tokens", type_=LONG),
                nano_usd=bindparam("new_nano_usd", type_=LONG),
                reply=bindparam("new_reply", type_=Text()),
                problem=bindparam("new_problem", type_=Text()),
                answered_at=bindparam("moment", type_=LONG),
            )
        )
    )


@cache
def _remove_call(calls: Table) -> DriverStatement:
    return DriverStatement(lambda _: calls.delete().where(calls.c.id == bindparam("of_call", type_=Id())))
