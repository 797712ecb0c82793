"""How the false alarms that a project may have in a year are shared among its change alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, select, true

from dokimos.server._db.tables import PROJECTS
from dokimos.server._db.trace_alert_tables import TRACE_ALERTS
from dokimos.server._services.projects.project_settings import read_settings
from dokimos.server._services.trace_alerts.alert_config import AlertKind
from dokimos.stats import split_false_alarms

_ALERT: Final = TRACE_ALERTS.c
NEW_ALERT: Final = "new"
"""Stands for an alert that is not stored."""


def read_shares(
    connection: Connection,
    project_id: str,
    *,
    added: Mapping[str | None, float] | None = None,
    without: str | None = None,
) -> dict[str, float]:
    """Return how many false alarms a year each change alert of a project may have, by its id.

    Enabled ones share those of the project by their importance; the alerts of each tenant share as many of
    their own, since no tenant may notice the others.

    Args:
        connection: Of the server's database.
        project_id: The project.
        added: The importance of an alert to add, by its tenant; its share is that of `NEW_ALERT`.
        without: The id of a stored alert that does not count, whose place the added one takes.
    """
    project = connection.execute(select(PROJECTS).where(PROJECTS.c.id == project_id)).first()
    if project is None:
        return {}
    per_year = read_settings(project).trace_false_alarms_per_year
    by_tenant: dict[str | None, dict[str, float]] = {
        tenant: {NEW_ALERT: importance} for tenant, importance in (added or {}).items()
    }
    query = select(_ALERT.id, _ALERT.tenant_id, _ALERT.importance).where(
        _ALERT.project_id == project_id, _ALERT.enabled.is_(true()), _ALERT.kind == AlertKind.CHANGE
    )
    for row in connection.execute(query.order_by(_ALERT.id)):
        if row.id != without:
            by_tenant.setdefault(row.tenant_id, {})[row.id] = row.importance
    shares: dict[str, float] = {}
    for importance in by_tenant.values():
        shares |= split_false_alarms(per_year, importance)
    return shares
