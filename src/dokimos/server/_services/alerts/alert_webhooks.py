"""Webhooks of a project: registered, listed, changed, removed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, func, insert, select, true, update

from dokimos._http.address_policy import AddressPolicy
from dokimos.server._db.alert_tables import ALERT_DELIVERIES, ALERT_WEBHOOKS
from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.key_tables import API_KEYS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.alerts.alert_outbox import DeliveryStatus
from dokimos.server._services.alerts.alert_payload import AlertFormat
from dokimos.server._services.alerts.alert_signature import find_secret_fault
from dokimos.server._services.encryption.secret_vault import SecretVault
from dokimos.server._services.errors import ConflictError, InvalidRequestError, NotFoundError
from dokimos.server._services.events import Event, EventKind, announce
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.projects import find_project_by_id
from dokimos.server._services.row_versions import Expected, check_version, version_of_webhook
from dokimos.server._settings import ServerSettings

MAX_WEBHOOKS: Final = 20
"""Of one project, for each tenant."""
DISABLED: Final = "The webhook is disabled."


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChange:
    """What a caller says about a webhook."""

    url: str
    secret: str | None = None
    """To sign with; None or blank keeps that of a webhook that exists."""
    enabled: bool = True
    format: AlertFormat | None = None
    """None keeps that of a webhook that exists."""
    fields: Mapping[str, str] | None = None
    """For the generic form, the fact that each key of the body holds."""


def outgoing_policy(connection: Connection, settings: ServerSettings) -> AddressPolicy:
    """Return where the server may send requests at the moment.

    On a server that only this machine reaches and that has no keys, whoever registers an address can call it
    anyway: there, private addresses need not be allowed.
    """
    if settings.is_loopback and settings.api_key is None and not settings.has_sign_in:
        has_keys = select(API_KEYS.c.id).where(API_KEYS.c.enabled.is_(true())).limit(1)
        if connection.execute(has_keys).first() is None:
            return AddressPolicy(allows_all=True)
    return settings.address_policy


def create_webhook(
    connection: Connection,
    principal: Principal,
    project_id: str,
    change: WebhookChange,
    *,
    settings: ServerSettings,
    vault: SecretVault,
) -> Row[Any]:
    """Register a webhook.

    Raises:
        NotFoundError: There is no such project that the caller sees.
        ForbiddenError: The project is shared, and closed to this caller.
        InvalidRequestError: The address, the secret or the form cannot be used.
        ConflictError: The project has as many webhooks as it may have.
    """
    project = find_project_by_id(connection, principal, project_id)
    principal.check_may_write(project.tenant_id, f"The project '{project.name}'", project=project_id)
    _check(change, outgoing_policy(connection, settings))
    form = change.format or AlertFormat.DOKIMOS
    fields = check_fields(form, change.fields)
    # What is made below a tenant's project is the tenant's, whoever makes it.
    tenant = principal.tenant if principal.is_restricted else project.tenant_id
    _check_count(connection, project_id, tenant)
    webhook_id = new_id()
    connection.execute(
        insert(ALERT_WEBHOOKS).values(
            id=webhook_id,
            project_id=project_id,
            tenant_id=tenant,
            url=change.url,
            secret=_seal(change, vault, webhook_id),
            enabled=change.enabled,
            format=form,
            fields=fields,
            created_by=principal.id,
            created_at=now(),
        )
    )
    webhook = find_webhook(connection, principal, project_id, webhook_id)
    announce_webhook(connection, EventKind.WEBHOOK_CHANGED, webhook)
    return webhook


WEBHOOK_ORDERS: Final = SortKeys(
    {"createdAt": ALERT_WEBHOOKS.c.created_at}, ties=(ALERT_WEBHOOKS.c.id,), default="createdAt"
)


def list_webhooks(
    connection: Connection, principal: Principal, project_id: str, page: ListPage
) -> Sequence[Row[Any]]:
    """Return a page of the webhooks of a project.

    Raises:
        NotFoundError: There is no such project that the caller sees.
    """
    find_project_by_id(connection, principal, project_id)
    visible = select(ALERT_WEBHOOKS).where(
        ALERT_WEBHOOKS.c.project_id == project_id, principal.sees(ALERT_WEBHOOKS)
    )
    return read_page(connection, visible, page, ALERT_WEBHOOKS.c.id)


def find_webhook(
    connection: Connection,
    principal: Principal,
    project_id: str,
    webhook_id: str,
    *,
    for_update: bool = False,
) -> Row[Any]:
    """Return a webhook of a project; with `for_update`, locked until the transaction ends.

    Raises:
        NotFoundError: There is no such project, or no such webhook of it, that the caller sees.
    """
    find_project_by_id(connection, principal, project_id)
    query = select(ALERT_WEBHOOKS).where(
        ALERT_WEBHOOKS.c.id == webhook_id,
        ALERT_WEBHOOKS.c.project_id == project_id,
        principal.sees(ALERT_WEBHOOKS),
    )
    row = connection.execute(query.with_for_update() if for_update else query).first()
    if row is None:
        raise NotFoundError(f"Webhook not found: {webhook_id}")
    return row


def change_webhook(
    connection: Connection,
    principal: Principal,
    project_id: str,
    webhook_id: str,
    change: WebhookChange,
    *,
    settings: ServerSettings,
    vault: SecretVault,
    expected: Expected = None,
) -> Row[Any]:
    """Change a webhook. What waits for one that is disabled is given up; it stays in the log.

    Raises:
        NotFoundError: There is no such webhook that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
        InvalidRequestError: The address, the secret or the form cannot be used.
        OutdatedError: It was changed since the version that the change is for.
    """
    webhook = find_webhook(connection, principal, project_id, webhook_id, for_update=True)
    principal.check_may_write(webhook.tenant_id, "The webhook", project=project_id)
    check_version(expected, version_of_webhook(webhook), "The webhook")
    _check(change, outgoing_policy(connection, settings))
    form = change.format or AlertFormat(webhook.format)
    fields = change.fields
    if fields is None and webhook.fields is not None and form is AlertFormat.GENERIC:
        fields = json.loads(webhook.fields)
    values = {
        "url": change.url,
        "enabled": change.enabled,
        "format": form,
        "fields": check_fields(form, fields),
        "disabled_reason": None,
        "failing_since": None,
        "lost_in_a_row": 0,
        "updated_at": now(),
    }
    secret = _seal(change, vault, webhook_id)
    if secret is not None:
        values["secret"] = secret
    connection.execute(update(ALERT_WEBHOOKS).where(ALERT_WEBHOOKS.c.id == webhook_id).values(values))
    if not change.enabled:
        give_up_waiting(connection, webhook_id, DISABLED)
    changed = find_webhook(connection, principal, project_id, webhook_id)
    announce_webhook(connection, EventKind.WEBHOOK_CHANGED, changed)
    return changed


def delete_webhook(connection: Connection, principal: Principal, project_id: str, webhook_id: str) -> None:
    """Delete a webhook with its deliveries; what is being sent to it at the moment may still arrive.

    Raises:
        NotFoundError: There is no such webhook that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
    """
    webhook = find_webhook(connection, principal, project_id, webhook_id)
    principal.check_may_write(webhook.tenant_id, "The webhook", project=project_id)
    change = update(ALERT_WEBHOOKS).where(ALERT_WEBHOOKS.c.id == webhook_id)
    connection.execute(change.values(deleted_at=now(), secret=None))
    announce_webhook(connection, EventKind.WEBHOOK_DELETED, webhook)


def give_up_waiting(connection: Connection, webhook_id: str, reason: str) -> None:
    """Give up all that waits for a webhook; each can be sent again from the log."""
    connection.execute(
        update(ALERT_DELIVERIES)
        .where(
            ALERT_DELIVERIES.c.webhook_id == webhook_id, ALERT_DELIVERIES.c.status == DeliveryStatus.PENDING
        )
        .values(status=DeliveryStatus.DEAD, last_error=reason, finished_at=now(), lease=None)
    )


def announce_webhook(connection: Connection, kind: EventKind, webhook: Row[Any]) -> None:
    """Publish an event about a webhook after the commit."""
    announce(
        connection,
        Event(
            kind=kind,
            tenants=(webhook.tenant_id,),
            project_id=webhook.project_id,
            data={"webhookId": webhook.id},
        ),
    )


def check_fields(form: AlertFormat, fields: Mapping[str, str] | None) -> str | None:
    """Return the fields of the generic form as JSON; other forms have none.

    Raises:
        InvalidRequestError: The form has none and needs some, or the other way round.
    """
    if form is not AlertFormat.GENERIC:
        if fields:
            raise InvalidRequestError("are only for the format 'generic'", field="fields")
        return None
    if not fields:
        raise InvalidRequestError(
            'are needed for the format \'generic\', such as {"text": "message"}', field="fields"
        )
    return json.dumps(dict(fields))


def _check(change: WebhookChange, policy: AddressPolicy) -> None:
    if not change.url.strip():
        raise InvalidRequestError("must not be blank", field="url")
    fault = policy.find_fault(change.url)
    if fault is not None:
        raise InvalidRequestError(fault, field="url")
    secret_fault = None if change.secret is None else find_secret_fault(change.secret)
    if secret_fault is not None:
        raise InvalidRequestError(secret_fault, field="secret")


def _seal(change: WebhookChange, vault: SecretVault, webhook_id: str) -> str | None:
    """The new secret as it is stored; None where there is none, or a blank one."""
    return vault.seal(change.secret, webhook_id) if change.secret and change.secret.strip() else None


def _check_count(connection: Connection, project_id: str, tenant: str | None) -> None:
    own = ALERT_WEBHOOKS.c.tenant_id.is_(None) if tenant is None else ALERT_WEBHOOKS.c.tenant_id == tenant
    is_there = and_(ALERT_WEBHOOKS.c.project_id == project_id, own, ALERT_WEBHOOKS.c.deleted_at.is_(None))
    count = connection.execute(select(func.count()).select_from(ALERT_WEBHOOKS).where(is_there)).scalar_one()
    if count >= MAX_WEBHOOKS:
        raise ConflictError(f"The project has {MAX_WEBHOOKS} webhooks, which is the limit; delete one first")
