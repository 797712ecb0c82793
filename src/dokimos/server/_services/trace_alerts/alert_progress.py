"""How alerts on traces go on: what each has seen, and what follows from it, changes in one transaction.

Whoever stores a step names the version that it builds on. So of two servers that do the same, one wins and
the other one's work is dropped; and a server that is killed has done a step as a whole, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Row, select, true, update

from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.tables import PROJECTS
from dokimos.server._db.trace_alert_tables import TRACE_ALERT_FIRINGS, TRACE_ALERTS
from dokimos.server._services.alerts.alert_outbox import queue_firing
from dokimos.server._services.events import EventKind
from dokimos.server._services.trace_alerts.alert_config import AlertConfig, AlertKind
from dokimos.server._services.trace_alerts.change_watch import ChangeWatch
from dokimos.server._services.trace_alerts.false_alarm_shares import read_shares
from dokimos.server._services.trace_alerts.firing_facts import describe_firing
from dokimos.server._services.trace_alerts.observations import AlertEvent, Ended, Fired, Source, Step
from dokimos.server._services.trace_alerts.threshold_watch import ThresholdWatch
from dokimos.server._services.trace_alerts.trace_alerts import announce_alert

_ALERT: Final = TRACE_ALERTS.c
_FIRING: Final = TRACE_ALERT_FIRINGS.c
Watch = ChangeWatch | ThresholdWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAlert:
    """An enabled alert, as it was read, with its share of the false alarms."""

    row: Row[Any]
    config: AlertConfig
    per_year: float

    @property
    def source(self) -> Source:
        """Where it has its observations from."""
        return Source(project_id=self.row.project_id, tenant=self.row.tenant_id, config=self.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a step has made of an alert."""

    state: str
    status: str
    step: Step
    events: list[AlertEvent] = field(default_factory=list)


def list_enabled_alerts(connection: Connection) -> Sequence[str]:
    """Return the ids of the enabled alerts of all projects."""
    query = (
        select(_ALERT.id)
        .join(PROJECTS, PROJECTS.c.id == _ALERT.project_id)
        .where(_ALERT.enabled.is_(true()), PROJECTS.c.deleted_at.is_(None))
        .order_by(_ALERT.id)
    )
    return connection.execute(query).scalars().all()


def read_alert(connection: Connection, alert_id: str) -> StoredAlert | None:
    """Return an alert to continue with; None where it is gone, or not enabled any more."""
    query = select(TRACE_ALERTS).where(_ALERT.id == alert_id, _ALERT.enabled.is_(true()))
    row = connection.execute(query).first()
    if row is None:
        return None
    config = AlertConfig.load(row.config)
    shares = read_shares(connection, row.project_id) if config.kind is AlertKind.CHANGE else {}
    return StoredAlert(row=row, config=config, per_year=shares.get(row.id, 1.0))


def make_watch(config: AlertConfig, state: str | None, per_year: float) -> Watch:
    """Return what continues with an alert, from its stored state."""
    stored = None if state is None else json.loads(state)
    if config.kind is AlertKind.CHANGE:
        return ChangeWatch(config, stored, per_year)
    return ThresholdWatch(config, stored)


def go_on(alert: StoredAlert, step: Step) -> Progress:
    """Return what a step makes of an alert; nothing is stored."""
    watch = make_watch(alert.config, alert.row.state, alert.per_year)
    events: list[AlertEvent] = []
    for observation in step.observations:
        events += watch.add(observation)
    events += watch.look(step.until)
    return Progress(state=json.dumps(watch.state()), status=watch.status, step=step, events=events)


def has_news(alert: StoredAlert, progress: Progress) -> bool:
    """Say whether a step has changed anything."""
    is_same = progress.step.after == alert.row.after and not progress.step.observations
    return not is_same or bool(progress.events)


def store_progress(connection: Connection, alert: StoredAlert, progress: Progress) -> bool:
    """Store what a step has made of an alert, and tell the webhooks where it fires.

    Returns:
        Whether it was stored: not where another server was quicker, or somebody has changed the alert.
    """
    row, step = alert.row, progress.step
    values: dict[str, Any] = {
        "version": row.version + 1,
        "state": progress.state,
        "status": progress.status,
        "after": step.after,
        "observation_count": row.observation_count + len(step.observations),
    }
    if step.observations:
        values["observed_until"] = step.observations[-1].at
    is_same = (_ALERT.id == row.id, _ALERT.version == row.version)
    if not connection.execute(update(TRACE_ALERTS).where(*is_same).values(values)).rowcount:
        return False
    for event in progress.events:
        match event:
            case Fired(evidence):
                _store_firing(connection, alert, evidence)
            case Ended(at):
                is_open = (_FIRING.alert_id == row.id, _FIRING.ended_at.is_(None))
                connection.execute(update(TRACE_ALERT_FIRINGS).where(*is_open).values(ended_at=at))
    if progress.status != row.status or progress.events:
        announce_alert(connection, EventKind.TRACE_ALERT_CHANGED, row, progress.status)
    return True


def _store_firing(connection: Connection, alert: StoredAlert, evidence: dict[str, Any]) -> None:
    row, firing_id = alert.row, new_id()
    connection.execute(
        TRACE_ALERT_FIRINGS.insert().values(
            id=firing_id,
            alert_id=row.id,
            project_id=row.project_id,
            tenant_id=row.tenant_id,
            created_at=now(),
            evidence=json.dumps(evidence),
        )
    )
    name = connection.execute(select(PROJECTS.c.name).where(PROJECTS.c.id == row.project_id)).scalar_one()
    facts = describe_firing(row, alert.config, firing_id, evidence, project_name=name)
    queue_firing(connection, row, firing_id, json.dumps(facts))
