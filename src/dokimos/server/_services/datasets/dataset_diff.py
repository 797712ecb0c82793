"""What differs between two versions of a dataset, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, case, func, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.tables import DATASET_ITEMS

_BEFORE: Final = DATASET_ITEMS.alias("before")
_AFTER: Final = DATASET_ITEMS.alias("after")
_IS_SAME: Final = _BEFORE.c.lineage_id == _AFTER.c.lineage_id
_MAX_CACHED_COUNTS: Final = 1000


class CaseStatus(StrEnum):
    """What happened to a case; a list of all differences is in this order."""

    CHANGED = "CHANGED"
    ADDED = "ADDED"
    REMOVED = "REMOVED"


@dataclass(frozen=True, slots=True)
class CaseDifference:
    """A case that two versions do not have alike."""

    status: CaseStatus
    lineage_id: str
    before: Row[Any] | None
    after: Row[Any] | None


_CACHED_COUNTS: Final[dict[tuple[str, str], dict[CaseStatus, int]]] = {}
"""What `count_differences` has counted: versions never change, and every page needs the total counts."""


def count_differences(connection: Connection, before: Row[Any], after: Row[Any]) -> dict[CaseStatus, int]:
    """Count the cases that differ between two versions."""
    counts = _CACHED_COUNTS.get((before.id, after.id))
    if counts is None:
        is_changed = _BEFORE.c.content_hash != _AFTER.c.content_hash
        query = (
            select(func.count(_BEFORE.c.id), func.count(case((is_changed, 1))))
            .select_from(_AFTER.outerjoin(_BEFORE, _IS_SAME & (_BEFORE.c.version_id == before.id)))
            .where(_AFTER.c.version_id == after.id)
        )
        in_both, changed = connection.execute(query).one()
        counts = {
            CaseStatus.CHANGED: changed,
            CaseStatus.ADDED: after.item_count - in_both,
            CaseStatus.REMOVED: before.item_count - in_both,
        }
        if len(_CACHED_COUNTS) >= _MAX_CACHED_COUNTS:
            _CACHED_COUNTS.clear()
        _CACHED_COUNTS[before.id, after.id] = counts
    return counts


def list_differences(
    connection: Connection,
    before: Row[Any],
    after: Row[Any],
    *,
    status: CaseStatus | None,
    offset: int,
    limit: int,
) -> list[CaseDifference]:
    """Return some of the cases that differ: the changed ones, the added ones, then the removed ones."""
    counts = count_differences(connection, before, after)
    queries = _select_cases(before.id, after.id)
    cases: list[tuple[CaseStatus, Row[Any]]] = []
    for each in CaseStatus if status is None else [status]:
        if len(cases) < limit and offset < counts[each]:
            query = queries[each].offset(offset).limit(limit - len(cases))
            cases += ((each, row) for row in connection.execute(query).all())
        offset = max(0, offset - counts[each])
    items = _read_items(
        connection, [side for _, row in cases for side in (row.before_id, row.after_id) if side]
    )
    return [
        CaseDifference(each, row.lineage_id, items.get(row.before_id), items.get(row.after_id))
        for each, row in cases
    ]


def _select_cases(before_id: str, after_id: str) -> dict[CaseStatus, Select[Any]]:
    """Return a query for each status, ordered by an index, so that a page ends as soon as it is full."""
    ids = (_BEFORE.c.id.label("before_id"), _AFTER.c.id.label("after_id"))
    changed = (
        select(_AFTER.c.lineage_id, *ids)
        .select_from(_AFTER.join(_BEFORE, _IS_SAME & (_BEFORE.c.version_id == before_id)))
        .where(_AFTER.c.version_id == after_id, _BEFORE.c.content_hash != _AFTER.c.content_hash)
        .order_by(_AFTER.c.ordinal)
    )
    added = (
        select(_AFTER.c.lineage_id, *ids)
        .select_from(_AFTER.outerjoin(_BEFORE, _IS_SAME & (_BEFORE.c.version_id == before_id)))
        .where(_AFTER.c.version_id == after_id, _BEFORE.c.id.is_(None))
        .order_by(_AFTER.c.ordinal)
    )
    removed = (
        select(_BEFORE.c.lineage_id, *ids)
        .select_from(_BEFORE.outerjoin(_AFTER, _IS_SAME & (_AFTER.c.version_id == after_id)))
        .where(_BEFORE.c.version_id == before_id, _AFTER.c.id.is_(None))
        .order_by(_BEFORE.c.ordinal)
    )
    return {CaseStatus.CHANGED: changed, CaseStatus.ADDED: added, CaseStatus.REMOVED: removed}


def _read_items(connection: Connection, ids: Sequence[str]) -> dict[str, Row[Any]]:
    items: dict[str, Row[Any]] = {}
    for batch in in_batches(ids):
        query = select(DATASET_ITEMS).where(DATASET_ITEMS.c.id.in_(batch))
        items.update((row.id, row) for row in connection.execute(query))
    return items
