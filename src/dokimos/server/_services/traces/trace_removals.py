"""Traces that people delete, themselves or with their project, and what became of those that are gone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Row, and_, delete, func, or_, select, true
from sqlalchemy.sql.elements import ColumnElement

from dokimos.server._db.clock import DAY, HOUR, now
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.tables import PROJECTS
from dokimos.server._db.trace_tables import REMOVED_PROJECTS, TRACE_DAYS, TRACES
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.errors import ConflictError
from dokimos.server._services.traces.trace_details import find_trace
from dokimos.server._services.traces.trace_retention import mark_traces

_MARKED_AT_ONCE: Final = 500
_UNDECIDED: Final = HOUR
"""How long after somebody asked a project may still be deleted by that request."""
_LATE: Final = DAY
"""How long spans may come that servers have placed in a project before it was deleted."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What has been removed of the traces of some days."""

    traces: int
    spans: int
    last_removed_at: int


def find_deletable_trace(connection: Connection, principal: Principal, identifier: UUID) -> Row[Any]:
    """Return the trace that a caller is about to delete.

    Args:
        identifier: Of its row, or its trace id.

    Raises:
        NotFoundError: There is none that the caller sees.
        ConflictError: Several have the trace id.
        ForbiddenError: The caller may not change it.
    """
    row = find_trace(connection, principal, identifier)
    if row.id != str(identifier):
        same = select(TRACES.c.id).where(TRACES.c.trace_id == row.trace_id, principal.sees(TRACES))
        ids = connection.execute(same.limit(2)).scalars().all()
        if len(ids) > 1:
            raise ConflictError(
                f"Traces of several tenants have the id {row.trace_id}: delete one by its id in the list"
            )
    principal.check_may_write(row.tenant_id, f"The trace {row.trace_id}", project=row.project_id)
    return row


def check_holds_no_foreign_traces(connection: Connection, principal: Principal, project: Row[object]) -> None:
    """Raise `ConflictError` where a project has traces of tenants that the caller does not see."""
    of_project = (TRACES.c.project_id == project.id, TRACES.c.deleted_at.is_(None))
    query = select(TRACES.c.id).where(*of_project, principal.is_foreign(TRACES)).limit(1)
    if principal.is_restricted and connection.execute(query).first() is not None:
        raise ConflictError(
            f"The project '{project.name}' holds traces of other tenants; only a key without a tenant can "
            "delete it"
        )


def note_removed_project(connection: Connection, project_id: str) -> None:
    """Note that a project is about to be deleted, before it is: so no trace of it is forgotten."""
    insert = INSERTS[connection.dialect.name](REMOVED_PROJECTS)
    connection.execute(
        insert.values(project_id=project_id, asked_at=now()).on_conflict_do_update(
            index_elements=[REMOVED_PROJECTS.c.project_id], set_={"asked_at": insert.excluded.asked_at}
        )
    )


def list_removed_projects(connection: Connection) -> dict[str, int]:
    """Return the projects that somebody has asked to delete, each with when."""
    rows = connection.execute(select(REMOVED_PROJECTS))
    return {row.project_id: row.asked_at for row in rows}


def find_present_projects(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Return which of some projects are not deleted; the connection is that of the other tables."""
    query = select(PROJECTS.c.id).where(PROJECTS.c.id.in_(list(ids)), PROJECTS.c.deleted_at.is_(None))
    return set(connection.execute(query).scalars())


def forget_removed_project(
    connection: Connection, project_id: str, asked_at: int, *, is_present: bool
) -> int:
    """Note no longer that a project is being deleted, once that is long ago: it was, or never will be."""
    last = now() - (_UNDECIDED if is_present else _LATE)
    is_noted = (REMOVED_PROJECTS.c.project_id == project_id, REMOVED_PROJECTS.c.asked_at == asked_at)
    return connection.execute(
        delete(REMOVED_PROJECTS).where(*is_noted, REMOVED_PROJECTS.c.asked_at <= last)
    ).rowcount


def mark_traces_of(connection: Connection, project_id: str) -> int:
    """Let nobody read some of the traces of a project any more; return how many, 0 when none is left."""
    of_project = (TRACES.c.project_id == project_id, TRACES.c.deleted_at.is_(None))
    chosen = select(TRACES.c.id).where(*of_project).order_by(TRACES.c.id.desc()).limit(_MARKED_AT_ONCE)
    return mark_traces(connection, list(connection.execute(chosen.with_for_update()).scalars()))


def find_removal(
    connection: Connection,
    principal: Principal,
    *,
    trace: str | None = None,
    begin: int | None = None,
    end: int | None = None,
    project_id: str | None = None,
) -> Removal | None:
    """Return what was removed of the traces that a caller would see, None where nothing was.

    Args:
        trace: The id of a row, which says when it was made: what is asked for is its day.
        begin: The first moment, in microseconds; by default of all that the server knows. Likewise `end`.
        project_id: A project, None for all of them.
    """
    if trace is not None:
        begin = end = (UUID(trace).int >> 80) * 1000
    conditions = [_is_visible(principal)]
    if begin is not None:
        conditions.append(TRACE_DAYS.c.day >= begin // DAY)
    if end is not None:
        conditions.append(TRACE_DAYS.c.day <= end // DAY)
    if project_id is not None:
        conditions.append(TRACE_DAYS.c.project_key == project_id)
    columns = (TRACE_DAYS.c.removed_traces, TRACE_DAYS.c.removed_spans)
    sums = (func.sum(columns[0]), func.sum(columns[1]), func.max(TRACE_DAYS.c.removed_at))
    traces, spans, at = connection.execute(select(*sums).where(*conditions)).one()
    return None if not traces else Removal(int(traces), int(spans), at)


def _is_visible(principal: Principal) -> ColumnElement[bool]:
    """The condition that a caller sees the traces that a row of `trace_days` counts."""
    conditions: list[ColumnElement[bool]] = [true()]
    if principal.is_restricted:
        conditions.append(or_(TRACE_DAYS.c.tenant_key == "", TRACE_DAYS.c.tenant_key == principal.tenant))
    if principal.role is Role.NONE:
        conditions.append(TRACE_DAYS.c.project_key.in_(principal.project_roles.keys()))
    return and_(*conditions)
