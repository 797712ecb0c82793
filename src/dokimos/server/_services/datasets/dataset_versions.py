"""Write a new version of a dataset: many small transactions of which nobody sees anything until the last.

A version gets its number when it is complete. Until then its row has none, and every reader passes over it;
so other writers never wait for a whole upload, and one that is cut short leaves nothing that anyone sees
(`_services.runs.maintenance` removes the rows).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, exists, insert, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.database import Database
from dokimos.server._db.ids import new_id, new_ids, parse_id
from dokimos.server._db.tables import DATASET_ITEMS, DATASET_VERSIONS, DATASETS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.datasets.dataset_access import check_may_add_version, projects_of_dataset
from dokimos.server._services.datasets.dataset_items import (
    WRITTEN_ITEMS,
    NewDatasetItem,
    find_items,
    find_lineages,
    insert_items,
)
from dokimos.server._services.datasets.datasets import LATEST, find_dataset, find_version
from dokimos.server._services.errors import (
    InvalidRequestError,
    NotFoundError,
    NotLatestError,
    UnavailableError,
)
from dokimos.server._services.events import Event, EventKind, announce

_GIVEN_UP: Final = 0
"""When a version was begun that nobody writes any more: at this time, so that its age shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """What is said about a version that is written."""

    dataset: str
    description: str | None = None
    base: str | None = None
    """The version that it is made from, whose number is kept; None for one that is sent whole."""
    only_if_changed: bool = False
    """Whether content that the latest version has already makes no new one."""
    expected_latest: int | None = None
    """The version that must still be the latest one, 0 for none; None where that does not matter."""


@dataclass(frozen=True, slots=True)
class UnfinishedVersion:
    """A version without a number, to which items are added."""

    id: str
    dataset_id: str
    base_id: str | None
    """The version in which cases are looked for, None where there is none yet."""
    base_number: int | None


@dataclass(frozen=True, slots=True)
class WrittenVersion:
    """A version with its number."""

    row: Row[Any]
    is_new: bool


async def write_version(
    database: Database, principal: Principal, new: NewVersion, batches: AsyncIterator[list[NewDatasetItem]]
) -> WrittenVersion:
    """Write a version from batches of items; what fails on the way leaves nothing.

    Raises:
        NotFoundError: The dataset or its base does not exist, or has been deleted meanwhile.
        ForbiddenError: The dataset is shared, and closed to this caller.
        InvalidRequestError: There are no items, or two have the same id.
        NotLatestError: Another version is the latest one by now.
        UnavailableError: It was taken for one that nobody writes any more.
    """
    # In the background like all parts but the last, which is the one that the audit log has a row of.
    begin = partial(begin_version, principal=principal, new=new)
    unfinished = await database.write(begin, background=True)
    digest = hashlib.sha256()
    count = 0
    try:
        async for batch in batches:
            for at in range(0, len(batch), WRITTEN_ITEMS):
                items = batch[at : at + WRITTEN_ITEMS]
                add = partial(add_items, version=unfinished, items=items, start=count)
                await database.write(add, background=True)
                count += len(items)
            for item in batch:
                digest.update(bytes.fromhex(item.content_hash.replace("-", "")))
        if count == 0:
            raise InvalidRequestError("must not be empty", field="items")
        publish = partial(
            publish_version,
            principal=principal,
            version=unfinished,
            new=new,
            count=count,
            content_hash=digest.hexdigest()[:32],
        )
        return await database.write(publish)
    except BaseException:
        with contextlib.suppress(Exception):  # what could not be discarded is found by its age
            await database.write(partial(discard_version, version=unfinished), background=True)
        raise


def begin_version(connection: Connection, principal: Principal, new: NewVersion) -> UnfinishedVersion:
    """Insert a version without a number."""
    dataset = find_dataset(connection, principal, new.dataset)
    check_may_add_version(connection, principal, dataset)
    base = _find_base(connection, principal, dataset, new.base)
    version_id = new_id()
    # What is made of a tenant's version is that tenant's, also where somebody makes it who sees all rows.
    parent = dataset if new.base is None or base is None else base
    connection.execute(
        insert(DATASET_VERSIONS).values(
            id=version_id,
            dataset_id=dataset.id,
            tenant_id=principal.tenant if principal.is_restricted else parent.tenant_id,
            description=new.description,
            item_count=0,
            content_hash="",
            base_version=None if new.base is None or base is None else base.version,
            created_by=principal.id,
            created_at=now(),
        )
    )
    if base is None:
        return UnfinishedVersion(version_id, dataset.id, None, None)
    return UnfinishedVersion(version_id, dataset.id, base.id, base.version)


def add_items(
    connection: Connection, version: UnfinishedVersion, items: Sequence[NewDatasetItem], start: int
) -> None:
    """Add items to a version without a number, from an ordinal on."""
    is_there = exists().where(DATASETS.c.id == version.dataset_id, DATASETS.c.deleted_at.is_(None))
    sign_of_life = (
        update(DATASET_VERSIONS).where(_is_being_written(version.id), is_there).values(created_at=now())
    )
    if not connection.execute(sign_of_life).rowcount:
        is_deleted = not connection.execute(select(is_there)).scalar()
        raise _dataset_is_deleted() if is_deleted else _version_is_given_up()
    known = {item.lineage_id for item in items if item.lineage_id is not None}
    unknown = [item for item in items if item.lineage_id is None]
    if unknown and version.base_id is not None:
        _find_cases(connection, version, version.base_id, unknown, known)
    still_unknown = [item for item in items if item.lineage_id is None]
    for item, lineage in zip(still_unknown, new_ids(len(still_unknown)), strict=True):
        item.lineage_id = lineage
    _check_ids(connection, version, items, start)
    insert_items(connection, version.id, items, start=start)


def publish_version(
    connection: Connection,
    principal: Principal,
    version: UnfinishedVersion,
    new: NewVersion,
    count: int,
    content_hash: str,
) -> WrittenVersion:
    """Give a complete version its number, with which everybody sees it."""
    query = select(DATASETS).where(DATASETS.c.id == version.dataset_id, DATASETS.c.deleted_at.is_(None))
    dataset = connection.execute(query.with_for_update()).first()
    if dataset is None:
        raise _dataset_is_deleted()
    latest = None if dataset.latest_version is None else _latest(connection, principal, dataset)
    number = 0 if latest is None else latest.version
    if new.expected_latest is not None and number != new.expected_latest:
        raise NotLatestError(f"The latest version is {number}, not {new.expected_latest}")
    if new.only_if_changed and latest is not None and _is_equal(connection, version, content_hash, latest):
        discard_version(connection, version)
        return WrittenVersion(latest, is_new=False)
    moment = now()
    next_number = (dataset.latest_version or 0) + 1
    published = connection.execute(
        update(DATASET_VERSIONS)
        .where(_is_being_written(version.id))
        .values(version=next_number, item_count=count, content_hash=content_hash, created_at=moment)
    )
    if not published.rowcount:
        raise _version_is_given_up()
    connection.execute(
        update(DATASETS)
        .where(DATASETS.c.id == dataset.id)
        .values(latest_version=next_number, latest_item_count=count, updated_at=moment)
    )
    written = connection.execute(select(DATASET_VERSIONS).where(DATASET_VERSIONS.c.id == version.id)).one()
    announce(
        connection,
        Event(
            kind=EventKind.DATASET_VERSION_CREATED,
            tenants=(dataset.tenant_id, written.tenant_id),
            data={"datasetId": dataset.id, "version": next_number, "itemCount": count},
            projects=projects_of_dataset(connection, dataset.id),
        ),
    )
    return WrittenVersion(written, is_new=True)


def _is_equal(
    connection: Connection, version: UnfinishedVersion, content_hash: str, latest: Row[Any]
) -> bool:
    """Whether the latest version has the same items, and the ids that the client gave to some of them."""
    if latest.content_hash != content_hash:
        return False
    old, new = DATASET_ITEMS.alias("old"), DATASET_ITEMS.alias("new")
    same_place = (old.c.version_id == latest.id) & (old.c.ordinal == new.c.ordinal)
    query = (
        select(new.c.id)
        .select_from(new.join(old, same_place))
        .where(
            new.c.version_id == version.id,
            new.c.external_id.is_not(None),
            old.c.external_id.is_distinct_from(new.c.external_id),
        )
    )
    return connection.execute(query.limit(1)).first() is None


def discard_version(connection: Connection, version: UnfinishedVersion) -> None:
    """Leave a version without a number to the next sweep, which removes its items in small steps."""
    connection.execute(
        update(DATASET_VERSIONS).where(_is_being_written(version.id)).values(created_at=_GIVEN_UP)
    )


def give_up_quiet_version(connection: Connection, quiet_since: int) -> str | None:
    """Return a version that got no items since then, and that gets no more from now on; None for none."""
    is_quiet = (DATASET_VERSIONS.c.version.is_(None), DATASET_VERSIONS.c.created_at < quiet_since)
    version_id: str | None = connection.execute(
        select(DATASET_VERSIONS.c.id).where(*is_quiet).limit(1)
    ).scalar()
    # Looked at again: on PostgreSQL, items may have come in between.
    change = update(DATASET_VERSIONS).where(DATASET_VERSIONS.c.id == version_id, *is_quiet)
    if version_id is None or not connection.execute(change.values(created_at=_GIVEN_UP)).rowcount:
        return None
    return version_id


def _is_being_written(version_id: str) -> ColumnElement[bool]:
    columns = DATASET_VERSIONS.c
    return (columns.id == version_id) & columns.version.is_(None) & (columns.created_at != _GIVEN_UP)


def _dataset_is_deleted() -> NotFoundError:
    return NotFoundError("The dataset was deleted while this version was written")


def _version_is_given_up() -> UnavailableError:
    return UnavailableError(
        "This version was given up, since its items arrived too slowly or the clock of the server was set "
        "forward; send it again."
    )


def _find_base(
    connection: Connection, principal: Principal, dataset: Row[Any], base: str | None
) -> Row[Any] | None:
    if base is not None:
        return find_version(connection, principal, dataset, base)
    return None if dataset.latest_version is None else _latest(connection, principal, dataset)


def _latest(connection: Connection, principal: Principal, dataset: Row[Any]) -> Row[Any] | None:
    try:
        return find_version(connection, principal, dataset, LATEST)
    except NotFoundError:  # of a shared dataset, the caller may see no version
        return None


def _find_cases(
    connection: Connection,
    version: UnfinishedVersion,
    base_id: str,
    items: Sequence[NewDatasetItem],
    taken: set[str],
) -> None:
    """Find out which items are cases of the base: by their ids, else by equal inputs.

    A case is taken once: of several items with the same inputs, the first is the first such case of the base.
    """
    by_name, by_id = _find_named_cases(connection, base_id, items)
    by_inputs: dict[str, list[str]] = defaultdict(list)
    hashes = [item.inputs_hash for item in items]
    for row in find_items(connection, base_id, DATASET_ITEMS.c.inputs_hash, hashes):
        by_inputs[row.inputs_hash].append(row.lineage_id)
    candidates = [*by_name.values(), *by_id.values(), *chain.from_iterable(by_inputs.values())]
    taken.update(find_lineages(connection, version.id, candidates))
    for item in items:
        lineage = by_name.get(item.external_id or "")
        if lineage is None and (found := by_id.get(parse_id(item.external_id or "") or "")) is not None:
            lineage = found
            item.external_id = None  # an id of ours that came back, not a name of the client's
        _take(item, [] if lineage is None else [lineage], taken)
    for item in (item for item in items if item.lineage_id is None):
        _take(item, by_inputs[item.inputs_hash], taken)


def _take(item: NewDatasetItem, lineages: Sequence[str], taken: set[str]) -> None:
    item.lineage_id = next((lineage for lineage in lineages if lineage not in taken), None)
    if item.lineage_id is not None:
        taken.add(item.lineage_id)


def _find_named_cases(
    connection: Connection, base_id: str, items: Sequence[NewDatasetItem]
) -> tuple[dict[str, str], dict[str, str]]:
    """The cases of the base by the names that clients gave them, and by ids of their items and lineages."""
    names = [item.external_id for item in items if item.external_id is not None]
    by_name = {
        row.external_id: row.lineage_id
        for row in find_items(connection, base_id, DATASET_ITEMS.c.external_id, names)
    }
    ids = [found for name in names if (found := parse_id(name)) is not None]
    by_id: dict[str, str] = {}
    for column in (DATASET_ITEMS.c.id, DATASET_ITEMS.c.lineage_id):
        for row in find_items(connection, base_id, column, ids):
            by_id[getattr(row, column.name)] = row.lineage_id
    return by_name, by_id


def _check_ids(
    connection: Connection, version: UnfinishedVersion, items: Sequence[NewDatasetItem], start: int
) -> None:
    """Refuse an id that a client gave to two items of one version."""
    names = [item.external_id for item in items if item.external_id is not None]
    if not names:
        return
    seen = {row.external_id for row in find_items(connection, version.id, DATASET_ITEMS.c.external_id, names)}
    for index, item in enumerate(items, start):
        if item.external_id is None:
            continue
        if item.external_id in seen:
            place = item.place or f"items[{index}]"
            raise InvalidRequestError(f"'{item.external_id[:100]}' is given twice", field=f"{place}.id")
        seen.add(item.external_id)
