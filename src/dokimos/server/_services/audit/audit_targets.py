"""What a service says about its change for the audit log, beyond what the route and its events tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection

from dokimos.server._db.outbox import post

Details = Mapping[str, str | int | float | bool | None]
"""A few facts; never contents, never secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditNote:
    """What a change is about."""

    kind: str
    id: str | None = None
    name: str | None = None
    tenant: str | None = None
    details: Details = field(default_factory=dict)


def describe_target(
    connection: Connection,
    *,
    kind: str,
    id: str | None = None,
    name: str | None = None,
    tenant: str | None = None,
    details: Details | None = None,
) -> None:
    """Say in a transaction what it changes, for its row in the audit log.

    Needed only where neither the path nor an event says it, as with what is created.

    Args:
        kind: Such as `api-key`.
        tenant: The tenant that it belongs to, whose administrators may then see the row.
        details: A few facts, such as the role of a key; never contents, never secrets.
    """
    post(connection, AuditNote(kind=kind, id=id, name=name, tenant=tenant, details=details or {}))
