"""Datasets that projects were given, and those that their runs use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, select, update

from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.people_tables import PROJECT_DATASETS
from dokimos.server._db.tables import DATASET_VERSIONS, DATASETS, RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.datasets.datasets import find_dataset
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.projects import contains, find_project

PROJECT_DATASET_ORDERS: Final = SortKeys(
    {"name": func.lower(DATASETS.c.name)}, ties=(DATASETS.c.id,), default="name"
)


def list_project_datasets(
    connection: Connection, principal: Principal, project_name: str, page: ListPage, *, search: str | None
) -> Sequence[Row[Any]]:
    """Return a page of the datasets that a project knows of; each row has `id`, `name` and `is_granted`.

    Raises:
        NotFoundError: There is no such project that the caller sees.
    """
    project = find_project(connection, principal, project_name)
    visible = (
        select(DATASETS.c.id, DATASETS.c.name, PROJECT_DATASETS.c.is_granted)
        .join(PROJECT_DATASETS, PROJECT_DATASETS.c.dataset_id == DATASETS.c.id)
        .where(PROJECT_DATASETS.c.project_id == project.id, principal.sees(DATASETS))
    )
    conditions = [contains(DATASETS.c.name, search)] if search else []
    return read_page(connection, visible, page, DATASETS.c.id, *conditions)


def grant_dataset(connection: Connection, principal: Principal, project_name: str, dataset_name: str) -> None:
    """Give a dataset to a project: its members may read it, and its EDITORs may add versions.

    Raises:
        NotFoundError: The caller does not see the project or the dataset.
        RoleError: It may not change the dataset.
        ForbiddenError: The dataset is shared, and closed to this caller.
    """
    project_id, dataset_id = _find(connection, principal, project_name, dataset_name)
    statement = INSERTS[connection.dialect.name](PROJECT_DATASETS).values(
        project_id=project_id, dataset_id=dataset_id, is_granted=True
    )
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["project_id", "dataset_id"], set_={"is_granted": True}
        )
    )


def revoke_dataset(
    connection: Connection, principal: Principal, project_name: str, dataset_name: str
) -> None:
    """Take a dataset from a project; its members still read it if a run of the project uses it.

    Raises what `grant_dataset` raises.
    """
    project_id, dataset_id = _find(connection, principal, project_name, dataset_name)
    is_chosen = (PROJECT_DATASETS.c.project_id == project_id, PROJECT_DATASETS.c.dataset_id == dataset_id)
    use = (
        select(RUNS.c.id)
        .join(DATASET_VERSIONS, DATASET_VERSIONS.c.id == RUNS.c.dataset_version_id)
        .where(
            RUNS.c.project_id == project_id,
            RUNS.c.deleted_at.is_(None),
            DATASET_VERSIONS.c.dataset_id == dataset_id,
        )
    )
    if connection.execute(use.limit(1)).first() is None:
        connection.execute(delete(PROJECT_DATASETS).where(*is_chosen))
    else:
        connection.execute(update(PROJECT_DATASETS).where(*is_chosen).values(is_granted=False))


def _find(
    connection: Connection, principal: Principal, project_name: str, dataset_name: str
) -> tuple[str, str]:
    project = find_project(connection, principal, project_name)
    dataset = find_dataset(connection, principal, dataset_name)
    for row, what in ((dataset, f"The dataset '{dataset_name}'"), (project, f"The project '{project_name}'")):
        principal.check_may_write(row.tenant_id, what, project=None)
    return project.id, dataset.id
