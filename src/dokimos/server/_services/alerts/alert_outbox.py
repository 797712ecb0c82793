"""The outbox of alerts: rows that are stored with what they tell of, such as the verdict on a run.

An alert is stored in the transaction that stores the verdict, so it is neither lost nor sent too early. How
it is sent is in `alert_claims`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, func, select, true

from dokimos.server._db.alert_tables import ALERT_DELIVERIES, ALERT_WEBHOOKS
from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.outbox import post
from dokimos.server._db.tables import PROJECTS, RUNS
from dokimos.server._services.alerts.alert_payload import describe_alert, is_alarming
from dokimos.server._services.projects.project_settings import read_settings
from dokimos.server._services.runs.runs import select_described_runs

MAX_WAITING: Final = 1000
"""Alerts that wait for one webhook; further ones are only in its log."""


class DeliveryStatus(StrEnum):
    """What became of an alert for a webhook."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    DEAD = "DEAD"
    """Given up; it can be sent again."""


@dataclass(frozen=True, slots=True)
class AlertsQueued:
    """That there is something to send; posted with the transaction that stores it."""


def queue_alerts(
    connection: Connection, run: Row[Any], verdict: str, summary: Mapping[str, Any] | None
) -> int:
    """Store what is to be sent about a verdict, in the transaction that stores it; return how much that is.

    A webhook gets one alert of a run, even if that is opened again and fails again. It is told of no run
    that not everyone sees who may change the webhook.

    Args:
        connection: Of the transaction that stores the verdict.
        run: The run.
        verdict: `PASS`, `FAIL` or `NO_BASELINE`.
        summary: The answer of the gate, None where there was nothing to compare with.
    """
    if verdict != "FAIL":
        return 0
    webhooks = _find_webhooks(connection, run)
    if not webhooks:
        return 0
    project = connection.execute(select(PROJECTS).where(PROJECTS.c.id == run.project_id)).one()
    if not is_alarming(read_settings(project).alert_on, verdict, summary):
        return 0
    described = connection.execute(select_described_runs().where(RUNS.c.id == run.id)).one()
    payload = json.dumps(describe_alert(described, summary))
    queued = [queue_delivery(connection, webhook, payload, run.id) for webhook in webhooks]
    return sum(delivery_id is not None for delivery_id in queued)


def queue_firing(connection: Connection, alert: Row[Any], firing_id: str, payload: str) -> int:
    """Store what is to be sent about an alert on traces that fires; return how much that is.

    Which webhooks are told is decided as for runs: by whose the alert is.

    Args:
        connection: Of the transaction that stores that it fires.
        alert: The alert.
        firing_id: The row of what it fired on, of which a webhook gets one alert.
        payload: The facts, as JSON.
    """
    queued = [
        queue_delivery(connection, webhook, payload, None, firing_id=firing_id)
        for webhook in _find_webhooks(connection, alert)
    ]
    return sum(delivery_id is not None for delivery_id in queued)


def queue_delivery(
    connection: Connection,
    webhook: Row[Any],
    payload: str,
    run_id: str | None,
    *,
    firing_id: str | None = None,
) -> str | None:
    """Store what is to be sent to a webhook; return its id, None where the webhook has it already.

    It is an alert about a run, or about a firing of an alert on traces; without both, a test call.
    """
    moment, delivery_id = now(), new_id()
    is_alert = run_id is not None or firing_id is not None
    is_full = is_alert and _count_waiting(connection, webhook.id) >= MAX_WAITING
    is_new = insert_if_absent(
        connection,
        ALERT_DELIVERIES,
        id=delivery_id,
        webhook_id=webhook.id,
        project_id=webhook.project_id,
        tenant_id=webhook.tenant_id,
        run_id=run_id,
        firing_id=firing_id,
        status=DeliveryStatus.DEAD if is_full else DeliveryStatus.PENDING,
        payload=payload,
        last_error=f"{MAX_WAITING:,} alerts waited for the webhook already." if is_full else None,
        created_at=moment,
        scheduled_at=moment,
        next_attempt_at=moment,
        finished_at=moment if is_full else None,
    )
    if not is_new:
        return None
    post(connection, AlertsQueued())
    return delivery_id


def _find_webhooks(connection: Connection, run: Row[Any]) -> Sequence[Row[Any]]:
    """The webhooks that are told of a run, or of anything else with a project and a tenant.

    A shared one hears of shared runs only: everyone who may change its address would hear of the others too.
    """
    may_know = true() if run.tenant_id is None else ALERT_WEBHOOKS.c.tenant_id == run.tenant_id
    query = (
        select(ALERT_WEBHOOKS)
        .where(
            ALERT_WEBHOOKS.c.project_id == run.project_id,
            ALERT_WEBHOOKS.c.enabled.is_(true()),
            ALERT_WEBHOOKS.c.deleted_at.is_(None),
            may_know,
        )
        .order_by(ALERT_WEBHOOKS.c.id)
    )
    return connection.execute(query).all()


def _count_waiting(connection: Connection, webhook_id: str) -> int:
    query = select(func.count()).where(
        ALERT_DELIVERIES.c.webhook_id == webhook_id, ALERT_DELIVERIES.c.status == DeliveryStatus.PENDING
    )
    count: int = connection.execute(query).scalar_one()
    return count
