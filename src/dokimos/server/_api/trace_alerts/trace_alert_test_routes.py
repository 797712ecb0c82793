"""Routes that try alerts on stored traces."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from sqlalchemy import Connection
from starlette.requests import Request

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.parameters import Store
from dokimos.server._api.trace_alerts.trace_alert_bodies import read_alert_id, read_draft, read_moment
from dokimos.server._api.trace_alerts.trace_alert_routes import AlertId, ProjectId
from dokimos.server._api.trace_alerts.trace_alert_schemas import BackTestAnswer, BackTestBody
from dokimos.server._db.clock import DAY, format_time, now
from dokimos.server._db.database import Database, Lane
from dokimos.server._db.ids import first_id
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.trace_alerts.alert_config import AlertConfig, AlertKind
from dokimos.server._services.trace_alerts.alert_scales import (
    check_may_add_alerts,
    complete_config,
    complete_edit,
)
from dokimos.server._services.trace_alerts.back_tests import MAX_OBSERVATIONS, run_back_test
from dokimos.server._services.trace_alerts.false_alarm_shares import NEW_ALERT, read_shares
from dokimos.server._services.trace_alerts.firing_facts import describe_evidence
from dokimos.server._services.trace_alerts.observations import Observation, Patience, Source, read_step
from dokimos.server._services.trace_alerts.trace_alerts import find_alert

ROUTER = APIRouter(prefix="/api/v1/projects/{projectId}/trace-alerts", tags=["Alerts on traces"])
_MONTH: Final = 30 * DAY
_MAX_STEPS: Final = 2000
"""Each of 500 traces, of which a filter may watch few."""
_STORED: Final = Patience(quiet=0, longest=0)
"""What is stored is as complete as it gets."""
From = Annotated[str | None, Query(alias="from", description="By default 30 days ago.")]
To = Annotated[str | None, Query(description="By default now.")]


@ROUTER.post("/back-test", response_model=BackTestAnswer, openapi_extra=describe_body(BackTestBody))
@access(Access.PROJECT_WRITE)
async def try_new_alert(
    request: Request,
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    body: Annotated[BackTestBody, Depends(json_body(BackTestBody))],
) -> dict[str, Any]:
    """Say when an alert would have fired on stored traces, and how often by chance; nothing is stored."""
    draft, times = read_draft(body), _read_times(body.from_, body.to)
    edited = read_alert_id(body)

    def prepare(connection: Connection) -> tuple[Source, float]:
        if edited is None:
            tenant = check_may_add_alerts(connection, caller, project_id)
            config = complete_config(connection, caller, project_id, tenant, draft.config)
        else:
            row = find_alert(connection, caller, project_id, edited)
            caller.check_may_write(row.tenant_id, f"The alert '{row.name}'", project=project_id)
            tenant, config = row.tenant_id, complete_edit(connection, caller, row, draft.config)
        shares = read_shares(connection, project_id, added={tenant: draft.importance}, without=edited)
        return Source(project_id=project_id, tenant=tenant, config=config), shares[NEW_ALERT]

    source, share = await store.read(prepare)
    return await _test(request.app.state.traces, source, times, share)


@ROUTER.get("/{alertId}/back-test", response_model=BackTestAnswer)
@access(Access.TRACE_READ)
async def try_stored_alert(
    request: Request,
    caller: Caller,
    store: Store,
    project_id: ProjectId,
    alert_id: AlertId,
    start: From = None,
    to: To = None,
) -> dict[str, Any]:
    """Say when an alert would have fired on stored traces, and how often by chance."""
    times = _read_times(start, to)

    def prepare(connection: Connection) -> tuple[Source, float]:
        row = find_alert(connection, caller, project_id, alert_id)
        shares = read_shares(connection, project_id)
        if row.id not in shares:
            shares = read_shares(connection, project_id, added={row.tenant_id: row.importance})
        source = Source(project_id=project_id, tenant=row.tenant_id, config=AlertConfig.load(row.config))
        return source, shares.get(row.id) or shares[NEW_ALERT]

    source, share = await store.read(prepare)
    return await _test(request.app.state.traces, source, times, share)


async def _test(traces: Database, source: Source, times: tuple[int, int], share: float) -> dict[str, Any]:
    observations, until, is_complete = await _read_observations(traces, source, times)
    test = await asyncio.to_thread(
        partial(run_back_test, source.config, observations, until=until, per_year=share)
    )
    chance = test.by_chance
    return {
        "from": format_time(times[0]),
        "to": format_time(until),
        "observationCount": len(observations),
        "lowerBoundCount": sum(each.is_lower_bound for each in observations),
        "isComplete": is_complete,
        "status": test.status,
        "firingCount": test.firing_count,
        "firings": [describe_evidence(evidence) for evidence in test.firings],
        "falseAlarmsPerYear": share if source.config.kind is AlertKind.CHANGE else None,
        "byChance": None
        if chance is None
        else {
            "expected": chance.expected,
            "standardError": chance.standard_error,
            "isExact": chance.is_exact,
        },
    }


async def _read_observations(
    traces: Database, source: Source, times: tuple[int, int]
) -> tuple[list[Observation], int, bool]:
    """Return stored observations, the time until which they go, and whether these are all of them."""
    observations: list[Observation] = []
    baseline = source.config.baseline
    since = times[0] if baseline is None or baseline.from_at is None else min(times[0], baseline.from_at)
    after, to = first_id(since), first_id(times[1])
    for _ in range(_MAX_STEPS):
        read = partial(read_step, source=source, after=after, patience=_STORED, to=to)
        step = await traces.read(read, Lane.SEARCH)
        observations += step.observations
        after = step.after
        if not step.has_more:
            return observations, times[1], True
        if len(observations) >= MAX_OBSERVATIONS:
            break
    return observations, step.until, False


def _read_times(start: str | None, end: str | None) -> tuple[int, int]:
    until = now() if end is None else read_moment(end, "to")
    since = until - _MONTH if start is None else read_moment(start, "from")
    if since >= until:
        raise InvalidRequestError("must be before 'to'", field="from")
    return since, until
