"""Routes of alerts on traces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Path
from fastapi.responses import Response
from sqlalchemy import Connection, Row

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import Store
from dokimos.server._api.http.preconditions import IfMatch
from dokimos.server._api.trace_alerts.trace_alert_answers import (
    answer_alert,
    answer_firing,
    answer_history,
)
from dokimos.server._api.trace_alerts.trace_alert_bodies import read_draft
from dokimos.server._api.trace_alerts.trace_alert_schemas import (
    AcknowledgeBody,
    ChangedAlertBody,
    EvidencePointAnswer,
    FiringAnswer,
    TraceAlertAnswer,
    TraceAlertBody,
)
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.reviews.authors import names_of_authors
from dokimos.server._services.trace_alerts.alert_config import AlertConfig
from dokimos.server._services.trace_alerts.false_alarm_shares import read_shares
from dokimos.server._services.trace_alerts.trace_alerts import (
    ALERT_ORDERS,
    FIRING_ORDERS,
    acknowledge_firing,
    change_alert,
    create_alert,
    delete_alert,
    find_alert,
    list_alerts,
    list_firings,
    read_open_firings,
)
from dokimos.server._services.trace_alerts.watched_rules import find_problems

ROUTER = APIRouter(prefix="/api/v1/projects/{projectId}/trace-alerts", tags=["Alerts on traces"])
_PAGE: Final = list_request(ALERT_ORDERS)
_FIRINGS_PAGE: Final = list_request(FIRING_ORDERS, 50)


async def _read_project_id(project_id: Annotated[UUID, Path(alias="projectId")]) -> str:
    return str(project_id)


async def _read_alert_id(alert_id: Annotated[UUID, Path(alias="alertId")]) -> str:
    return str(alert_id)


ProjectId = Annotated[str, Depends(_read_project_id)]
AlertId = Annotated[str, Depends(_read_alert_id)]


@ROUTER.post(
    "", status_code=201, response_model=TraceAlertAnswer, openapi_extra=describe_body(TraceAlertBody)
)
@access(Access.PROJECT_WRITE)
async def add_alert(
    response: Response,
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    body: Annotated[TraceAlertBody, Depends(json_body(TraceAlertBody))],
) -> dict[str, Any]:
    """Create an alert: it watches the traces that come from now on, or from the beginning of its baseline."""
    draft = read_draft(body)

    def create(connection: Connection) -> dict[str, Any]:
        row = create_alert(connection, caller, project_id, draft)
        return _answer(connection, caller, project_id, [row])[0]

    answer = await store.write(create)
    response.headers["Location"] = f"/api/v1/projects/{project_id}/trace-alerts/{answer['id']}"
    return answer


@ROUTER.get("", response_model=list[TraceAlertAnswer])
@access(Access.TRACE_READ)
async def get_alerts(
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    page: _PAGE,  # type: ignore[valid-type] # made by a function, for its orders
) -> list[dict[str, Any]]:
    """List the alerts on traces of a project, the oldest first; with `limit`, a page of them."""

    def read(connection: Connection) -> list[dict[str, Any]]:
        return _answer(connection, caller, project_id, [*list_alerts(connection, caller, project_id, page)])

    return await store.read(read)


@ROUTER.get("/{alertId}", response_model=TraceAlertAnswer)
@access(Access.TRACE_READ)
async def get_alert(caller: Caller, store: Store, project_id: ProjectId, alert_id: AlertId) -> dict[str, Any]:
    """Return an alert, with what it knows."""

    def read(connection: Connection) -> dict[str, Any]:
        row = find_alert(connection, caller, project_id, alert_id)
        return _answer(connection, caller, project_id, [row])[0]

    return await store.read(read)


@ROUTER.put("/{alertId}", response_model=TraceAlertAnswer, openapi_extra=describe_body(ChangedAlertBody))
@access(Access.PROJECT_WRITE)
async def replace_alert(
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    alert_id: AlertId,
    body: Annotated[ChangedAlertBody, Depends(json_body(ChangedAlertBody))],
    expected: IfMatch,
) -> dict[str, Any]:
    """Change an alert: one that watches something else begins anew. With `enabled` false it is paused.

    Its name, its importance and `enabled` change nothing else, even if its rule was changed or deleted.
    """
    draft = read_draft(body)

    def change(connection: Connection) -> dict[str, Any]:
        row = change_alert(connection, caller, project_id, alert_id, draft, expected)
        return _answer(connection, caller, project_id, [row])[0]

    return await store.write(change)


@ROUTER.delete("/{alertId}", status_code=204)
@access(Access.PROJECT_WRITE)
async def remove_alert(caller: Caller, store: Store, project_id: ProjectId, alert_id: AlertId) -> Response:
    """Delete an alert with its history."""
    await store.write(lambda connection: delete_alert(connection, caller, project_id, alert_id))
    return Response(status_code=204)


@ROUTER.post(
    "/{alertId}/acknowledge",
    response_model=TraceAlertAnswer,
    openapi_extra=describe_body(AcknowledgeBody, may_be_empty=True),
)
@access(Access.PROJECT_WRITE)
async def acknowledge(
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    alert_id: AlertId,
    body: Annotated[AcknowledgeBody, Depends(json_body(AcknowledgeBody, may_be_empty=True))],
) -> dict[str, Any]:
    """Acknowledge what an alert fires on; a change alert watches again from then on."""
    is_new = body.baseline == "new"

    def acknowledge_it(connection: Connection) -> dict[str, Any]:
        row = acknowledge_firing(
            connection, caller, project_id, alert_id, takes_new_baseline=is_new, note=body.note
        )
        return _answer(connection, caller, project_id, [row])[0]

    return await store.write(acknowledge_it)


@ROUTER.get("/{alertId}/evidence", response_model=list[EvidencePointAnswer])
@access(Access.TRACE_READ)
async def get_evidence(
    caller: Caller, store: Store, project_id: ProjectId, alert_id: AlertId
) -> list[dict[str, Any]]:
    """Return how the evidence of a change alert went since it began to watch, in at most 200 points.

    Each stands for as many traces as the others, and has the greatest evidence of them. A threshold has none.
    """
    row = await store.read(lambda connection: find_alert(connection, caller, project_id, alert_id))
    return answer_history(row)


@ROUTER.get("/{alertId}/firings", response_model=list[FiringAnswer])
@access(Access.TRACE_READ)
async def get_firings(
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    alert_id: AlertId,
    page: _FIRINGS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
) -> list[dict[str, Any]]:
    """List when an alert fired and on what, the latest first."""

    def read(connection: Connection) -> list[dict[str, Any]]:
        alert = find_alert(connection, caller, project_id, alert_id)
        config = AlertConfig.load(alert.config)
        rows = list_firings(connection, caller, project_id, alert_id, page)
        names = _names(connection, caller, rows)
        return [answer_firing(row, config, names) for row in rows]

    return await store.read(read)


def _answer(
    connection: Connection, caller: Principal, project_id: str, rows: list[Row[Any]]
) -> list[dict[str, Any]]:
    shares = read_shares(connection, project_id)
    firings = read_open_firings(connection, [row.id for row in rows])
    problems = find_problems(connection, rows)
    names = _names(connection, caller, firings.values())
    return [
        answer_alert(row, shares.get(row.id), firings.get(row.id), problems.get(row.id), names)
        for row in rows
    ]


def _names(connection: Connection, caller: Principal, firings: Iterable[Row[Any]]) -> dict[str, str]:
    ids = [firing.acknowledged_by for firing in firings if firing.acknowledged_by is not None]
    return names_of_authors(connection, caller, ids)
