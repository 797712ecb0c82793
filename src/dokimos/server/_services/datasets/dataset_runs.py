"""Which runs used a dataset, whatever their experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from dokimos.server._db.tables import DATASET_VERSIONS, EXPERIMENTS, PROJECTS, RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.datasets.datasets import find_dataset
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page

DATASET_RUN_ORDERS: Final = SortKeys(
    {"startedAt": RUNS.c.started_at}, ties=(RUNS.c.id,), default="startedAt,desc"
)
_COLUMNS: Final = (
    "id", "name", "experiment_id", "status", "started_at", "item_count", "passed_count", "errored_count",
    "informational_count", "judged_count",
)  # fmt: skip


def list_dataset_runs(
    connection: Connection, principal: Principal, name: str, version_id: str | None, page: ListPage
) -> Sequence[Row[Any]]:
    """Return a page of the runs that used a dataset, or one version of it.

    Raises:
        NotFoundError: There is no such dataset that the caller sees.
        InvalidRequestError: The page goes on behind a run that did not use it.
    """
    dataset = find_dataset(connection, principal, name)
    versions = select(DATASET_VERSIONS.c.id).where(DATASET_VERSIONS.c.dataset_id == dataset.id)
    if version_id is not None:
        versions = versions.where(DATASET_VERSIONS.c.id == version_id)
    rows = (
        select(
            *(RUNS.c[name] for name in _COLUMNS),
            DATASET_VERSIONS.c.version,
            EXPERIMENTS.c.name.label("experiment_name"),
            PROJECTS.c.name.label("project_name"),
        )
        .join(DATASET_VERSIONS, DATASET_VERSIONS.c.id == RUNS.c.dataset_version_id)
        .join(EXPERIMENTS, EXPERIMENTS.c.id == RUNS.c.experiment_id)
        .join(PROJECTS, PROJECTS.c.id == RUNS.c.project_id)
        .where(RUNS.c.dataset_version_id.in_(versions), principal.sees(RUNS))
        .where(EXPERIMENTS.c.deleted_at.is_(None), PROJECTS.c.deleted_at.is_(None))
    )
    return read_page(connection, rows, page, RUNS.c.id)
