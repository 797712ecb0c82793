"""Batches of jobs that a server scores under one lease; their calls are in the ledger.

The jobs are with the traces, which may be in another database, so each of the two transactions can be the
last one of a server: a batch without jobs ends by itself, and the jobs of a batch are found by whoever takes
it over.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    not_,
    or_,
    select,
    true,
    update,
)

from dokimos.server._db.clock import DAY, SECOND, now
from dokimos.server._db.ids import new_id
from dokimos.server._db.tables import PROJECTS
from dokimos.server._db.trace_rule_tables import TRACE_EVAL_BATCHES, TRACE_EVAL_CALLS, TRACE_EVAL_RULES
from dokimos.server._services.judging.judge_budgets import Sum, sums_of_rule
from dokimos.server._services.judging.judge_leases import LeasedJob, LeaseLost, LedgerTables, settle_lost

ONLINE_LEDGER: Final = LedgerTables(TRACE_EVAL_CALLS, TRACE_EVAL_BATCHES)
MAX_LOST: Final = 5
"""So many servers may end with a batch without one job that got on; after that its jobs are at fault."""
_SLACK: Final = 60 * SECOND
"""By how much clocks of several servers may differ."""
_BATCH: Final = TRACE_EVAL_BATCHES.c
# As literals, so that the index of batches that have not ended is used.
_IS_ACTIVE: Final = _BATCH.status.in_(bindparam("active", ["PENDING", "CLAIMED"], literal_execute=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedBatch(LeasedJob):
    """A batch, and the lease under which a worker works on it."""

    rule_id: str
    tables: LedgerTables = ONLINE_LEDGER

    def sums(self, project_id: str, day: str) -> tuple[Sum, ...]:
        return sums_of_rule(self.rule_id, project_id, day)


def claim_batch(connection: Connection, seconds: float) -> Row[Any] | None:
    """Take over a batch that was put off and is due, or whose server has ended; None if there is none."""
    moment = now()
    query = _select_due(moment).limit(1).with_for_update(skip_locked=True)
    due = connection.execute(query).first()
    if due is None:
        return None
    values: dict[str, Any] = {
        "status": "CLAIMED",
        "lease": new_id(),
        "leased_at": moment,
        "leased_until": moment + int(seconds * SECOND),
    }
    # A server that ended with the batch has not tried in vain what it was about.
    counter = _BATCH.lost_count if due.lease is not None else _BATCH.attempt_count
    values[counter.name] = counter + 1
    change = update(TRACE_EVAL_BATCHES).where(_BATCH.id == due.id).values(values)
    batch = connection.execute(change.returning(TRACE_EVAL_BATCHES)).one()
    _settle(connection, batch, batch.lease)
    return batch


def open_batch(connection: Connection, rule_id: str, seconds: float) -> Row[Any] | None:
    """Add a batch for jobs of a rule, under a lease; None where the rule is gone or not enabled."""
    query = (
        select(TRACE_EVAL_RULES)
        .join(PROJECTS, PROJECTS.c.id == TRACE_EVAL_RULES.c.project_id)
        .where(
            TRACE_EVAL_RULES.c.id == rule_id,
            TRACE_EVAL_RULES.c.enabled.is_(true()),
            PROJECTS.c.deleted_at.is_(None),
        )
        .with_for_update(of=TRACE_EVAL_RULES, read=True)
    )
    rule = connection.execute(query).first()
    if rule is None:
        return None
    moment = now()
    row = insert(TRACE_EVAL_BATCHES).values(
        id=new_id(),
        rule_id=rule.id,
        project_id=rule.project_id,
        tenant_id=rule.tenant_id,
        status="CLAIMED",
        attempt_count=1,
        lost_count=0,
        created_at=moment,
        scheduled_at=moment,
        next_attempt_at=moment,
        lease=new_id(),
        leased_at=moment,
        leased_until=moment + int(seconds * SECOND),
    )
    return connection.execute(row.returning(TRACE_EVAL_BATCHES)).one()


def renew_batches(connection: Connection, leases: Collection[str], seconds: float) -> None:
    """Say that this server still works on its batches."""
    moment = now()
    change = update(TRACE_EVAL_BATCHES).where(_BATCH.lease.in_(leases))
    connection.execute(change.values(leased_at=moment, leased_until=moment + int(seconds * SECOND)))


def read_orders(connection: Connection, leases: Collection[str]) -> dict[str, bool]:
    """Return for the leases of batches that are still this server's whether their rules are enabled."""
    query = (
        select(_BATCH.lease, TRACE_EVAL_RULES.c.enabled)
        .join(TRACE_EVAL_RULES, TRACE_EVAL_RULES.c.id == _BATCH.rule_id)
        .where(_BATCH.lease.in_(leases))
    )
    return {row.lease: bool(row.enabled) for row in connection.execute(query)}


def put_off_batch(
    connection: Connection,
    batch_id: str,
    lease: str,
    seconds: float,
    *,
    is_attempt: bool = True,
    rule: Row[Any] | None = None,
) -> None:
    """Leave the rest of a batch to a later attempt.

    Args:
        connection: In a transaction.
        batch_id: Of the batch.
        lease: Under which this server has it.
        seconds: Until the attempt.
        is_attempt: Whether this was one.
        rule: By which it was scored: if that was changed meanwhile, the attempt is due at once.

    Raises:
        LeaseLost: It is not this server's any more.
    """
    # Before the batch, as whoever changes the rule: `make_due` finds the batch, or this finds the change.
    if rule is not None and _was_changed(connection, rule):
        seconds = 0.0
    batch = _lock(connection, batch_id, lease)
    moment = now()
    values = {
        "status": "PENDING",
        "lease": None,
        "scheduled_at": moment,
        "next_attempt_at": moment + int(seconds * SECOND),
        "attempt_count": batch.attempt_count if is_attempt else max(0, batch.attempt_count - 1),
    }
    connection.execute(update(TRACE_EVAL_BATCHES).where(_BATCH.id == batch_id).values(values))
    _settle(connection, batch, None)


def _was_changed(connection: Connection, rule: Row[Any]) -> bool:
    query = select(TRACE_EVAL_RULES.c.updated_at).where(TRACE_EVAL_RULES.c.id == rule.id)
    updated_at = connection.execute(query.with_for_update(read=True)).scalar()
    return updated_at is not None and updated_at != rule.updated_at


def make_due(connection: Connection, rule_id: str) -> None:
    """Have the batches of a rule that were put off tried at once: what they waited for may have changed."""
    is_waiting = (_BATCH.rule_id == rule_id, _BATCH.status == "PENDING")
    moment = now()
    change = update(TRACE_EVAL_BATCHES).where(*is_waiting)
    connection.execute(change.values(scheduled_at=moment, next_attempt_at=moment))


def forget_losses(connection: Connection, batch_id: str, lease: str) -> None:
    """Note that a batch gets on, whatever ended the servers that had it before."""
    is_own = (_BATCH.id == batch_id, _BATCH.lease == lease)
    connection.execute(update(TRACE_EVAL_BATCHES).where(*is_own).values(lost_count=0))


def end_batch(connection: Connection, batch_id: str, lease: str) -> None:
    """End a batch whose jobs have ended, or are in it no more.

    Raises:
        LeaseLost: It is not this server's any more.
    """
    batch = _lock(connection, batch_id, lease)
    values = {"status": "SUCCEEDED", "lease": None, "completed_at": now()}
    connection.execute(update(TRACE_EVAL_BATCHES).where(_BATCH.id == batch_id).values(values))
    _settle(connection, batch, None)


def remove_old_batches(connection: Connection, days: float, most: int) -> int:
    """Remove some batches that ended so many days ago, with their calls; return how many.

    Those that have waited for as long stay, without the replies of their models: it may be that their rule is
    never enabled again, and that the traces which the replies are about are gone.

    What they cost stays in the sums of their days.
    """
    if days < 0:
        return 0
    before = now() - int(days * DAY)
    _remove_waiting_calls(connection, before, most)
    chosen = select(_BATCH.id).where(_BATCH.completed_at < before).limit(most)
    return connection.execute(delete(TRACE_EVAL_BATCHES).where(_BATCH.id.in_(chosen))).rowcount


def _remove_waiting_calls(connection: Connection, before: int, most: int) -> None:
    """Remove the calls of some batches that were put off before a time; a later attempt makes them again."""
    call = TRACE_EVAL_CALLS.c
    is_waiting = (_IS_ACTIVE, _BATCH.status == "PENDING", _BATCH.scheduled_at < before)
    has_calls = exists().where(call.job_id == _BATCH.id)
    # Locked, so that no server takes one over meanwhile and counts on its replies.
    chosen = select(_BATCH.id).where(*is_waiting, has_calls).limit(most).with_for_update(skip_locked=True)
    ids = connection.execute(chosen).scalars().all()
    if ids:
        connection.execute(delete(TRACE_EVAL_CALLS).where(call.job_id.in_(ids)))


def describe_lease(batch: Row[Any]) -> LeasedBatch:
    """Return whose ledger has the calls of a batch."""
    return LeasedBatch(
        job_id=batch.id,
        project_id=batch.project_id,
        tenant_id=batch.tenant_id,
        lease=batch.lease,
        rule_id=batch.rule_id,
    )


def _lock(connection: Connection, batch_id: str, lease: str) -> Row[Any]:
    query = select(TRACE_EVAL_BATCHES).where(_BATCH.id == batch_id, _BATCH.lease == lease)
    batch = connection.execute(query.with_for_update()).first()
    if batch is None:
        raise LeaseLost(f"Batch {batch_id} of trace eval jobs is not this server's any more.")
    return batch


def _settle(connection: Connection, batch: Row[Any], lease: str | None) -> None:
    settle_lost(connection, TRACE_EVAL_CALLS, batch.id, lease, partial(sums_of_rule, batch.rule_id))


def _select_due(moment: int) -> Any:
    is_leased: ColumnElement[bool] = and_(
        _BATCH.lease.is_not(None), _BATCH.leased_until > moment, _BATCH.leased_at <= moment + _SLACK
    )
    is_due = or_(_BATCH.next_attempt_at <= moment, _BATCH.scheduled_at > moment + _SLACK)
    # What was put off waits until its rule is enabled. What a server ended with is taken over in any case:
    # the calls that it made are settled then.
    is_enabled = exists().where(
        TRACE_EVAL_RULES.c.id == _BATCH.rule_id, TRACE_EVAL_RULES.c.enabled.is_(true())
    )
    is_open = or_(and_(_BATCH.status == "PENDING", is_due, is_enabled), _BATCH.status == "CLAIMED")
    return (
        select(_BATCH.id, _BATCH.lease)
        .where(_IS_ACTIVE, is_open, not_(is_leased))
        .order_by(_BATCH.next_attempt_at, _BATCH.id)
    )
