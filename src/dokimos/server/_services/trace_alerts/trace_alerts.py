"""Alerts on traces: created, listed, changed, removed, acknowledged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.ids import first_id, new_id
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.trace_alert_tables import TRACE_ALERT_FIRINGS, TRACE_ALERTS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.audit.audit_targets import describe_target
from dokimos.server._services.errors import ConflictError, NotFoundError
from dokimos.server._services.events import Event, EventKind, announce
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.names import check_name
from dokimos.server._services.projects.projects import find_project_by_id
from dokimos.server._services.row_versions import Expected, check_version, version_of
from dokimos.server._services.trace_alerts.alert_config import AlertConfig, AlertKind
from dokimos.server._services.trace_alerts.alert_scales import (
    check_may_add_alerts,
    complete_config,
    complete_edit,
    read_scale,
)
from dokimos.server._services.trace_alerts.change_watch import ChangeWatch

MAX_ALERTS: Final = 100
"""Of one project, for each tenant."""
_ALERT: Final = TRACE_ALERTS.c
_FIRING: Final = TRACE_ALERT_FIRINGS.c
ALERT_ORDERS: Final = SortKeys(
    {"createdAt": _ALERT.created_at, "name": _ALERT.name},
    ties=(_ALERT.created_at, _ALERT.id),
    default="createdAt",
)
FIRING_ORDERS: Final = SortKeys(
    {"createdAt": _FIRING.created_at}, ties=(_FIRING.id,), default="createdAt,desc"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDraft:
    """An alert, as it should be."""

    name: str
    enabled: bool
    importance: float
    config: AlertConfig
    """Without what the rule says of its scores."""
    restart: bool = False
    """Whether a stored one begins anew, with the scale of its rule, even where it watches the same."""


def create_alert(
    connection: Connection, principal: Principal, project_id: str, draft: AlertDraft
) -> Row[Any]:
    """Store an alert, which watches the traces that come from then on.

    Raises:
        NotFoundError: There is no such project, or no such rule of it, that the caller sees.
        ForbiddenError: The project is shared, and closed to this caller.
        InvalidRequestError: The alert cannot be used.
        ConflictError: The name is taken, or the project has as many alerts as it may have.
    """
    tenant = check_may_add_alerts(connection, principal, project_id)
    check_name(draft.name, "name")
    config = complete_config(connection, principal, project_id, tenant, draft.config)
    own = (_ALERT.project_id == project_id, _ALERT.tenant_id.is_not_distinct_from(tenant))
    query = select(func.count()).select_from(TRACE_ALERTS).where(*own)
    if connection.execute(query).scalar_one() >= MAX_ALERTS:
        raise ConflictError(f"The project has {MAX_ALERTS} alerts on traces, which is the limit; delete one")
    moment, alert_id = now(), new_id()
    is_new = insert_if_absent(
        connection,
        TRACE_ALERTS,
        id=alert_id,
        project_id=project_id,
        tenant_id=tenant,
        created_by=principal.id,
        created_at=moment,
        updated_at=moment,
        version=0,
        **_values_of(draft, config),
        **_beginning(config, moment),
    )
    if not is_new:
        raise _is_taken(draft.name)
    return _announce(connection, principal, project_id, alert_id)


def list_alerts(
    connection: Connection, principal: Principal, project_id: str, page: ListPage
) -> Sequence[Row[Any]]:
    """Return the alerts on traces of a project, the oldest first.

    Raises:
        NotFoundError: There is no such project that the caller sees.
    """
    find_project_by_id(connection, principal, project_id)
    rows = select(TRACE_ALERTS).where(_ALERT.project_id == project_id, principal.sees(TRACE_ALERTS))
    return read_page(connection, rows, page, _ALERT.id)


def find_alert(
    connection: Connection,
    principal: Principal,
    project_id: str,
    alert_id: str,
    *,
    for_update: bool = False,
) -> Row[Any]:
    """Return an alert of a project; with `for_update`, locked until the transaction ends.

    Raises:
        NotFoundError: There is no such project, or no such alert of it, that the caller sees.
    """
    find_project_by_id(connection, principal, project_id)
    is_asked = (_ALERT.id == alert_id, _ALERT.project_id == project_id, principal.sees(TRACE_ALERTS))
    query = select(TRACE_ALERTS).where(*is_asked)
    row = connection.execute(query.with_for_update() if for_update else query).first()
    if row is None:
        raise NotFoundError(f"Trace alert not found: {alert_id}")
    return row


def find_writable_alert(
    connection: Connection, principal: Principal, project_id: str, alert_id: str
) -> Row[Any]:
    """Return an alert that the caller may change, locked until the transaction ends.

    Raises:
        NotFoundError: There is no such alert that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
    """
    row = find_alert(connection, principal, project_id, alert_id, for_update=True)
    principal.check_may_write(row.tenant_id, f"The alert '{row.name}'", project=project_id)
    return row


def change_alert(
    connection: Connection,
    principal: Principal,
    project_id: str,
    alert_id: str,
    draft: AlertDraft,
    expected: Expected = None,
) -> Row[Any]:
    """Change an alert. One that watches something else begins anew; one that was paused goes on from now.

    Where what is watched stays the same, so does the scale of the scores, whatever became of the rule since.

    Raises:
        NotFoundError: There is no such alert, or no such rule, that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
        InvalidRequestError: The alert cannot be used.
        ConflictError: The name is taken.
        OutdatedError: It was changed since the version that the change is for.
    """
    row = find_writable_alert(connection, principal, project_id, alert_id)
    check_version(expected, version_of(row), f"The alert '{row.name}'")
    check_name(draft.name, "name")
    stored = AlertConfig.load(row.config)
    if draft.restart:
        config = complete_config(connection, principal, project_id, row.tenant_id, draft.config)
    else:
        config = complete_edit(connection, principal, row, draft.config)
    if draft.name != row.name:
        own = (_ALERT.project_id == project_id, _ALERT.tenant_id.is_not_distinct_from(row.tenant_id))
        if connection.execute(select(_ALERT.id).where(*own, _ALERT.name == draft.name)).first() is not None:
            raise _is_taken(draft.name)
    moment = now()
    values = {**_values_of(draft, config), "updated_at": moment, "version": row.version + 1}
    if draft.restart or config != stored:
        values |= _beginning(config, moment)
        _end_firings(connection, alert_id, moment)
    elif draft.enabled and not row.enabled:
        values["after"] = max(row.after, first_id(moment))  # what came meanwhile is not looked at
    connection.execute(update(TRACE_ALERTS).where(_ALERT.id == alert_id).values(values))
    return _announce(connection, principal, project_id, alert_id)


def delete_alert(connection: Connection, principal: Principal, project_id: str, alert_id: str) -> None:
    """Delete an alert with its history.

    Raises:
        NotFoundError: There is no such alert that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
    """
    row = find_writable_alert(connection, principal, project_id, alert_id)
    connection.execute(delete(TRACE_ALERTS).where(_ALERT.id == alert_id))
    _post(connection, EventKind.TRACE_ALERT_DELETED, row)


def list_firings(
    connection: Connection, principal: Principal, project_id: str, alert_id: str, page: ListPage
) -> Sequence[Row[Any]]:
    """Return when an alert fired, the latest first.

    Raises:
        NotFoundError: There is no such alert that the caller sees.
    """
    find_alert(connection, principal, project_id, alert_id)
    rows = select(TRACE_ALERT_FIRINGS).where(
        _FIRING.alert_id == alert_id, principal.sees(TRACE_ALERT_FIRINGS)
    )
    return read_page(connection, rows, page, _FIRING.id)


def read_open_firings(connection: Connection, alert_ids: Sequence[str]) -> dict[str, Row[Any]]:
    """Return the firings that have not ended, by the ids of their alerts."""
    query = (
        select(TRACE_ALERT_FIRINGS)
        .where(_FIRING.alert_id.in_(alert_ids), _FIRING.ended_at.is_(None))
        .order_by(_FIRING.id)
    )
    return {row.alert_id: row for row in connection.execute(query)}


def acknowledge_firing(
    connection: Connection,
    principal: Principal,
    project_id: str,
    alert_id: str,
    *,
    takes_new_baseline: bool,
    note: str | None,
) -> Row[Any]:
    """Note that somebody knows of what an alert fired on, and let it watch again.

    Args:
        takes_new_baseline: Whether things are to stay as they are now: the alert learns a new baseline.
            Otherwise it watches against the same reference again, as after the cause was removed.
        note: What was found.

    Raises:
        NotFoundError: There is no such alert that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
        ConflictError: It does not fire, or has no baseline.
    """
    row = find_writable_alert(connection, principal, project_id, alert_id)
    firing = read_open_firings(connection, [alert_id]).get(alert_id)
    if firing is None:
        raise ConflictError("The alert does not fire at the moment")
    config, moment = AlertConfig.load(row.config), now()
    if takes_new_baseline and config.baseline is None:
        raise ConflictError("The alert has no baseline; change its reference or its limit instead")
    seen = {"acknowledged_at": moment, "acknowledged_by": principal.id, "note": note}
    is_change = config.kind is AlertKind.CHANGE
    connection.execute(
        update(TRACE_ALERT_FIRINGS)
        .where(_FIRING.id == firing.id)
        .values(seen | ({"ended_at": moment} if is_change else {}))
    )
    if is_change:
        if takes_new_baseline:
            config = read_scale(connection, config)
        values = _rearm(row, config, moment, takes_new_baseline=takes_new_baseline)
        connection.execute(update(TRACE_ALERTS).where(_ALERT.id == alert_id).values(values))
    return _announce(connection, principal, project_id, alert_id)


def _beginning(config: AlertConfig, moment: int) -> dict[str, Any]:
    """Return the columns of an alert that has seen nothing."""
    since = moment
    if config.baseline is not None and config.baseline.from_at is not None:
        since = config.baseline.from_at
    is_learning = config.kind is AlertKind.CHANGE and config.baseline is not None
    return {
        "status": "LEARNING" if is_learning else "WATCHING",
        "state": None,
        "after": first_id(since),
        "observation_count": 0,
        "observed_until": None,
    }


def _rearm(row: Row[Any], config: AlertConfig, moment: int, *, takes_new_baseline: bool) -> dict[str, Any]:
    """Return the columns of a change alert that watches again."""
    if takes_new_baseline:
        assert config.baseline is not None, "it was checked"
        # The period of the first baseline is over, so a new one is of as many traces as are enough.
        count = config.baseline.count or DEFAULT_BASELINE
        again = replace(config, baseline=replace(config.baseline, count=count, from_at=None, to_at=None))
        values = _beginning(again, moment)
        # It watches something else, so a change that was made for what it was is outdated.
        return {**values, "config": again.dump(), "updated_at": moment, "version": row.version + 1}
    watch = ChangeWatch(config, json.loads(row.state), 1.0)
    watch.restart()
    return {"status": watch.status, "state": json.dumps(watch.state()), "version": row.version + 1}


DEFAULT_BASELINE: Final = 1000
"""Observations of a baseline unless asked for otherwise."""


def _end_firings(connection: Connection, alert_id: str, moment: int) -> None:
    is_open = (_FIRING.alert_id == alert_id, _FIRING.ended_at.is_(None))
    connection.execute(update(TRACE_ALERT_FIRINGS).where(*is_open).values(ended_at=moment))


def _values_of(draft: AlertDraft, config: AlertConfig) -> dict[str, Any]:
    return {
        "name": draft.name,
        "enabled": draft.enabled,
        "kind": config.kind,
        "rule_id": config.rule_id,
        "config": config.dump(),
        "importance": draft.importance,
    }


def _is_taken(name: str) -> ConflictError:
    return ConflictError(f"An alert on traces named '{name}' exists already in this project")


def _announce(connection: Connection, principal: Principal, project_id: str, alert_id: str) -> Row[Any]:
    alert = find_alert(connection, principal, project_id, alert_id)
    _post(connection, EventKind.TRACE_ALERT_CHANGED, alert)
    return alert


def _post(connection: Connection, kind: EventKind, alert: Row[Any]) -> None:
    announce_alert(connection, kind, alert, alert.status)
    describe_target(
        connection,
        kind="trace-alert",
        id=alert.id,
        name=alert.name,
        tenant=alert.tenant_id,
        details={"enabled": str(alert.enabled).lower(), "kind": alert.kind},
    )


def announce_alert(connection: Connection, kind: EventKind, alert: Row[Any], status: str) -> None:
    """Publish an event about an alert on traces after the commit."""
    announce(
        connection,
        Event(
            kind=kind,
            tenants=(alert.tenant_id,),
            project_id=alert.project_id,
            data={"alertId": alert.id, "status": status},
        ),
    )
