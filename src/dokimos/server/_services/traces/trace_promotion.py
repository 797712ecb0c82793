"""Traces promoted into a new version of a dataset."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Row

from dokimos.server._db.database import Database, Lane
from dokimos.server._db.tables import DATASET_ITEMS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.datasets.dataset_access import check_may_add_version
from dokimos.server._services.datasets.dataset_edits import Edits, ItemChange, edit_version
from dokimos.server._services.datasets.dataset_items import NewDatasetItem, find_items
from dokimos.server._services.datasets.dataset_versions import NewVersion, WrittenVersion, write_version
from dokimos.server._services.datasets.datasets import LATEST, find_dataset, find_version
from dokimos.server._services.errors import NotFoundError, NotLatestError
from dokimos.server._services.traces.trace_details import find_trace
from dokimos.server._services.traces.trace_items import TracePart, make_trace_item
from dokimos.server._services.traces.trace_views import read_whole_trace

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotedTrace:
    """A trace that goes into a dataset, or the part of it below a span."""

    trace: UUID
    span_id: str | None = None
    expected: dict[str, Any] | None = None
    """What replaces the recorded answer as the expected output."""


async def promote_traces(
    database: Database,
    traces: Database,
    principal: Principal,
    dataset: str,
    promoted: Sequence[PromotedTrace],
    description: str | None = None,
) -> WrittenVersion:
    """Write a version with items made of traces behind those of the latest one.

    An item whose inputs the latest version has already stands in the place of that one, and is its case.

    Raises:
        NotFoundError: The dataset, or a trace, does not exist or is not visible.
        InvalidRequestError: Nothing says what went into one of them.
        ConflictError: One of them is too large.
        and what `write_version` raises.
    """
    await database.read(partial(_check_may_add, principal=principal, dataset=dataset), Lane.WORK)
    items: dict[str, NewDatasetItem] = {}
    for number, each in enumerate(promoted):
        item = await _make_item(traces, principal, each, f"items[{number}]")
        items[item.inputs_hash] = item
    for attempt in range(1, _ATTEMPTS + 1):
        base = await database.read(
            partial(_find_base, principal=principal, dataset=dataset, hashes=list(items)), Lane.WORK
        )
        try:
            new = NewVersion(dataset=dataset, description=description)
            return await _write(database, principal, new, base, items)
        except NotLatestError:  # somebody else has written a version, which must not be lost
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


@dataclass(frozen=True, slots=True)
class _Base:
    number: int
    """The latest version, 0 for none."""
    same: dict[str, str]
    """The ids of its items by the inputs that they share with a promoted one."""


def _check_may_add(connection: Connection, principal: Principal, dataset: str) -> None:
    check_may_add_version(connection, principal, find_dataset(connection, principal, dataset))


async def _make_item(
    traces: Database, principal: Principal, promoted: PromotedTrace, place: str
) -> NewDatasetItem:
    def read(connection: Connection) -> TracePart:
        row = _find(connection, principal, promoted.trace, place)
        return TracePart(row, read_whole_trace(connection, row), promoted.span_id)

    part = await traces.read(read, Lane.WORK)
    return await asyncio.to_thread(make_trace_item, part, promoted.expected, place)


def _find(connection: Connection, principal: Principal, trace: UUID, place: str) -> Row[Any]:
    try:
        return find_trace(connection, principal, trace)
    except NotFoundError as error:
        raise NotFoundError(f"{place}.traceId: {error}") from None


def _find_base(connection: Connection, principal: Principal, dataset: str, hashes: Sequence[str]) -> _Base:
    try:
        version = find_version(connection, principal, find_dataset(connection, principal, dataset), LATEST)
    except NotFoundError:
        return _Base(0, {})
    rows = reversed(list(find_items(connection, version.id, DATASET_ITEMS.c.inputs_hash, hashes)))
    return _Base(version.version, {row.inputs_hash: row.id for row in rows})


async def _write(
    database: Database,
    principal: Principal,
    new: NewVersion,
    base: _Base,
    items: dict[str, NewDatasetItem],
) -> WrittenVersion:
    if base.number == 0:
        whole = replace(new, expected_latest=0)
        return await write_version(database, principal, whole, _one_batch(list(items.values())))
    edits = Edits(added=[item for key, item in items.items() if key not in base.same])
    for key, item_id in base.same.items():
        item = items[key]
        parts = {
            "inputs": item.inputs,
            "expected_outputs": item.expected_outputs,
            "metadata": item.metadata,
        }
        edits.changed[item_id] = ItemChange(parts)
        edits.places[item_id] = item.place or ""
    edited = replace(new, base=str(base.number), expected_latest=base.number)
    return await edit_version(database, principal, edited, edits)


async def _one_batch(items: list[NewDatasetItem]) -> AsyncIterator[list[NewDatasetItem]]:
    yield items
