"""Who sends which alert: it is claimed for some time, and what came of it is stored.

A server claims an alert (a lease), sends it outside any transaction, and stores what came of it. Where it is
killed meanwhile, the lease ends and the alert is sent again, under the same id: at least once.

All times are of the wall clock, which may be set. An alert whose wait began in the future is due, and a lease
that did so has ended: a clock that was set back holds nothing up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, not_, or_, select, true, update

from dokimos.server._db.alert_tables import ALERT_DELIVERIES, ALERT_WEBHOOKS
from dokimos.server._db.clock import DAY, MINUTE, SECOND, now
from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.alerts.alert_outbox import DeliveryStatus
from dokimos.server._services.alerts.alert_payload import AlertFormat
from dokimos.server._services.alerts.alert_webhooks import announce_webhook, give_up_waiting
from dokimos.server._services.events import Event, EventKind, announce

LEASE_SECONDS: Final = 30.0
"""Longer than sending takes, and storing what came of it."""
MAX_LOST: Final = 5
MAX_FAILING_DAYS: Final = 5
"""A webhook is disabled that has failed for so many days, and for which so many alerts were given up."""
_SLACK: Final = MINUTE
"""By how much the clocks of several servers may differ."""
_LOOKED_AT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An alert that this server sends, and all that it needs for that."""

    delivery_id: str
    webhook_id: str
    project_id: str
    lease: str
    facts: Mapping[str, Any]
    is_test: bool
    failures: int
    is_failing: bool
    """Whether the last attempt to reach the webhook failed."""
    url: str
    secret: str | None
    """As it is stored."""
    format: AlertFormat
    fields: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What came of an attempt to send an alert."""

    error: str | None = None
    """Why it failed, without a secret or the path of the address; None where it arrived."""
    status_code: int | None = None
    retry_after: float | None = None
    """Seconds that the receiver asks to wait."""
    is_gone: bool = False
    """Whether the receiver wants nothing more."""


class AlertSender(Protocol):
    """Sends alerts."""

    async def send_now(self, queue: Callable[[Connection], Claim]) -> str:
        """Store something, send it, and return its id.

        Args:
            queue: Stores and claims it, in a transaction.

        Raises:
            ServiceError: What `queue` raises.
        """
        ...


def has_due_alerts(connection: Connection) -> bool:
    """Say whether there is something to send now."""
    return bool(_find_first_of_each(connection, 1))


def claim_alerts(connection: Connection, lease: str, *, most: int, most_failing: int) -> list[Claim]:
    """Take alerts that are due, one of each webhook at most, and of a webhook that nobody sends to.

    Args:
        connection: Of a transaction that writes.
        lease: What the sender calls itself.
        most: How many at most.
        most_failing: How many of these may be for webhooks that failed last time: those that never answer do
            not hold up the others.
    """
    rows = _find_first_of_each(connection, _LOOKED_AT)
    healthy = [row.id for row in rows if row.failing_since is None]
    failing = [row.id for row in rows if row.failing_since is not None]
    return _take(connection, [*healthy, *failing[:most_failing]][:most], lease)


def claim_delivery(connection: Connection, delivery_id: str, lease: str) -> Claim | None:
    """Take one delivery, unless somebody sends it or something else to its webhook."""
    webhook = select(ALERT_DELIVERIES.c.webhook_id).where(ALERT_DELIVERIES.c.id == delivery_id)
    if connection.execute(
        _select_busy(now()).where(_DELIVERY.webhook_id == webhook.scalar_subquery())
    ).first():
        return None
    return next(iter(_take(connection, [delivery_id], lease)), None)


def store_attempt(connection: Connection, claim: Claim, attempt: Attempt, wait: float | None) -> None:
    """Store what came of an attempt.

    Args:
        connection: Of a transaction that writes.
        claim: What was sent.
        attempt: What came of it.
        wait: Seconds until the next attempt, None where there is none.
    """
    moment = now()
    change = update(ALERT_DELIVERIES).where(
        _DELIVERY.id == claim.delivery_id, _DELIVERY.status == DeliveryStatus.PENDING
    )
    values: dict[str, Any] = {
        "attempts": _DELIVERY.attempts + 1,
        "last_status_code": attempt.status_code,
        "last_error": attempt.error,
        "lease": None,
        "scheduled_at": moment,
    }
    if attempt.error is None:
        values |= {"status": DeliveryStatus.DELIVERED, "finished_at": moment}
    else:
        # That it arrived counts whoever says so; a failure only while nobody else sends it.
        change = change.where(_DELIVERY.lease == claim.lease)
        values["failures"] = _DELIVERY.failures + 1
        if wait is None:
            values |= {"status": DeliveryStatus.DEAD, "finished_at": moment}
        else:
            values["next_attempt_at"] = moment + int(wait * SECOND)
    row = connection.execute(change.values(values).returning(*_SHOWN)).first()
    if row is None:
        return
    _announce(connection, row)
    if attempt.error is None:
        _note_success(connection, claim.webhook_id)
    elif attempt.is_gone:
        _disable(connection, claim.webhook_id, "The receiver answered that it is gone for good (410).")
    elif not claim.is_test:
        _note_failure(connection, claim.webhook_id, lost=wait is None)


def give_back(connection: Connection, lease: str) -> None:
    """Let others send at once what this server has taken and not sent."""
    is_taken = (_DELIVERY.status == DeliveryStatus.PENDING, _DELIVERY.lease == lease)
    connection.execute(update(ALERT_DELIVERIES).where(*is_taken).values(lease=None))


_DELIVERY: Final = ALERT_DELIVERIES.c
_SHOWN: Final = (
    _DELIVERY.id,
    _DELIVERY.webhook_id,
    _DELIVERY.project_id,
    _DELIVERY.tenant_id,
    _DELIVERY.status,
)


def _announce(connection: Connection, row: Row[Any]) -> None:
    data = {"webhookId": row.webhook_id, "deliveryId": row.id, "status": row.status}
    event = Event(
        kind=EventKind.ALERT_UPDATED, tenants=(row.tenant_id,), project_id=row.project_id, data=data
    )
    announce(connection, event)


def _is_leased(moment: int) -> ColumnElement[bool]:
    return and_(
        _DELIVERY.status == DeliveryStatus.PENDING,
        _DELIVERY.lease.is_not(None),
        _DELIVERY.leased_until > moment,
        _DELIVERY.leased_at <= moment + _SLACK,
    )


def _is_due(moment: int) -> ColumnElement[bool]:
    return or_(_DELIVERY.next_attempt_at <= moment, _DELIVERY.scheduled_at > moment + _SLACK)


def _select_busy(moment: int) -> Select[tuple[str]]:
    """The webhooks that somebody sends to."""
    return select(_DELIVERY.webhook_id).where(_is_leased(moment))


def _find_first_of_each(connection: Connection, most: int) -> Sequence[Row[Any]]:
    """The first alert that is due for each webhook, those for webhooks that failed last time at the end."""
    moment = now()
    place = func.row_number().over(
        partition_by=_DELIVERY.webhook_id, order_by=(_DELIVERY.next_attempt_at, _DELIVERY.id)
    )
    due = (
        select(_DELIVERY.id, _DELIVERY.next_attempt_at, ALERT_WEBHOOKS.c.failing_since, place.label("place"))
        .join(ALERT_WEBHOOKS, ALERT_WEBHOOKS.c.id == _DELIVERY.webhook_id)
        .join(PROJECTS, PROJECTS.c.id == _DELIVERY.project_id)
        .where(_DELIVERY.status == DeliveryStatus.PENDING, _is_due(moment))
        .where(_DELIVERY.webhook_id.not_in(_select_busy(moment)))
        .where(ALERT_WEBHOOKS.c.enabled.is_(true()), ALERT_WEBHOOKS.c.deleted_at.is_(None))
        .where(PROJECTS.c.deleted_at.is_(None))
        .subquery()
    )
    query: Select[Any] = (
        select(due.c.id, due.c.failing_since)
        .where(due.c.place == 1)
        .order_by(due.c.failing_since.is_not(None), due.c.next_attempt_at, due.c.id)
        .limit(most)
    )
    return connection.execute(query).all()


def _take(connection: Connection, delivery_ids: Sequence[str], lease: str) -> list[Claim]:
    moment = now()
    is_free = and_(
        _DELIVERY.id.in_(delivery_ids), _DELIVERY.status == DeliveryStatus.PENDING, not_(_is_leased(moment))
    )
    # Rows that another server is taking are left to it; SQLite has one writer.
    free = select(_DELIVERY.id).where(is_free).order_by(_DELIVERY.id).with_for_update(skip_locked=True)
    taken = connection.execute(free).scalars().all()
    if not taken:
        return []
    connection.execute(
        update(ALERT_DELIVERIES)
        .where(_DELIVERY.id.in_(taken))
        .values(lease=lease, leased_at=moment, leased_until=moment + int(LEASE_SECONDS * SECOND))
    )
    names = ("url", "secret", "format", "fields", "failing_since")
    query = (
        select(ALERT_DELIVERIES, *(ALERT_WEBHOOKS.c[name] for name in names))
        .join(ALERT_WEBHOOKS, ALERT_WEBHOOKS.c.id == _DELIVERY.webhook_id)
        .where(_DELIVERY.id.in_(taken))
    )
    return [
        Claim(
            delivery_id=row.id,
            webhook_id=row.webhook_id,
            project_id=row.project_id,
            lease=lease,
            facts=json.loads(row.payload),
            is_test=row.run_id is None and row.firing_id is None,
            failures=row.failures,
            is_failing=row.failing_since is not None,
            url=row.url,
            secret=row.secret,
            format=AlertFormat(row.format),
            fields=None if row.fields is None else json.loads(row.fields),
        )
        for row in connection.execute(query)
    ]


def _note_success(connection: Connection, webhook_id: str) -> None:
    has_failed = or_(ALERT_WEBHOOKS.c.failing_since.is_not(None), ALERT_WEBHOOKS.c.lost_in_a_row > 0)
    change = update(ALERT_WEBHOOKS).where(ALERT_WEBHOOKS.c.id == webhook_id, has_failed)
    connection.execute(change.values(failing_since=None, lost_in_a_row=0))


def _note_failure(connection: Connection, webhook_id: str, *, lost: bool) -> None:
    moment = now()
    change = (
        update(ALERT_WEBHOOKS)
        .where(ALERT_WEBHOOKS.c.id == webhook_id)
        .values(
            failing_since=func.coalesce(ALERT_WEBHOOKS.c.failing_since, moment),
            lost_in_a_row=ALERT_WEBHOOKS.c.lost_in_a_row + int(lost),
        )
        .returning(ALERT_WEBHOOKS.c.failing_since, ALERT_WEBHOOKS.c.lost_in_a_row)
    )
    webhook = connection.execute(change).one()
    days = (moment - webhook.failing_since) / DAY
    if lost and webhook.lost_in_a_row >= MAX_LOST and days >= MAX_FAILING_DAYS:
        _disable(
            connection,
            webhook_id,
            f"Nothing has arrived for {days:.0f} days, and {webhook.lost_in_a_row} alerts were given up.",
        )


def _disable(connection: Connection, webhook_id: str, reason: str) -> None:
    change = update(ALERT_WEBHOOKS).where(ALERT_WEBHOOKS.c.id == webhook_id)
    values = {"enabled": False, "disabled_reason": reason, "updated_at": now()}
    webhook = connection.execute(change.values(values).returning(ALERT_WEBHOOKS)).one()
    give_up_waiting(connection, webhook_id, f"The webhook was disabled: {reason}")
    announce_webhook(connection, EventKind.WEBHOOK_CHANGED, webhook)
