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
    """Says where the spans of a project belong, and whether a caller may store them there.

    Args:
        hears_of_new: Whether `forget` is called before anybody is told that a project was created, as where
            no other server shares the database. Else a name that is unknown is looked up each time.
    """

    def __init__(
        self,
        database: Database,
        settings: ServerSettings,
        *,
        hears_of_new: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._hears_of_new = hears_of_new
        self._changes = 0
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
        names = set(names)
        placements = self._find_all(principal, names)
        unknown = [name for name in names if name not in placements]
        if unknown:
            placements |= await self._look_up(principal, unknown)
        return placements

    def find_known(
        self, principal: Principal, names: Iterable[str | None]
    ) -> dict[str | None, Placement | str] | None:
        """Return what `place` does, None where it would have to look; in any thread."""
        names = set(names)
        placements = self._find_all(principal, names)
        return placements if len(placements) == len(names) else None

    def _find_all(
        self, principal: Principal, names: Iterable[str | None]
    ) -> dict[str | None, Placement | str]:
        moment = self._monotonic()
        placements: dict[str | None, Placement | str] = {}
        for name in names:
            known = self._known.get((principal.id, principal.tenant, name))
            if known is not None and known.until > moment:
                placements[name] = known.placement
        return placements

    def forget(self) -> None:
        """Look everything up again, as after a change to a project."""
        self._changes += 1
        self._known.clear()

    async def _look_up(
        self, principal: Principal, names: list[str | None]
    ) -> dict[str | None, Placement | str]:
        def read(connection: Connection) -> dict[str | None, Placement | str | None]:
            return {name: self._find(connection, principal, name) for name in names}

        moment, changes = self._monotonic(), self._changes
        found = await self._database.read(read, Lane.KEY)
        missing = [name for name, placement in found.items() if placement is None]
        if missing and self._settings.creates_projects:
            found |= await self._database.write(
                lambda connection: {name: self._create(connection, principal, name) for name in missing}
            )
        outside = self._place_outside(principal)
        placements = {name: outside if placement is None else placement for name, placement in found.items()}
        if changes == self._changes:
            if len(self._known) > _MAX_KNOWN:
                self._known.clear()
            for name, placement in placements.items():
                # One that is unknown may be created at any moment.
                if found[name] is not None or self._hears_of_new:
                    self._known[principal.id, principal.tenant, name] = _Known(placement, moment + _SECONDS)
        return placements

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
