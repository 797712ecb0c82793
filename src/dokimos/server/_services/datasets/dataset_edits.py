"""Edit a version into a new one: items replaced, removed and added."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Row

from dokimos.server._db.batches import in_batches
from dokimos.server._db.database import Database, Lane
from dokimos.server._db.ids import parse_id
from dokimos.server._db.tables import DATASET_ITEMS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.datasets.dataset_access import check_may_add_version
from dokimos.server._services.datasets.dataset_items import (
    NewDatasetItem,
    copy_item,
    find_items,
    in_text_batches,
    item_of_texts,
    measure_items,
    read_items,
)
from dokimos.server._services.datasets.dataset_versions import NewVersion, WrittenVersion, write_version
from dokimos.server._services.datasets.datasets import find_dataset, find_version
from dokimos.server._services.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class ItemChange:
    """The parts of an item that are replaced, by the names of their columns; None empties one."""

    parts: Mapping[str, str | None]


@dataclass(slots=True)
class Edits:
    """What changes; the places name items by the client's ids, or by ids of ours."""

    changed: dict[str, ItemChange] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    added: list[NewDatasetItem] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    """Where the request names each item, for errors."""


async def edit_version(
    database: Database, principal: Principal, new: NewVersion, edits: Edits
) -> WrittenVersion:
    """Write the version that the edits make of the base that `new` names.

    Raises:
        InvalidRequestError: An item is not in the base, or none is left.
        and what `write_version` raises.
    """
    base = await database.read(partial(_check_edits, principal=principal, new=new, edits=edits), Lane.WORK)
    return await write_version(database, principal, new, _edit_batches(database, base.id, edits))


def _check_edits(connection: Connection, principal: Principal, new: NewVersion, edits: Edits) -> Row[Any]:
    """Find the base; name each item by its id there."""
    dataset = find_dataset(connection, principal, new.dataset)
    check_may_add_version(connection, principal, dataset)
    assert new.base is not None
    base = find_version(connection, principal, dataset, new.base)
    item_ids = _resolve_names(connection, base, edits)
    edits.changed = {item_ids[name]: change for name, change in edits.changed.items()}
    edits.removed = {item_ids[name] for name in edits.removed}
    if base.item_count == len(edits.removed) and not edits.added:
        raise InvalidRequestError("no item would be left", field="changes")
    return base


def _resolve_names(connection: Connection, base: Row[Any], edits: Edits) -> dict[str, str]:
    """The id of each item of the base, by what the request calls it: the client's id, or one of ours."""
    own_ids = {name: parse_id(name) for name in edits.places}
    by_own_id: dict[str | None, str] = {}
    for column in (DATASET_ITEMS.c.lineage_id, DATASET_ITEMS.c.id):
        for row in find_items(connection, base.id, column, own_ids.values()):
            by_own_id[getattr(row, column.name)] = row.id
    by_external_id = {
        row.external_id: row.id
        for row in find_items(connection, base.id, DATASET_ITEMS.c.external_id, edits.places)
    }
    item_ids: dict[str, str] = {}
    named: set[str] = set()
    for name, place in edits.places.items():
        item_id = by_external_id.get(name) or by_own_id.get(own_ids[name])
        if item_id is None:
            raise InvalidRequestError(f"is not an item of version {base.version}", field=place)
        if item_id in named:
            raise InvalidRequestError("is named twice", field=place)
        named.add(item_id)
        item_ids[name] = item_id
    return item_ids


async def _edit_batches(
    database: Database, base_id: str, edits: Edits
) -> AsyncIterator[list[NewDatasetItem]]:
    async for rows in read_batches(database, base_id):
        yield await asyncio.to_thread(_apply, rows, edits)
    for batch in in_batches(edits.added):
        yield list(batch)


async def read_batches(database: Database, version_id: str) -> AsyncIterator[Sequence[Row[Any]]]:
    """Yield the items of a version, as many at a time as may be in memory."""
    start = 0
    while sizes := await database.read(partial(measure_items, version_id=version_id, start=start), Lane.WORK):
        for batch in in_text_batches(sizes, attrgetter("size")):
            first, last = batch[0].ordinal, batch[-1].ordinal
            read = partial(read_items, version_id=version_id, first=first, last=last)
            yield await database.read(read, Lane.WORK)
        start = sizes[-1].ordinal + 1


def _apply(rows: Sequence[Row[Any]], edits: Edits) -> list[NewDatasetItem]:
    items = []
    for row in rows:
        change = edits.changed.get(row.id)
        if change is not None:
            items.append(_change_item(row, change))
        elif row.id not in edits.removed:
            items.append(copy_item(row))
    return items


def _change_item(row: Row[Any], change: ItemChange) -> NewDatasetItem:
    parts = {
        "inputs": row.inputs,
        "expected_outputs": row.expected_outputs,
        "metadata": row.metadata,
        **change.parts,
    }
    return item_of_texts(
        **parts,
        external_id=row.external_id,
        lineage_id=row.lineage_id,
        source_item_id=row.source_item_id,
        source_run_id=row.source_run_id,
    )
