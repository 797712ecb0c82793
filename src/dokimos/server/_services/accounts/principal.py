"""Who calls: its roles, the tenant whose rows it may see, and the projects that it is a member of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Literal

from sqlalchemy import ColumnElement, Table, and_, exists, false, or_, true

from dokimos.server._db.people_tables import PROJECT_DATASETS
from dokimos.server._db.tables import DATASET_VERSIONS, DATASETS, PROJECTS, RUNS
from dokimos.server._services.errors import ForbiddenError, RoleError


class Role(IntEnum):
    """What a caller may do; a higher role may do all that a lower one may."""

    NONE = 0
    """Nothing but what its roles in projects allow."""
    VIEWER = 1
    EDITOR = 2
    ADMIN = 3


PrincipalKind = Literal["key", "user", "system", "anonymous", "worker", "command"]
"""What a caller is: `worker` is the server's own work, `command` one of the command line."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller."""

    id: str
    """The id of its API key or of its user, or `system`, or `anonymous`."""
    role: Role
    """In all projects, and for what lies outside them."""
    tenant: str | None = None
    """The tenant whose rows it sees beside the shared ones; None where it has none."""
    is_restricted: bool = False
    """Whether it sees only its tenant's rows and the shared ones, whatever its roles are."""
    may_write_shared: bool = True
    """Whether a restricted caller may change shared rows."""
    kind: PrincipalKind = "key"
    name: str | None = None
    """What people call it, such as the name of its key; None where it has none."""
    project_roles: Mapping[str, Role] = field(default_factory=dict, hash=False)
    """Its roles in single projects, by their ids; the higher one of the two counts."""

    @property
    def highest_role(self) -> Role:
        """The highest of its roles, wherever it has that."""
        return max((self.role, *self.project_roles.values()))

    def role_in(self, project_id: str | None) -> Role:
        """Its role in a project; with None, for what lies outside all projects."""
        if project_id is None:
            return self.role
        return max(self.role, self.project_roles.get(project_id, Role.NONE))

    def sees(self, table: Table) -> ColumnElement[bool]:
        """The condition that a row of the table may be read, which is not deleted."""
        conditions: list[ColumnElement[bool]] = [true()]
        if "deleted_at" in table.c:
            conditions.append(table.c.deleted_at.is_(None))
        if self.is_restricted:
            is_shared = table.c.tenant_id.is_(None)
            own = self.tenant
            conditions.append(is_shared if own is None else or_(table.c.tenant_id == own, is_shared))
        if self.role is Role.NONE:
            conditions.append(_is_in(table, self.project_roles.keys()))
        return and_(*conditions)

    def administers(self, table: Table) -> ColumnElement[bool]:
        """The condition that a row is for this administrator to manage: of a tenant, its rows alone.

        Unlike `sees`, never the shared rows: a key or a user without a tenant is above those of one.
        """
        return table.c.tenant_id == self.tenant if self.is_restricted else true()

    def is_foreign(self, table: Table) -> ColumnElement[bool]:
        """The condition that a row of the table belongs to a tenant whose rows this caller does not see."""
        if not self.is_restricted:
            return false()
        is_owned = table.c.tenant_id.is_not(None)
        return is_owned if self.tenant is None else and_(is_owned, table.c.tenant_id != self.tenant)

    def sees_tenant(self, tenant_of_row: str | None) -> bool:
        """Whether it may see rows of a tenant, or with None the shared ones, if it sees their project."""
        return not self.is_restricted or tenant_of_row is None or tenant_of_row == self.tenant

    def sees_project(self, project_id: str | None) -> bool:
        """Whether it may see what is in a project, or with None what is in none, if it sees its tenant."""
        return self.role_in(project_id) is not Role.NONE

    def check_role(self, project_id: str | None, needed: Role = Role.EDITOR) -> None:
        """Raise `RoleError` where its role in a project is lower; None for what lies outside all projects."""
        if self.role_in(project_id) < needed:
            raise RoleError(f"Insufficient role: {needed.name} required")

    def check_may_write(self, tenant_of_row: str | None, what: str, *, project: str | None) -> None:
        """Raise where a row that the caller sees is closed to it.

        Args:
            tenant_of_row: The tenant of the row, None for a shared one.
            what: The row as the message names it, such as `The project 'chat'`.
            project: The id of the project that the row belongs to, None for what lies outside all projects.

        Raises:
            RoleError: The caller's role there is too low.
            ForbiddenError: The row is shared, and closed to tenants.
        """
        self.check_role(project)
        if self.is_restricted and tenant_of_row is None and not self.may_write_shared:
            raise ForbiddenError(f"{what} is shared, and shared rows are read-only for keys of a tenant.")


def _is_in(table: Table, projects: Collection[str]) -> ColumnElement[bool]:
    """The condition that a row belongs to one of some projects, or is a dataset that one of them knows of.

    A row of a table that says nothing of projects belongs to none.
    """
    if table is PROJECTS:
        return table.c.id.in_(projects)
    if "project_id" in table.c:
        return table.c.project_id.in_(projects)
    # Looked up for each row: the database would read all runs of the projects for an `IN`.
    if table is DATASETS or table is DATASET_VERSIONS:
        dataset = table.c.id if table is DATASETS else table.c.dataset_id
        is_known = (PROJECT_DATASETS.c.dataset_id == dataset, PROJECT_DATASETS.c.project_id.in_(projects))
        return exists().where(*is_known).correlate(table)
    if "run_id" in table.c:
        return exists().where(RUNS.c.id == table.c.run_id, RUNS.c.project_id.in_(projects)).correlate(table)
    return false()


SYSTEM: Final = Principal("system", Role.ADMIN, kind="system")
"""The caller in open mode, with the key of the environment, and the server's own workers."""
ANONYMOUS: Final = Principal("anonymous", Role.VIEWER, is_restricted=True, kind="anonymous")
"""A reader without a key, where keys exist: sees the shared rows."""


def worker(name: str) -> Principal:
    """Return whom the audit log names for what the server does by itself.

    Args:
        name: What the work is called, such as `Ending quiet runs`.
    """
    return Principal(name, Role.ADMIN, kind="worker")


def command_line(account: str) -> Principal:
    """Return whom the audit log names for a command.

    Args:
        account: The account of the machine that runs it.
    """
    return Principal(account, Role.ADMIN, kind="command")
