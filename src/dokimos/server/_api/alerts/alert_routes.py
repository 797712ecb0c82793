"""Routes of webhooks for alerts, and of what was sent to them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response
from sqlalchemy import Connection, Row
from starlette.requests import Request

from dokimos.server._api.alerts.alert_schemas import DeliveryAnswer, Status, WebhookAnswer, WebhookBody
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import Store
from dokimos.server._api.http.preconditions import IfMatch
from dokimos.server._db.clock import format_time
from dokimos.server._db.ids import new_id
from dokimos.server._services.accounts.principal import ANONYMOUS, Principal
from dokimos.server._services.alerts.alert_claims import AlertSender, Claim, claim_delivery
from dokimos.server._services.alerts.alert_deliveries import (
    DELIVERY_ORDERS,
    find_delivery,
    list_deliveries,
    queue_test,
    redeliver,
)
from dokimos.server._services.alerts.alert_outbox import DeliveryStatus
from dokimos.server._services.alerts.alert_payload import AlertFormat
from dokimos.server._services.alerts.alert_webhooks import (
    WEBHOOK_ORDERS,
    WebhookChange,
    change_webhook,
    create_webhook,
    delete_webhook,
    find_webhook,
    list_webhooks,
)
from dokimos.server._services.encryption.secret_vault import SecretVault
from dokimos.server._services.errors import ConflictError
from dokimos.server._services.row_versions import version_of_webhook

ROUTER = APIRouter(prefix="/api/v1/projects/{projectId}/alert-webhooks", tags=["Alerts"])
_WEBHOOKS_PAGE: Final = list_request(WEBHOOK_ORDERS)
_DELIVERIES_PAGE: Final = list_request(DELIVERY_ORDERS, 50)


async def _read_project_id(project_id: Annotated[UUID, Path(alias="projectId")]) -> str:
    return str(project_id)


async def _read_webhook_id(webhook_id: Annotated[UUID, Path(alias="webhookId")]) -> str:
    return str(webhook_id)


async def _read_delivery_id(delivery_id: Annotated[UUID, Path(alias="deliveryId")]) -> str:
    return str(delivery_id)


ProjectId = Annotated[str, Depends(_read_project_id)]
WebhookId = Annotated[str, Depends(_read_webhook_id)]
DeliveryId = Annotated[str, Depends(_read_delivery_id)]


@ROUTER.post("", status_code=201, response_model=WebhookAnswer, openapi_extra=describe_body(WebhookBody))
@access(Access.PROJECT_WRITE)
async def add_webhook(
    request: Request,
    response: Response,
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    body: Annotated[WebhookBody, Depends(json_body(WebhookBody))],
) -> dict[str, Any]:
    """Register a webhook: it is called when a run of the project fails the gate."""
    change, state = _change_of(body), request.app.state
    row = await store.write(
        lambda connection: create_webhook(
            connection, caller, project_id, change, settings=state.settings, vault=state.vault
        )
    )
    response.headers["Location"] = f"/api/v1/projects/{project_id}/alert-webhooks/{row.id}"
    return _answer(row, caller, state.vault)


@ROUTER.get("", response_model=list[WebhookAnswer])
@access(Access.READ)
async def get_webhooks(
    request: Request,
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    page: _WEBHOOKS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
) -> list[dict[str, Any]]:
    """List the webhooks of a project, the oldest first; with `limit`, a page of them."""
    rows = await store.read(lambda connection: list_webhooks(connection, caller, project_id, page))
    vault: SecretVault = request.app.state.vault
    await vault.learn_keys_of(store, [row.secret for row in rows])
    return [_answer(row, caller, vault) for row in rows]


@ROUTER.get("/{webhookId}", response_model=WebhookAnswer)
@access(Access.READ)
async def get_webhook(
    request: Request, caller: Caller, store: Store, project_id: ProjectId, webhook_id: WebhookId
) -> dict[str, Any]:
    """Return a webhook."""
    row = await store.read(lambda connection: find_webhook(connection, caller, project_id, webhook_id))
    vault: SecretVault = request.app.state.vault
    await vault.learn_keys_of(store, [row.secret])
    return _answer(row, caller, vault)


@ROUTER.put("/{webhookId}", response_model=WebhookAnswer, openapi_extra=describe_body(WebhookBody))
@access(Access.PROJECT_WRITE)
async def replace_webhook(
    request: Request,
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    webhook_id: WebhookId,
    body: Annotated[WebhookBody, Depends(json_body(WebhookBody))],
    expected: IfMatch,
) -> dict[str, Any]:
    """Change a webhook: without `secret` it keeps the one it has, without `enabled` it is enabled."""
    change, state = _change_of(body), request.app.state
    row = await store.write(
        lambda connection: change_webhook(
            connection,
            caller,
            project_id,
            webhook_id,
            change,
            settings=state.settings,
            vault=state.vault,
            expected=expected,
        )
    )
    return _answer(row, caller, state.vault)


@ROUTER.delete("/{webhookId}", status_code=204)
@access(Access.PROJECT_WRITE)
async def remove_webhook(
    caller: Caller, store: Store, project_id: ProjectId, webhook_id: WebhookId
) -> Response:
    """Delete a webhook with its log."""
    await store.write(lambda connection: delete_webhook(connection, caller, project_id, webhook_id))
    return Response(status_code=204)


@ROUTER.post("/{webhookId}/test", response_model=DeliveryAnswer)
@access(Access.PROJECT_WRITE)
async def call_webhook(
    request: Request, caller: Caller, store: Store, project_id: ProjectId, webhook_id: WebhookId
) -> dict[str, Any]:
    """Call a webhook once, with an alert that says it is a test, and return what came of it."""

    def queue(connection: Connection) -> Claim:
        delivery_id = queue_test(connection, caller, project_id, webhook_id)
        claim = claim_delivery(connection, delivery_id, new_id())
        if claim is None:
            raise ConflictError("Something is being sent to this webhook at the moment; try again")
        return claim

    alerts: AlertSender = request.app.state.alerts
    delivery_id = await alerts.send_now(queue)
    row = await store.read(
        lambda connection: find_delivery(connection, caller, project_id, webhook_id, delivery_id)
    )
    return _describe_delivery(row)


@ROUTER.get("/{webhookId}/deliveries", response_model=list[DeliveryAnswer])
@access(Access.READ)
async def get_deliveries(
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    webhook_id: WebhookId,
    page: _DELIVERIES_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    status: Annotated[Status | None, Query(description="Only those with this status.")] = None,
) -> list[dict[str, Any]]:
    """List what was sent to a webhook, what waits and what was given up, the newest first."""
    rows = await store.read(
        lambda connection: list_deliveries(connection, caller, project_id, webhook_id, page, status=status)
    )
    return [_describe_delivery(row) for row in rows]


@ROUTER.post("/{webhookId}/deliveries/{deliveryId}/redeliver", response_model=DeliveryAnswer)
@access(Access.PROJECT_WRITE)
async def send_again(
    caller: Caller, store: Store, project_id: ProjectId, webhook_id: WebhookId, delivery_id: DeliveryId
) -> dict[str, Any]:
    """Send something again, whatever came of it: as soon as possible, and under the same id."""
    row = await store.write(
        lambda connection: redeliver(connection, caller, project_id, webhook_id, delivery_id)
    )
    return _describe_delivery(row)


def _change_of(body: WebhookBody) -> WebhookChange:
    return WebhookChange(
        url=body.url,
        secret=body.secret,
        enabled=body.enabled is not False,
        format=None if body.format is None else AlertFormat(body.format),
        fields=body.fields,
    )


def _answer(row: Row[Any], caller: Principal, vault: SecretVault) -> dict[str, Any]:
    is_masked = caller.id == ANONYMOUS.id
    return {
        "id": row.id,
        "projectId": row.project_id,
        "url": _mask(row.url) if is_masked else row.url,
        "tenantId": row.tenant_id,
        "hasSecret": row.secret is not None,
        "enabled": row.enabled,
        "createdAt": format_time(row.created_at),
        "format": row.format,
        "fields": None if row.fields is None else json.loads(row.fields),
        "disabledReason": row.disabled_reason,
        "problem": vault.find_problem(row.secret),
        "failingSince": format_time(row.failing_since),
        "version": version_of_webhook(row),
    }


def _mask(url: str) -> str:
    """The address without what is secret in it: user, path and query."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}/..."


def _describe_delivery(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.id,
        "webhookId": row.webhook_id,
        "runId": row.run_id,
        "firingId": row.firing_id,
        "status": row.status,
        "attempts": row.attempts,
        "lastStatusCode": row.last_status_code,
        "lastError": row.last_error,
        "nextAttemptAt": format_time(row.next_attempt_at) if row.status == DeliveryStatus.PENDING else None,
        "createdAt": format_time(row.created_at),
        "finishedAt": format_time(row.finished_at),
    }
