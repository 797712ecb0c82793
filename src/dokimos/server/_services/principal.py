"""Who calls: a role, and the tenant whose rows may be seen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from sqlalchemy import ColumnElement, Table, and_, false, or_, true

from dokimos.server._services.errors import ForbiddenError


class Role(IntEnum):
    """What a caller may do; a higher role may do all that a lower one may."""

    VIEWER = 1
    EDITOR = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller."""

    id: str
    """The id of its API key, or `system`, or `anonymous`."""
    role: Role
    tenant: str | None = None
    """The tenant whose rows it sees beside the shared ones; None where it has none."""
    is_restricted: bool = False
    """Whether it sees only its tenant's rows and the shared ones."""
    may_write_shared: bool = True
    """Whether a restricted caller may change shared rows."""

    def sees(self, table: Table) -> ColumnElement[bool]:
        """The condition that a row of the table may be read, which is not deleted."""
        is_there = table.c.deleted_at.is_(None) if "deleted_at" in table.c else true()
        if not self.is_restricted:
            return is_there
        if self.tenant is None:
            return and_(is_there, table.c.tenant_id.is_(None))
        return and_(is_there, or_(table.c.tenant_id == self.tenant, table.c.tenant_id.is_(None)))

    def is_foreign(self, table: Table) -> ColumnElement[bool]:
        """The condition that a row of the table belongs to a tenant whose rows this caller does not see."""
        if not self.is_restricted:
            return false()
        is_owned = table.c.tenant_id.is_not(None)
        return is_owned if self.tenant is None else and_(is_owned, table.c.tenant_id != self.tenant)

    def sees_tenant(self, tenant_of_row: str | None) -> bool:
        """Whether it sees rows of a tenant, or with None the shared ones."""
        return not self.is_restricted or tenant_of_row is None or tenant_of_row == self.tenant

    def check_may_write(self, tenant_of_row: str | None, what: str) -> None:
        """Raise `ForbiddenError` where a row that the caller sees is closed to it.

        Args:
            tenant_of_row: The tenant of the row, None for a shared one.
            what: The row as the message names it, such as `The project 'chat'`.
        """
        if self.is_restricted and tenant_of_row is None and not self.may_write_shared:
            raise ForbiddenError(f"{what} is shared, and shared rows are read-only for keys of a tenant.")


SYSTEM: Final = Principal("system", Role.ADMIN)
"""The caller in open mode, with the key of the environment, and the server's own workers."""
ANONYMOUS: Final = Principal("anonymous", Role.VIEWER, is_restricted=True)
"""A reader without a key, where keys exist: sees the shared rows."""
