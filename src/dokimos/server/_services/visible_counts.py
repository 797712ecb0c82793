"""Counts of what a caller sees: below a shared row there may be rows of other tenants."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, func, select

from dokimos.server._db.tables import EXPERIMENTS, PROJECTS, RUNS
from dokimos.server._services.principal import Principal

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
    """Select projects or experiments with the counts of what the caller sees below them.

    The counts of all rows are kept. For a caller that does not see all, the rows of other tenants are
    subtracted; an index has only the rows that belong to a tenant, so where there are no tenants, there is
    nothing to count.
    """
    if not principal.is_restricted:
        return select(table)
    counted = _COUNTED[table]
    columns: list[ColumnElement[Any]] = []
    for name, column in table.c.items():
        if name in counted:
            visible = column - _count_foreign(table, principal, *counted[name])
            columns.append(visible.label(name))
        else:
            columns.append(column)
    return select(*columns)


def _count_foreign(
    table: Table, principal: Principal, below: Table, is_below: ColumnElement[bool]
) -> ColumnElement[int]:
    query = select(func.count()).select_from(below).where(is_below, principal.is_foreign(below))
    return query.where(below.c.deleted_at.is_(None)).correlate(table).scalar_subquery()
