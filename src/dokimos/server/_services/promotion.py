"""Promote items of runs into a new version of a dataset."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from sqlalchemy import Connection, Row, Select, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.database import Database, Lane
from dokimos.server._db.tables import DATASET_ITEMS, ITEMS, RUNS
from dokimos.server._services.annotations import annotations_of
from dokimos.server._services.dataset_access import check_may_add_version
from dokimos.server._services.dataset_edits import read_batches
from dokimos.server._services.dataset_items import (
    NewDatasetItem,
    copy_item,
    find_items,
    item_of_texts,
)
from dokimos.server._services.dataset_versions import NewVersion, WrittenVersion, write_version
from dokimos.server._services.datasets import LATEST, find_dataset, find_version
from dokimos.server._services.errors import ConflictError, NotFoundError, NotLatestError
from dokimos.server._services.principal import Principal
from dokimos.server._services.review_counts import is_decided

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """Which items go into a dataset, and how."""

    dataset: str
    description: str | None = None
    items: Mapping[str, str | None]
    """By the id of each item: what replaces its expected output, JSON text, or None."""
    mode: Literal["append", "replace"] = "append"
    """Whether the items of the latest version stay."""
    use_corrections: bool = True
    """Whether the expected output of an annotation replaces the item's."""
    only_reviewed: bool = False
    """Whether items that no person has decided are left out."""


@dataclass(frozen=True, slots=True)
class _Plan:
    cases: dict[str, NewDatasetItem]
    """The promoted items, by the id of the item of the base whose place each takes, or else by its inputs."""
    base_id: str | None
    base_number: int


async def promote_items(database: Database, principal: Principal, promotion: Promotion) -> WrittenVersion:
    """Write a version with the items of runs in it; each keeps the item that it came from.

    An item that has been promoted before, whose case the latest version has, or whose inputs it has, stands
    in that one's place and keeps its lineage; so the same case is never there twice.

    Raises:
        NotFoundError: The dataset, or an item, does not exist or is not visible.
        ConflictError: None of the items is reviewed, and only such are wanted.
        and what `write_version` raises.
    """
    rows = await database.read(partial(_read_promoted, principal=principal, promotion=promotion), Lane.WORK)
    promoted = await asyncio.to_thread(_make_items, rows)
    lineages = {row.id: row.lineage_id for row, _ in rows}
    plan_for = partial(_plan, principal=principal, promotion=promotion, promoted=promoted, lineages=lineages)
    for attempt in range(1, _ATTEMPTS + 1):
        plan = await database.read(plan_for, Lane.WORK)
        try:
            return await _write_plan(database, principal, promotion, plan)
        except NotLatestError:  # somebody else has written a version, which must not be lost
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


async def _write_plan(
    database: Database, principal: Principal, promotion: Promotion, plan: _Plan
) -> WrittenVersion:
    appends = promotion.mode == "append" and plan.base_id is not None
    new = NewVersion(
        dataset=promotion.dataset,
        description=promotion.description,
        base=str(plan.base_number) if appends else None,
        expected_latest=plan.base_number,
    )
    keep = plan.base_id if appends else None
    return await write_version(database, principal, new, _merge(database, keep, plan))


def _read_promoted(
    connection: Connection, principal: Principal, promotion: Promotion
) -> list[tuple[Row[Any], str | None]]:
    """The items in the order of the request, each with its expected output."""
    dataset = find_dataset(connection, principal, promotion.dataset)
    check_may_add_version(connection, principal, dataset)
    ids = list(promotion.items)
    rows = _find_items(connection, principal, ids)
    needs_annotations = promotion.use_corrections or promotion.only_reviewed
    annotations = annotations_of(connection, principal, ids) if needs_annotations else {}
    promoted = []
    for item_id, override in promotion.items.items():
        annotation = annotations.get(item_id)
        if promotion.only_reviewed and not is_decided(None if annotation is None else annotation.verdict):
            continue
        if not promotion.use_corrections:
            annotation = None
        correction = None if annotation is None else annotation.overridden_expected_output
        promoted.append((rows[item_id], override or correction or rows[item_id].expected_output))
    if not promoted:
        raise ConflictError("None of the items has been reviewed, so there is nothing to promote")
    return promoted


def _find_items(connection: Connection, principal: Principal, ids: Sequence[str]) -> dict[str, Row[Any]]:
    """The items by their ids; raises `NotFoundError` for the first one that the caller does not see."""
    rows: dict[str, Row[Any]] = {}
    for batch in in_batches(ids):
        rows.update((row.id, row) for row in _select_items(connection, principal, batch))
    for index, item_id in enumerate(ids):
        if item_id not in rows:
            raise NotFoundError(f"items[{index}].itemResultId: Item not found: {item_id}")
    return rows


def _select_items(connection: Connection, principal: Principal, ids: Sequence[str]) -> Iterable[Row[Any]]:
    query: Select[Any] = (
        select(
            ITEMS.c.id, ITEMS.c.run_id, ITEMS.c.input, ITEMS.c.expected_output, ITEMS.c.metadata,
            DATASET_ITEMS.c.lineage_id, DATASET_ITEMS.c.external_id,
        )
        .join(RUNS, RUNS.c.id == ITEMS.c.run_id)
        .outerjoin(DATASET_ITEMS, DATASET_ITEMS.c.id == ITEMS.c.dataset_item_id)
        .where(ITEMS.c.id.in_(ids), principal.sees(RUNS))
    )  # fmt: skip
    rows: Sequence[Row[Any]] = connection.execute(query).all()
    return rows


def _make_items(rows: Sequence[tuple[Row[Any], str | None]]) -> list[NewDatasetItem]:
    return [
        item_of_texts(row.input, expected, row.metadata, source_item_id=row.id, source_run_id=row.run_id)
        for row, expected in rows
    ]


def _plan(
    connection: Connection,
    principal: Principal,
    promotion: Promotion,
    promoted: Sequence[NewDatasetItem],
    lineages: Mapping[str, str | None],
) -> _Plan:
    """Find the item of the base that each promoted one replaces; of the same case, the last one wins."""
    dataset = find_dataset(connection, principal, promotion.dataset)
    try:
        base = find_version(connection, principal, dataset, LATEST)
    except NotFoundError:
        return _Plan({item.inputs_hash: replace(item) for item in promoted}, None, 0)
    columns = DATASET_ITEMS.c

    def find(column: Any, values: Iterable[str | None]) -> dict[str, Row[Any]]:
        # In reverse, so that of several with the same value the first is kept.
        rows = reversed(list(find_items(connection, base.id, column, list(values))))
        return {getattr(row, column.name): row for row in rows}

    by_source = find(columns.source_item_id, (item.source_item_id for item in promoted))
    by_lineage = find(columns.lineage_id, lineages.values())
    by_inputs = find(columns.inputs_hash, (item.inputs_hash for item in promoted))
    cases: dict[str, NewDatasetItem] = {}
    for made in promoted:
        item = replace(made)  # its case is found anew where another version has come in between
        source = item.source_item_id or ""
        row = (
            by_source.get(source) or by_lineage.get(lineages[source] or "") or by_inputs.get(item.inputs_hash)
        )
        if row is not None:
            item.lineage_id, item.external_id = row.lineage_id, row.external_id
        cases[item.inputs_hash if row is None else row.id] = item
    return _Plan(cases, base.id, base.version)


async def _merge(database: Database, base_id: str | None, plan: _Plan) -> AsyncIterator[list[NewDatasetItem]]:
    waiting = dict(plan.cases)
    if base_id is not None:
        async for rows in read_batches(database, base_id):
            yield [waiting.pop(row.id) if row.id in waiting else copy_item(row) for row in rows]
    for batch in in_batches(list(waiting.values())):
        yield list(batch)
