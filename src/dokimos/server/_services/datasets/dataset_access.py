"""Which projects know of a dataset.

Datasets lie outside of projects. Who sees nothing but its projects sees the datasets that these know of:
those that a run of them uses, and those that they were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, select, true

from dokimos.server._db.batches import in_batches
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.people_tables import PROJECT_DATASETS
from dokimos.server._db.tables import RUNS
from dokimos.server._services.accounts.principal import Principal, Role

_MOST_TOLD: Final = 100
"""Projects that an event about a dataset names: what PostgreSQL carries from server to server is short."""


def note_use(connection: Connection, project_id: str, dataset_id: str) -> None:
    """Let a project know of a dataset that a run of it uses."""
    insert_if_absent(
        connection, PROJECT_DATASETS, project_id=project_id, dataset_id=dataset_id, is_granted=False
    )


def projects_of_dataset(connection: Connection, dataset_id: str) -> tuple[str, ...]:
    """Return the projects that know of a dataset, as an event about it names them."""
    query = select(PROJECT_DATASETS.c.project_id).where(PROJECT_DATASETS.c.dataset_id == dataset_id)
    return tuple(connection.execute(query.limit(_MOST_TOLD)).scalars())


def check_may_add_version(connection: Connection, principal: Principal, dataset: Row[Any]) -> None:
    """Raise unless the caller may add versions to a dataset that it sees.

    An EDITOR may; and so may an EDITOR of a project that was given the dataset.

    Raises:
        RoleError: The caller is neither.
        ForbiddenError: The dataset is shared, and closed to this caller.
    """
    project = None
    if principal.role < Role.EDITOR:
        edited = [each for each, role in principal.project_roles.items() if role >= Role.EDITOR]
        query = select(PROJECT_DATASETS.c.project_id).where(
            PROJECT_DATASETS.c.dataset_id == dataset.id,
            PROJECT_DATASETS.c.is_granted.is_(true()),
            PROJECT_DATASETS.c.project_id.in_(edited),
        )
        project = connection.execute(query.limit(1)).scalar()
    principal.check_may_write(dataset.tenant_id, f"The dataset '{dataset.name}'", project=project)


def find_hidden_sources(connection: Connection, principal: Principal, items: Sequence[Row[Any]]) -> set[str]:
    """Return the runs that items were promoted from and that the caller does not see.

    Whoever has promoted them saw both; what the caller sees of the dataset says nothing of such runs.
    """
    if not principal.is_restricted and principal.role is not Role.NONE:
        return set()
    runs = {item.source_run_id for item in items if item.source_run_id is not None}
    hidden: set[str] = set()
    for batch in in_batches(sorted(runs)):
        query = select(RUNS.c.id, RUNS.c.tenant_id, RUNS.c.project_id).where(RUNS.c.id.in_(batch))
        hidden.update(
            row.id
            for row in connection.execute(query)
            if not (principal.sees_tenant(row.tenant_id) and principal.sees_project(row.project_id))
        )
    return hidden
