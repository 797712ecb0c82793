"""The log of a webhook: what was sent to it, what waits, what was given up; and how long that is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, or_, select, update

from dokimos.server._db.alert_tables import ALERT_DELIVERIES, ALERT_WEBHOOKS
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.outbox import post
from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.alerts.alert_outbox import AlertsQueued, DeliveryStatus, queue_delivery
from dokimos.server._services.alerts.alert_payload import describe_test
from dokimos.server._services.alerts.alert_webhooks import find_webhook
from dokimos.server._services.errors import ConflictError, NotFoundError
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.projects import find_project_by_id

PURGE_ROWS: Final = 500
_DELIVERY: Final = ALERT_DELIVERIES.c

DELIVERY_ORDERS: Final = SortKeys(
    {"createdAt": _DELIVERY.created_at}, ties=(_DELIVERY.id,), default="createdAt,desc"
)


def list_deliveries(
    connection: Connection,
    principal: Principal,
    project_id: str,
    webhook_id: str,
    page: ListPage,
    *,
    status: str | None,
) -> Sequence[Row[Any]]:
    """Return a page of what was sent to a webhook.

    Raises:
        NotFoundError: There is no such webhook that the caller sees.
    """
    find_webhook(connection, principal, project_id, webhook_id)
    visible = select(ALERT_DELIVERIES).where(
        _DELIVERY.webhook_id == webhook_id, principal.sees(ALERT_DELIVERIES)
    )
    conditions = [] if status is None else [_DELIVERY.status == status]
    return read_page(connection, visible, page, _DELIVERY.id, *conditions)


def find_delivery(
    connection: Connection, principal: Principal, project_id: str, webhook_id: str, delivery_id: str
) -> Row[Any]:
    """Return a delivery of a webhook.

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    find_webhook(connection, principal, project_id, webhook_id)
    query = select(ALERT_DELIVERIES).where(
        _DELIVERY.id == delivery_id, _DELIVERY.webhook_id == webhook_id, principal.sees(ALERT_DELIVERIES)
    )
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(f"Delivery not found: {delivery_id}")
    return row


def redeliver(
    connection: Connection, principal: Principal, project_id: str, webhook_id: str, delivery_id: str
) -> Row[Any]:
    """Send something once more, as soon as possible and under the same id; return it.

    Raises:
        NotFoundError: There is no such delivery that the caller sees.
        ForbiddenError: The webhook is shared, and closed to this caller.
        ConflictError: The webhook is disabled.
    """
    webhook = find_webhook(connection, principal, project_id, webhook_id, for_update=True)
    principal.check_may_write(webhook.tenant_id, "The webhook", project=project_id)
    find_delivery(connection, principal, project_id, webhook_id, delivery_id)
    if not webhook.enabled:
        raise ConflictError("The webhook is disabled; enable it first")
    moment = now()
    change = update(ALERT_DELIVERIES).where(_DELIVERY.id == delivery_id)
    # A lease stays: what is being sent at this moment is not sent a second time.
    values = {"status": DeliveryStatus.PENDING, "failures": 0, "finished_at": None}
    connection.execute(change.values(**values, scheduled_at=moment, next_attempt_at=moment))
    post(connection, AlertsQueued())
    return find_delivery(connection, principal, project_id, webhook_id, delivery_id)


def queue_test(connection: Connection, principal: Principal, project_id: str, webhook_id: str) -> str:
    """Store a test call of a webhook, also of a disabled one; return its id.

    Raises:
        NotFoundError: There is no such webhook that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
    """
    project = find_project_by_id(connection, principal, project_id)
    webhook = find_webhook(connection, principal, project_id, webhook_id)
    principal.check_may_write(webhook.tenant_id, "The webhook", project=project_id)
    delivery_id = queue_delivery(connection, webhook, json.dumps(describe_test(project.name)), None)
    assert delivery_id is not None, "test calls are never the same"
    return delivery_id


def remove_old_deliveries(connection: Connection, days: float, moment: int) -> int:
    """Do one step of removing what ended more than some days ago, and what is below deleted webhooks.

    Args:
        connection: Of a transaction that writes.
        days: How long the log is kept; below 0 for ever.
        moment: The time at which it is decided, in microseconds.

    Returns:
        How many rows it removed, 0 when nothing is left to remove.
    """
    gone = (
        select(ALERT_WEBHOOKS.c.id)
        .join(PROJECTS, PROJECTS.c.id == ALERT_WEBHOOKS.c.project_id)
        .where(or_(ALERT_WEBHOOKS.c.deleted_at.is_not(None), PROJECTS.c.deleted_at.is_not(None)))
    )
    webhook = connection.execute(gone.limit(1)).scalar()
    if webhook is not None:
        return _delete_some(connection, _DELIVERY.webhook_id == webhook) or _delete_webhook(
            connection, webhook
        )
    if days < 0:
        return 0
    return _delete_some(connection, _DELIVERY.finished_at < moment - int(days * DAY))


def _delete_some(connection: Connection, condition: Any) -> int:
    chosen = select(_DELIVERY.id).where(condition).limit(PURGE_ROWS)
    return connection.execute(delete(ALERT_DELIVERIES).where(_DELIVERY.id.in_(chosen))).rowcount


def _delete_webhook(connection: Connection, webhook_id: str) -> int:
    return connection.execute(delete(ALERT_WEBHOOKS).where(ALERT_WEBHOOKS.c.id == webhook_id)).rowcount
