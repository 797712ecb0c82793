"""Datasets and their versions: created, found, listed, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, case, func, select, update

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.tables import DATASET_VERSIONS, DATASETS
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.datasets.dataset_access import projects_of_dataset
from dokimos.server._services.errors import ConflictError, NotFoundError
from dokimos.server._services.events import Event, EventKind, announce
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.names import check_name
from dokimos.server._services.projects.projects import contains, find_named

LATEST = "latest"
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """A dataset as lists show it: with the latest version that the caller sees."""

    id: str
    name: str
    description: str | None
    created_at: int
    updated_at: int
    latest_version: int | None
    latest_item_count: int


def create_dataset(
    connection: Connection, principal: Principal, name: str, description: str | None
) -> Row[Any]:
    """Create an empty dataset and return its row.

    Raises:
        ConflictError: The name is taken.
        RoleError: The caller's role allows it to create no datasets.
    """
    check_name(name, "name")
    _check_may_create(connection, principal, name)
    moment = now()
    dataset_id = new_id()
    is_new = insert_if_absent(
        connection,
        DATASETS,
        id=dataset_id,
        tenant_id=principal.tenant,
        name=name,
        description=description,
        created_at=moment,
        updated_at=moment,
    )
    if not is_new:
        raise _is_taken(name)
    dataset = connection.execute(select(DATASETS).where(DATASETS.c.id == dataset_id)).one()
    _announce(connection, EventKind.DATASET_CREATED, dataset)
    return dataset


def find_dataset(connection: Connection, principal: Principal, name: str) -> Row[Any]:
    """Return a dataset by its name.

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    row = find_named(connection, DATASETS, principal, DATASETS.c.name == name)
    if row is None:
        raise NotFoundError(f"Dataset not found: {name}")
    return row


DATASET_ORDERS: Final = SortKeys(
    {
        "createdAt": DATASETS.c.created_at,
        "updatedAt": DATASETS.c.updated_at,
        "name": func.lower(DATASETS.c.name),
    },
    ties=(DATASETS.c.id,),
    default="createdAt,desc",
)
VERSION_ORDERS: Final = SortKeys(
    {
        "version": DATASET_VERSIONS.c.version,
        "createdAt": DATASET_VERSIONS.c.created_at,
        "itemCount": DATASET_VERSIONS.c.item_count,
    },
    ties=(DATASET_VERSIONS.c.version,),
    default="version,desc",
)
NEWEST_VERSIONS: Final = ListPage(VERSION_ORDERS.parse(None))
"""All versions of a dataset, the newest first."""


def list_datasets(
    connection: Connection, principal: Principal, page: ListPage, *, search: str | None = None
) -> list[DatasetSummary]:
    """Return a page of the datasets that the caller sees."""
    visible = select(DATASETS).where(principal.sees(DATASETS))
    conditions = []
    if search:
        conditions.append(contains(DATASETS.c.name, search) | contains(DATASETS.c.description, search))
    page = replace(page, order=page.order.replace({DATASETS.c.updated_at: _visible_update(principal)}))
    rows = read_page(connection, visible, page, DATASETS.c.id, *conditions)
    return _summarize(connection, principal, rows)


def describe_dataset(
    connection: Connection,
    principal: Principal,
    name: str,
    page: ListPage = NEWEST_VERSIONS,
    *,
    search: str | None = None,
) -> tuple[DatasetSummary, Sequence[Row[Any]]]:
    """Return a dataset and a page of its versions.

    Args:
        search: A text that the descriptions of the versions contain.
    """
    dataset = find_dataset(connection, principal, name)
    (summary,) = _summarize(connection, principal, [dataset])
    visible = _visible(principal).where(DATASET_VERSIONS.c.dataset_id == dataset.id)
    conditions = [contains(DATASET_VERSIONS.c.description, search)] if search else []
    return summary, read_page(connection, visible, page, DATASET_VERSIONS.c.id, *conditions)


def find_version(connection: Connection, principal: Principal, dataset: Row[Any], version: str) -> Row[Any]:
    """Return a version of a dataset by its number, or the `latest` one.

    Raises:
        NotFoundError: There is none that the caller sees, or the text is neither.
    """
    query = _visible(principal).where(DATASET_VERSIONS.c.dataset_id == dataset.id)
    if version == LATEST:
        query = query.order_by(DATASET_VERSIONS.c.version.desc()).limit(1)
    elif version.isascii() and version.isdecimal() and len(version) <= _MOST_DIGITS:
        query = query.where(DATASET_VERSIONS.c.version == int(version))
    else:
        raise NotFoundError(f"A version is a whole number from 1 on, or 'latest', not '{version[:40]}'")
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(f"Dataset version not found: {dataset.name}@{version}")
    return row


def delete_dataset(connection: Connection, principal: Principal, name: str) -> None:
    """Delete a dataset with all its versions.

    Raises:
        NotFoundError: There is none of that name that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
        ConflictError: It is shared, and has versions of other tenants.
    """
    dataset = find_dataset(connection, principal, name)
    principal.check_may_write(dataset.tenant_id, f"The dataset '{name}'", project=None)
    foreign = select(DATASET_VERSIONS.c.id).where(
        DATASET_VERSIONS.c.dataset_id == dataset.id, principal.is_foreign(DATASET_VERSIONS)
    )
    if connection.execute(foreign.limit(1)).first() is not None:
        raise ConflictError(
            f"The dataset '{name}' has versions of other tenants; only a key without a tenant can delete it"
        )
    connection.execute(update(DATASETS).where(DATASETS.c.id == dataset.id).values(deleted_at=now()))
    _announce(connection, EventKind.DATASET_DELETED, dataset)


def _announce(connection: Connection, kind: EventKind, dataset: Row[Any]) -> None:
    event = Event(
        kind=kind,
        tenants=(dataset.tenant_id,),
        data={"datasetId": dataset.id},
        projects=projects_of_dataset(connection, dataset.id),
    )
    announce(connection, event)


def _check_may_create(connection: Connection, principal: Principal, name: str) -> None:
    """Raise unless the caller may create datasets, which lie outside of projects.

    An EDITOR of a project that was given a dataset is told that there is one, as those are who may create
    it: it can go on and add a version.
    """
    if principal.role >= Role.EDITOR:
        return
    if find_named(connection, DATASETS, principal, DATASETS.c.name == name) is not None:
        raise _is_taken(name)
    principal.check_role(None)


def _is_taken(name: str) -> ConflictError:
    return ConflictError(f"A dataset named '{name}' exists already")


def _visible(principal: Principal) -> Any:
    return select(DATASET_VERSIONS).where(
        principal.sees(DATASET_VERSIONS), DATASET_VERSIONS.c.version.is_not(None)
    )


def _summarize(
    connection: Connection, principal: Principal, rows: Sequence[Row[Any]]
) -> list[DatasetSummary]:
    latest = {row.id: (row.updated_at, row.latest_version, row.latest_item_count) for row in rows}
    shared = {row.id: row for row in rows if row.tenant_id is None}
    if principal.is_restricted and shared:
        # Other tenants may have added versions to these, which the row tells of.
        latest.update((row.id, (row.created_at, None, 0)) for row in shared.values())
        latest.update(_latest_versions(connection, principal, list(shared)))
    return [
        DatasetSummary(row.id, row.name, row.description, row.created_at, *latest[row.id]) for row in rows
    ]


def _latest_versions(
    connection: Connection, principal: Principal, dataset_ids: Sequence[str]
) -> dict[str, tuple[int, int, int]]:
    """Return when each dataset got a version last, its latest version and how many items that has."""
    latest: dict[str, tuple[int, int, int]] = {}
    for batch in in_batches(dataset_ids):
        newest = (
            select(
                DATASET_VERSIONS.c.dataset_id,
                func.max(DATASET_VERSIONS.c.version).label("version"),
                func.max(DATASET_VERSIONS.c.created_at).label("updated_at"),
            )
            .where(principal.sees(DATASET_VERSIONS), DATASET_VERSIONS.c.version.is_not(None))
            .where(DATASET_VERSIONS.c.dataset_id.in_(batch))
            .group_by(DATASET_VERSIONS.c.dataset_id)
            .subquery()
        )
        is_newest = (newest.c.dataset_id == DATASET_VERSIONS.c.dataset_id) & (
            newest.c.version == DATASET_VERSIONS.c.version
        )
        query = select(newest, DATASET_VERSIONS.c.item_count)
        for row in connection.execute(query.select_from(DATASET_VERSIONS.join(newest, is_newest))):
            latest[row.dataset_id] = row.updated_at, row.version, row.item_count
    return latest


def _visible_update(principal: Principal) -> ColumnElement[int]:
    """Return when a dataset last changed, of what the caller sees."""
    if not principal.is_restricted:
        return DATASETS.c.updated_at
    versions = _visible(principal).where(DATASET_VERSIONS.c.dataset_id == DATASETS.c.id)
    newest = versions.with_only_columns(func.max(DATASET_VERSIONS.c.created_at)).correlate(DATASETS)
    shared = func.coalesce(newest.scalar_subquery(), DATASETS.c.created_at)
    return case((DATASETS.c.tenant_id.is_(None), shared), else_=DATASETS.c.updated_at)
