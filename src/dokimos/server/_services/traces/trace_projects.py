"""The projects that spans name, as ingestion needs them: looked up once for many exports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from dokimos.server._db.database import Database, Lane
from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import ForbiddenError, InvalidRequestError
from dokimos.server._services.online.enabled_rules import has_rules
from dokimos.server._services.projects.project_settings import default_settings, read_settings
from dokimos.server._services.projects.projects import find_named, find_or_create_project
from dokimos.server._services.traces.placements import Placement
from dokimos.server._services.traces.project_redaction import rules_of
from dokimos.server._settings import ServerSettings

_SECONDS: Final = 5.0
"""How long a project is taken for what it was; it may be changed by another server."""
_MAX_KNOWN: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Known:
    placement: Placement | str
    until: float


class TraceProjects:
    """Says where the spans of a project belong, and whether a caller may store them there."""

    def __init__(
        self,
        database: Database,
        settings: ServerSettings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._settings = settings.traces
        self._defaults = default_settings(settings)
        self._monotonic = monotonic
        self._known: dict[tuple[str, str | None, str | None], _Known] = {}

    async def place(
        self, principal: Principal, names: Iterable[str | None]
    ) -> dict[str | None, Placement | str]:
        """Return for each name that spans give their project where they belong, or why they are refused.

        An unknown name is none: the spans are kept without a project.
        """
        placements: dict[str | None, Placement | str] = {}
        unknown: list[str | None] = []
        moment = self._monotonic()
        for name in set(names):
            known = self._known.get((principal.id, principal.tenant, name))
            if known is not None and known.until > moment:
                placements[name] = known.placement
            else:
                unknown.append(name)
        if unknown:
            placements |= await self._look_up(principal, unknown, moment)
        return placements

    def forget(self) -> None:
        """Look everything up again, as after a change to a project."""
        self._known.clear()

    async def _look_up(
        self, principal: Principal, names: list[str | None], moment: float
    ) -> dict[str | None, Placement | str]:
        def read(connection: Connection) -> dict[str | None, Placement | str | None]:
            return {name: self._find(connection, principal, name) for name in names}

        found = await self._database.read(read, Lane.KEY)
        missing = [name for name, placement in found.items() if placement is None]
        if missing and self._settings.creates_projects:
            found |= await self._database.write(
                lambda connection: {name: self._create(connection, principal, name) for name in missing}
            )
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        for name, placement in found.items():
            if placement is not None:
                self._known[principal.id, principal.tenant, name] = _Known(placement, moment + _SECONDS)
        # One that is unknown is looked up each time: it may be created at any moment.
        outside = self._place_outside(principal)
        return {name: outside if placement is None else placement for name, placement in found.items()}

    def _find(self, connection: Connection, principal: Principal, name: str | None) -> Placement | str | None:
        if name is None:
            return self._place_outside(principal)
        row = find_named(connection, PROJECTS, principal, PROJECTS.c.name == name)
        if row is None:
            return None
        try:
            principal.check_may_write(row.tenant_id, f"The project '{name}'", project=row.id)
        except ForbiddenError as error:
            return str(error)
        tenant = principal.tenant if principal.is_restricted else row.tenant_id
        days = read_settings(row, self._defaults).trace_retention_days
        # The rules of the server come first: no project weakens them.
        rules = (*self._settings.redaction_rules, *rules_of(row))
        return Placement(tenant, row.id, days, has_rules(connection, row.id), redaction=rules)

    def _create(
        self, connection: Connection, principal: Principal, name: str | None
    ) -> Placement | str | None:
        assert name is not None
        try:
            find_or_create_project(connection, principal, name)
        except (ForbiddenError, InvalidRequestError):
            return None
        return self._find(connection, principal, name)

    def _place_outside(self, principal: Principal) -> Placement | str:
        """Where spans of no project belong."""
        try:
            principal.check_role(None)
        except ForbiddenError as error:
            return f"{error} to store spans of no known project"
        rules = self._settings.redaction_rules
        return Placement(principal.tenant, None, self._settings.retention_days, redaction=rules)
