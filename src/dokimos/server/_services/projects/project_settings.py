"""The settings of a project: what differs from the defaults, kept as JSON with its row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, select, update

from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.audit.audit_targets import describe_target
from dokimos.server._services.errors import ForbiddenError, NotFoundError
from dokimos.server._services.events import EventKind
from dokimos.server._services.projects.projects import announce_project, find_project
from dokimos.server._settings import ServerSettings

FOREVER: Final = -1.0
"""The number of days that keeps runs for ever."""


class AlertOn(StrEnum):
    """Which decision about a run is an alert."""

    GATE = "gate"
    """That the gate fails, for whatever reason."""
    PASS_RATE = "passRate"
    """That the pass rate fell significantly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings:
    """What is set for a project, or holds by default."""

    alert_on: AlertOn = AlertOn.GATE
    run_retention_days: float = FOREVER
    """Days after their end at which runs are removed; `FOREVER` keeps them."""
    keep_latest_runs: int = 1
    """How many of the latest runs of each experiment stay, however old they are."""
    baseline_branches: tuple[str, ...] = ("main", "master")
    """Branches whose latest run that can be a baseline stays, however old it is."""
    blind_review: bool = False
    """Whether reviewers see what others say about an item only once they have reviewed it."""
    review_overlap: float = 0.0
    """The share of items that two people review, from 0 to 1, so that their agreement can be measured."""
    review_random_share: float = 0.2
    """The share of items that chance chooses where the most informative come first, from 0 to 1."""
    trace_retention_days: float = 30.0
    """Days after its last span at which a trace is removed, as set when that came; `FOREVER` keeps it."""
    trace_false_alarms_per_year: float = 1.0
    """How many change alerts on traces there may be in a year where nothing changes; all of them share it."""


DEFAULTS: Final = ProjectSettings()
_READERS: Final[dict[str, Callable[[Any], object]]] = {
    "alert_on": AlertOn,
    "run_retention_days": float,
    "keep_latest_runs": int,
    "baseline_branches": tuple,
    "blind_review": bool,
    "review_overlap": float,
    "review_random_share": float,
    "trace_retention_days": float,
    "trace_false_alarms_per_year": float,
}
_ABOUT_RETENTION: Final = (
    "run_retention_days",
    "keep_latest_runs",
    "baseline_branches",
    "trace_retention_days",
)
_MAX_LOGGED: Final = 300
"""Characters of a value that the audit log has at most."""


def default_settings(server: ServerSettings) -> ProjectSettings:
    """Return what holds for projects without settings of their own on a server."""
    return replace(
        DEFAULTS,
        run_retention_days=server.run_retention_days,
        trace_retention_days=server.traces.retention_days,
    )


def read_settings(project: Row[Any], defaults: ProjectSettings = DEFAULTS) -> ProjectSettings:
    """Return what holds for a project.

    Args:
        project: Its row.
        defaults: What holds where it has no setting of its own.
    """
    return replace(defaults, **merge_settings(project, {}))


def merge_settings(project: Row[Any], change: Mapping[str, object]) -> dict[str, Any]:
    """Return what is set for a project itself after a change, by the fields of `ProjectSettings`."""
    return _parse(_merge(_load(project.settings), change))


def change_settings(
    connection: Connection,
    principal: Principal,
    name: str,
    change: Mapping[str, object],
    *,
    check: Callable[[Mapping[str, Any]], None] | None = None,
) -> None:
    """Change settings of a project.

    Args:
        change: New values by the fields of `ProjectSettings`; None goes back to the default.
        check: Gets what is set for the project, once nobody else can change it, and raises where the change
            was made for something else.

    Raises:
        NotFoundError: There is no project of that name.
        ForbiddenError: It is shared, and closed to this caller, or the change would remove runs of others.
    """
    project = find_project(connection, principal, name)
    principal.check_may_write(project.tenant_id, f"The project '{name}'", project=project.id)
    if principal.is_restricted and project.tenant_id is None and change.keys() & set(_ABOUT_RETENTION):
        raise ForbiddenError(
            f"The project '{name}' is shared and may hold what belongs to other tenants: only a key without "
            "a tenant sets what of it is removed."
        )
    is_there = (PROJECTS.c.id == project.id, PROJECTS.c.deleted_at.is_(None))
    # Locked, so that of two changes at the same time neither undoes the other.
    locked = connection.execute(select(PROJECTS).where(*is_there).with_for_update()).first()
    if locked is None:
        raise NotFoundError(f"Project not found: {name}")
    before = _load(locked.settings)
    if check is not None:
        check(before)
    after = _merge(before, change)
    if after == before:
        return
    text = json.dumps(after, sort_keys=True) if after else None
    connection.execute(update(PROJECTS).where(*is_there).values(settings=text))
    announce_project(connection, EventKind.PROJECT_UPDATED, locked)
    describe_target(
        connection,
        kind="project",
        id=project.id,
        name=project.name,
        tenant=project.tenant_id,
        details={key: _cut(json.dumps(value, ensure_ascii=False)) for key, value in change.items()},
    )


def _cut(value: str) -> str:
    """Return the beginning of a value: the audit log says what was changed, and is not a copy of it."""
    if len(value) <= _MAX_LOGGED:
        return value
    return f"{value[:_MAX_LOGGED]}… ({len(value):,} characters)"


def _parse(stored: Mapping[str, Any]) -> dict[str, Any]:
    own: dict[str, Any] = {}
    for name, value in stored.items():
        # A newer server on the same database may know more names and more values.
        with suppress(KeyError, TypeError, ValueError):
            own[name] = _READERS[name](value)
    return own


def _merge(stored: Mapping[str, Any], change: Mapping[str, object]) -> dict[str, Any]:
    return {name: value for name, value in {**stored, **change}.items() if value is not None}


def _load(settings: str | None) -> dict[str, Any]:
    loaded: dict[str, Any] = {} if settings is None else json.loads(settings)
    return loaded
