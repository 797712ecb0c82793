"""Counts and times of what a caller sees: below a shared row there may be rows of other tenants."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, case, func, select

from dokimos.server._db.tables import EXPERIMENTS, PROJECTS, RUNS
from dokimos.server._services.accounts.principal import Principal

# The project is named too where an experiment would do: the index of the tenants' runs begins with it.
_RUNS_OF_EXPERIMENT: Final = (RUNS.c.project_id == EXPERIMENTS.c.project_id) & (
    RUNS.c.experiment_id == EXPERIMENTS.c.id
)
_COUNTED: Final[dict[Table, dict[str, tuple[Table, ColumnElement[bool]]]]] = {
    PROJECTS: {
        "experiment_count": (EXPERIMENTS, EXPERIMENTS.c.project_id == PROJECTS.c.id),
        "run_count": (RUNS, RUNS.c.project_id == PROJECTS.c.id),
    },
    EXPERIMENTS: {"run_count": (RUNS, _RUNS_OF_EXPERIMENT)},
}


def select_counted(table: Table, principal: Principal) -> Select[Any]:
    """Select projects or experiments with the counts, and the last activity, of what the caller sees below.

    The counts of all rows are kept. For a caller that does not see all, the rows of other tenants are
    subtracted; an index has only the rows that belong to a tenant, so where there are no tenants, there is
    nothing to count.
    """
    if not principal.is_restricted:
        return select(table)
    counted = _COUNTED[table]
    columns: list[ColumnElement[Any]] = []
    for name, column in table.c.items():
        if column is PROJECTS.c.last_activity_at:
            columns.append(visible_activity(principal).label(name))
        elif name in counted:
            visible = column - _count_foreign(table, principal, *counted[name])
            columns.append(visible.label(name))
        else:
            columns.append(column)
    return select(*columns)


def visible_activity(principal: Principal) -> ColumnElement[int]:
    """Return when something last happened in a project, of what the caller sees there.

    For a caller that does not see all: of a shared project, the time of what happened to shared rows is kept,
    and the runs of its own tenant are looked up.
    """
    if not principal.is_restricted:
        return PROJECTS.c.last_activity_at
    # Without it, an older server has created the project while the servers were being replaced.
    shared = func.coalesce(PROJECTS.c.shared_activity_at, PROJECTS.c.created_at)
    moment = func.coalesce(RUNS.c.completed_at, RUNS.c.started_at)
    is_own = (RUNS.c.project_id == PROJECTS.c.id, RUNS.c.tenant_id == principal.tenant)
    own = select(func.max(moment)).where(*is_own, RUNS.c.deleted_at.is_(None), moment > shared)
    latest = func.coalesce(own.correlate(PROJECTS).scalar_subquery(), shared)
    return case((PROJECTS.c.tenant_id.is_(None), latest), else_=PROJECTS.c.last_activity_at)


def activity_at(moment: int, tenant: str | None) -> dict[str, int]:
    """Return what a project keeps of the time at which something happened to a row below it.

    Args:
        moment: When it happened.
        tenant: Of the row, None for a shared one.
    """
    values = {"last_activity_at": moment}
    return {**values, "shared_activity_at": moment} if tenant is None else values


def _count_foreign(
    table: Table, principal: Principal, below: Table, is_below: ColumnElement[bool]
) -> ColumnElement[int]:
    query = select(func.count()).select_from(below).where(is_below, principal.is_foreign(below))
    return query.where(below.c.deleted_at.is_(None)).correlate(table).scalar_subquery()
