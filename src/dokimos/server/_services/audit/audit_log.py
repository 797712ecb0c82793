"""The audit log: who changed what, and what was refused. Rows are added, never changed by a caller."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, get_args

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, insert, or_, select

from dokimos.server._db.audit_tables import AUDIT_LOG
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.ids import new_id, parse_id
from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.accounts.principal import Principal, PrincipalKind
from dokimos.server._services.audit.audit_actions import NO_TARGET, Target
from dokimos.server._services.audit.audit_targets import Details
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.projects import contains

PURGE_ROWS: Final = 500
"""Rows that one transaction deletes at most: other writers wait no longer than that takes."""


class Outcome(StrEnum):
    """What became of a request."""

    OK = "ok"
    REFUSED = "refused"
    """The server did not do it, because of who asked or of what was asked."""
    FAILED = "failed"
    """The server could not do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """What a row says; two that are equal are counted in one row, where they are counted."""

    principal_kind: str
    principal_id: str
    principal_name: str | None = None
    tenant: str | None = None
    address: str | None = None
    action: str
    target: Target = NO_TARGET
    project_id: str | None = None
    outcome: Outcome = Outcome.OK
    status: int | None = None
    details: str | None = None
    """JSON."""


def add_entry(
    connection: Connection, entry: AuditEntry, *, request_id: str | None = None, times: int = 1
) -> str:
    """Add a row in the transaction of what it speaks of; return its id."""
    row_id, moment = new_id(), now()
    connection.execute(
        insert(AUDIT_LOG), [row_of(entry, row_id, moment, moment, request_id=request_id, times=times)]
    )
    return row_id


def row_of(
    entry: AuditEntry, row_id: str, first: int, last: int, *, request_id: str | None, times: int
) -> dict[str, object]:
    """Return the row of an entry.

    Args:
        first: When it happened for the first time, in microseconds since 1970.
        last: When it happened for the last time.
        request_id: That of the first time.
        times: How often it happened.
    """
    return {
        "id": row_id,
        "created_at": first,
        "last_at": last,
        "times": times,
        "principal_kind": entry.principal_kind,
        "principal_id": entry.principal_id,
        "principal_name": entry.principal_name,
        "tenant_id": entry.tenant,
        "address": entry.address,
        "request_id": request_id,
        "action": entry.action,
        "target_kind": entry.target.kind,
        "target_id": entry.target.id,
        "target_name": entry.target.name,
        "project_id": entry.project_id,
        "outcome": entry.outcome,
        "status": entry.status,
        "details": entry.details,
    }


def record_action(
    connection: Connection,
    action: str,
    principal: Principal,
    *,
    target: Target | None = None,
    details: Details | None = None,
) -> None:
    """Add a row for what no request asked for: a command, or the server's own work.

    Args:
        action: Such as `db.restore` or `server.start`.
        principal: Who did it, as `worker("retention")` or `command_line("db restore")` say.
        details: A few facts; never contents, never secrets.
    """
    entry = AuditEntry(
        principal_kind=principal.kind,
        principal_id=principal.id,
        principal_name=principal.name,
        tenant=principal.tenant,
        action=action,
        target=target or NO_TARGET,
        details=dump_details(details or {}),
    )
    add_entry(connection, entry)


def dump_details(details: Details) -> str | None:
    """Return details as JSON, None where there are none."""
    return json.dumps(dict(details), ensure_ascii=False) if details else None


AUDIT_ORDERS: Final = SortKeys({"time": AUDIT_LOG.c.created_at}, ties=(AUDIT_LOG.c.id,), default="time,desc")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which rows are asked for; all of them by default."""

    principal: str | None = None
    """The id, the name or the kind of who did it."""
    action: str | None = None
    """The action, or its beginning: `run` is also `run.delete`."""
    target: str | None = None
    """The id or the name of what it was done to."""
    project: str | None = None
    """The id or the name of a project."""
    outcome: Outcome | None = None
    since: int | None = None
    """The earliest time, in microseconds since 1970."""
    until: int | None = None
    """The first time that is too late."""
    search: str | None = None
    """A text that occurs in who, what, from where or in which request."""

    @property
    def reads_all(self) -> bool:
        """Whether every row may have to be looked at: there is no index for texts and names."""
        texts = (self.principal, self.target, self.project)
        return bool(self.search) or any(text is not None and parse_id(text) is None for text in texts)

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what holds for the rows."""
        chosen = ((getattr(self, name), condition) for name, condition in _CONDITIONS.items())
        found = [condition(value) for value, condition in chosen if value is not None]
        if self.search:
            found.append(or_(*(contains(AUDIT_LOG.c[name], self.search) for name in _SEARCHED)))
        return found


_KINDS: Final = get_args(PrincipalKind)
_SEARCHED: Final = (
    "principal_id", "principal_name", "address", "request_id", "action", "target_id", "target_name",
)  # fmt: skip


def list_entries(
    connection: Connection, principal: Principal, chosen: AuditFilter, page: ListPage
) -> Sequence[Row[Any]]:
    """Return a page of the rows that the caller may see.

    Raises:
        InvalidRequestError: The page goes on behind a row that is not one of them.
    """
    return read_page(connection, _select_visible(principal), page, AUDIT_LOG.c.id, *chosen.conditions())


def purge_entries(connection: Connection, days: float, moment: int | None = None) -> int:
    """Remove some rows that are older than so many days; return how many, 0 when none is left.

    Args:
        moment: The time at which it is decided, in microseconds; now by default.
    """
    is_old = AUDIT_LOG.c.created_at < (now() if moment is None else moment) - int(days * DAY)
    chosen = select(AUDIT_LOG.c.id).where(is_old).order_by(AUDIT_LOG.c.created_at).limit(PURGE_ROWS)
    return connection.execute(delete(AUDIT_LOG).where(AUDIT_LOG.c.id.in_(chosen))).rowcount


def _select_visible(principal: Principal) -> Select[Any]:
    """The rows that an administrator may see: those of its tenant alone, never the shared ones."""
    return select(AUDIT_LOG).where(principal.administers(AUDIT_LOG))


def _is_named(
    text: str, id_column: ColumnElement[str], name_column: ColumnElement[str]
) -> ColumnElement[bool]:
    """The condition that an id or a name is this text; an id alone is found by its index."""
    known_id = parse_id(text)
    if known_id is not None:
        return id_column == known_id
    return or_(id_column == text, name_column == text)


def _is_of_project(project: str) -> ColumnElement[bool]:
    """The condition that a row is about a project or about what is in it."""
    columns = AUDIT_LOG.c
    named = (columns.target_kind == "project") & (columns.target_name == project)
    known_id = parse_id(project.lower())
    is_project = PROJECTS.c.id == known_id if known_id is not None else PROJECTS.c.name == project
    ids = select(PROJECTS.c.id).where(is_project)  # also of one that is deleted, while its row is there
    inside = columns.project_id == known_id if known_id is not None else columns.project_id.in_(ids)
    return or_(named, inside)


def _is_by(principal: str) -> ColumnElement[bool]:
    """The condition that a row is of a principal, or of principals of a kind."""
    if principal in _KINDS:
        return AUDIT_LOG.c.principal_kind == principal
    return _is_named(principal, AUDIT_LOG.c.principal_id, AUDIT_LOG.c.principal_name)


def _is_action(action: str) -> ColumnElement[bool]:
    """The condition that a row is of an action, or of one that begins with these words."""
    name = AUDIT_LOG.c.action
    # A range rather than LIKE, whose signs an action may contain; "/" is what follows ".".
    return or_(name == action, (name >= f"{action}.") & (name < f"{action}/"))


_CONDITIONS: Final[dict[str, Callable[[Any], ColumnElement[bool]]]] = {
    "principal": _is_by,
    "action": _is_action,
    "target": lambda target: _is_named(target, AUDIT_LOG.c.target_id, AUDIT_LOG.c.target_name),
    "project": _is_of_project,
    "outcome": lambda outcome: AUDIT_LOG.c.outcome == outcome,
    "since": lambda moment: AUDIT_LOG.c.created_at >= moment,
    "until": lambda moment: AUDIT_LOG.c.created_at < moment,
}
"""The fields of a filter, and what they mean."""
