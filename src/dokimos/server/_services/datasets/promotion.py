"""Promote items of runs into a new version of a dataset.

Ten thousand items may be of a megabyte each, so their texts are in memory a batch at a time: read once to
know which cases they are, and again when they are written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Connection, Row, Select, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.database import Database, Lane
from dokimos.server._db.tables import ANNOTATIONS, DATASET_ITEMS, ITEMS, RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.datasets.dataset_access import check_may_add_version
from dokimos.server._services.datasets.dataset_edits import read_batches
from dokimos.server._services.datasets.dataset_items import (
    NewDatasetItem,
    copy_item,
    find_items,
    hash_inputs,
    in_text_batches,
    item_of_texts,
    measure_texts,
)
from dokimos.server._services.datasets.dataset_versions import NewVersion, WrittenVersion, write_version
from dokimos.server._services.datasets.datasets import LATEST, find_dataset, find_version
from dokimos.server._services.errors import ConflictError, NotFoundError, NotLatestError
from dokimos.server._services.reviews.annotations import annotations_of
from dokimos.server._services.reviews.recorded_answers import read_correct_answers
from dokimos.server._services.reviews.review_counts import is_decided

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


@dataclass(slots=True)
class _Promoted:
    """An item that is promoted, without its texts."""

    id: str
    size: int
    """Characters of its texts."""
    lineage_id: str | None
    """The case that it was evaluated as."""
    inputs_hash: str = ""


@dataclass(frozen=True, slots=True)
class _Case:
    """A promoted item, and the item of the base whose place it takes."""

    promoted: _Promoted
    replaced: Row[Any] | None

    @property
    def size(self) -> int:
        """Characters of its texts."""
        return self.promoted.size


@dataclass(frozen=True, slots=True)
class _Plan:
    cases: dict[str, _Case]
    """By the id of the item of the base whose place each takes, or else by its inputs."""
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
    promoted = await database.read(
        partial(_find_promoted, principal=principal, promotion=promotion), Lane.WORK
    )
    for batch in in_text_batches(promoted, attrgetter("size")):
        await _add_hashes(database, principal, batch)
    plan_for = partial(_plan, principal=principal, promotion=promotion, promoted=promoted)
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
    return await write_version(database, principal, new, _merge(database, principal, promotion, keep, plan))


def _find_promoted(connection: Connection, principal: Principal, promotion: Promotion) -> list[_Promoted]:
    """The items in the order of the request."""
    dataset = find_dataset(connection, principal, promotion.dataset)
    check_may_add_version(connection, principal, dataset)
    ids = list(promotion.items)
    rows = _find_items(connection, principal, ids)
    columns = ANNOTATIONS.c
    correction = measure_texts(connection, columns.overridden_expected_output).label("size")
    chosen = (columns.item_id, columns.tenant_id, columns.verdict, correction)
    needs_annotations = promotion.use_corrections or promotion.only_reviewed
    annotations = annotations_of(connection, principal, ids, chosen) if needs_annotations else {}
    promoted = []
    for item_id in ids:
        annotation = annotations.get(item_id)
        if promotion.only_reviewed and not is_decided(None if annotation is None else annotation.verdict):
            continue
        size = rows[item_id].size + (0 if annotation is None else annotation.size)
        promoted.append(_Promoted(item_id, size, rows[item_id].lineage_id))
    if not promoted:
        raise ConflictError("None of the items has been reviewed, so there is nothing to promote")
    return promoted


def _find_items(connection: Connection, principal: Principal, ids: Sequence[str]) -> dict[str, Row[Any]]:
    """The items by their ids; raises `NotFoundError` for the first one that the caller does not see."""
    rows: dict[str, Row[Any]] = {}
    # The answer is the expected output of an item of a trace that was found to be correct.
    texts = (ITEMS.c.input, ITEMS.c.expected_output, ITEMS.c.actual_output, ITEMS.c.metadata)
    size = measure_texts(connection, *texts).label("size")
    query: Select[Any] = (
        select(ITEMS.c.id, DATASET_ITEMS.c.lineage_id, size)
        .join(RUNS, RUNS.c.id == ITEMS.c.run_id)
        .outerjoin(DATASET_ITEMS, DATASET_ITEMS.c.id == ITEMS.c.dataset_item_id)
        .where(principal.sees(RUNS))
    )
    for batch in in_batches(ids):
        rows |= {row.id: row for row in connection.execute(query.where(ITEMS.c.id.in_(batch)))}
    for index, item_id in enumerate(ids):
        if item_id not in rows:
            raise NotFoundError(f"items[{index}].itemResultId: Item not found: {item_id}")
    return rows


async def _add_hashes(database: Database, principal: Principal, batch: Sequence[_Promoted]) -> None:
    ids = [each.id for each in batch]
    read = partial(_read_columns, principal=principal, item_ids=ids, columns=[ITEMS.c.input])
    rows = await database.read(read, Lane.WORK)
    hashes = await asyncio.to_thread(lambda: [hash_inputs(rows[item_id].input) for item_id in ids])
    for each, inputs_hash in zip(batch, hashes, strict=True):
        each.inputs_hash = inputs_hash


def _read_columns(
    connection: Connection,
    principal: Principal,
    item_ids: Sequence[str],
    columns: Sequence[ColumnElement[Any]],
) -> dict[str, Row[Any]]:
    """Columns of items by their ids, which were there before: an item that is replaced gets a new id."""
    query: Select[Any] = (
        select(ITEMS.c.id, *columns)
        .join(RUNS, RUNS.c.id == ITEMS.c.run_id)
        .where(ITEMS.c.id.in_(item_ids), principal.sees(RUNS))
    )
    rows = {row.id: row for row in connection.execute(query)}
    missing = next((item_id for item_id in item_ids if item_id not in rows), None)
    if missing is not None:
        raise NotFoundError(f"Item was deleted or replaced while it was promoted: {missing}")
    return rows


def _plan(
    connection: Connection, principal: Principal, promotion: Promotion, promoted: Sequence[_Promoted]
) -> _Plan:
    """Find the item of the base that each promoted one replaces; of the same case, the last one wins."""
    dataset = find_dataset(connection, principal, promotion.dataset)
    try:
        base = find_version(connection, principal, dataset, LATEST)
    except NotFoundError:
        return _Plan({each.inputs_hash: _Case(each, None) for each in promoted}, None, 0)
    columns = DATASET_ITEMS.c

    def find(column: Any, values: Iterable[str | None]) -> dict[str, Row[Any]]:
        # In reverse, so that of several with the same value the first is kept.
        rows = reversed(list(find_items(connection, base.id, column, list(values))))
        return {getattr(row, column.name): row for row in rows}

    by_source = find(columns.source_item_id, (each.id for each in promoted))
    by_lineage = find(columns.lineage_id, (each.lineage_id for each in promoted))
    by_inputs = find(columns.inputs_hash, (each.inputs_hash for each in promoted))
    cases: dict[str, _Case] = {}
    for each in promoted:
        row = (
            by_source.get(each.id) or by_lineage.get(each.lineage_id or "") or by_inputs.get(each.inputs_hash)
        )
        cases[each.inputs_hash if row is None else row.id] = _Case(each, row)
    return _Plan(cases, base.id, base.version)


async def _merge(
    database: Database, principal: Principal, promotion: Promotion, base_id: str | None, plan: _Plan
) -> AsyncIterator[list[NewDatasetItem]]:
    cases = plan.cases
    make = partial(_make_items, database, principal, promotion)
    if base_id is not None:
        async for rows in read_batches(database, base_id):
            # The texts of the rows are in memory; those of the items that take their places are not yet.
            for part in in_text_batches(rows, lambda row: cases[row.id].size if row.id in cases else 0):
                made = iter(await make([cases[row.id] for row in part if row.id in cases]))
                yield [next(made) if row.id in cases else copy_item(row) for row in part]
    others = [case for case in cases.values() if base_id is None or case.replaced is None]
    for batch in in_text_batches(others, attrgetter("size")):
        yield await make(batch)


async def _make_items(
    database: Database, principal: Principal, promotion: Promotion, cases: Sequence[_Case]
) -> list[NewDatasetItem]:
    if not cases:
        return []
    read = partial(_read_texts, principal=principal, promotion=promotion, cases=cases)
    texts = await database.read(read, Lane.WORK)
    return await asyncio.to_thread(lambda: [_make_item(*each) for each in zip(cases, texts, strict=True)])


def _read_texts(
    connection: Connection, principal: Principal, promotion: Promotion, cases: Sequence[_Case]
) -> list[tuple[Row[Any], str | None]]:
    """The rows of items, each with its expected output."""
    ids = [case.promoted.id for case in cases]
    columns = (ITEMS.c.run_id, ITEMS.c.input, ITEMS.c.expected_output, ITEMS.c.metadata)
    rows = _read_columns(connection, principal, ids, columns)
    annotations = annotations_of(connection, principal, ids) if promotion.use_corrections else {}
    answers = read_correct_answers(connection, annotations)
    texts: list[tuple[Row[Any], str | None]] = []
    for item_id in ids:
        annotation = annotations.get(item_id)
        correction = None if annotation is None else annotation.overridden_expected_output
        expected = promotion.items[item_id] or correction or rows[item_id].expected_output
        texts.append((rows[item_id], expected or answers.get(item_id)))
    return texts


def _make_item(case: _Case, texts: tuple[Row[Any], str | None]) -> NewDatasetItem:
    row, expected_output = texts
    return item_of_texts(
        row.input,
        expected_output,
        row.metadata,
        external_id=None if case.replaced is None else case.replaced.external_id,
        lineage_id=None if case.replaced is None else case.replaced.lineage_id,
        source_item_id=row.id,
        source_run_id=row.run_id,
    )
