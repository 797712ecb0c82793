"""What differs between two versions of a dataset, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, case, func, select

from dokimos.server._db.tables import DATASET_ITEMS
from dokimos.server._services.dataset_items import BATCH_ITEMS

_BEFORE: Final = DATASET_ITEMS.alias("before")
_AFTER: Final = DATASET_ITEMS.alias("after")
_IS_SAME: Final = _BEFORE.c.lineage_id == _AFTER.c.lineage_id
_MOST_COUNTS: Final = 1000


class CaseStatus(StrEnum):
    """What happened to a case."""

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


_COUNTS: Final[dict[tuple[str, str], dict[CaseStatus, int]]] = {}
"""What `count_differences` has counted: versions do not change, and a page needs the counts of all of it."""


def count_differences(connection: Connection, before: Row[Any], after: Row[Any]) -> dict[CaseStatus, int]:
    """Count the cases that differ between two versions."""
    known = _COUNTS.get((before.id, after.id))
    if known is None:
        is_changed = _BEFORE.c.content_hash != _AFTER.c.content_hash
        query = (
            select(func.count(_BEFORE.c.id), func.count(case((is_changed, 1))))
            .select_from(_AFTER.outerjoin(_BEFORE, _IS_SAME & (_BEFORE.c.version_id == before.id)))
            .where(_AFTER.c.version_id == after.id)
        )
        in_both, changed = connection.execute(query).one()
        known = {
            CaseStatus.CHANGED: changed,
            CaseStatus.ADDED: after.item_count - in_both,
            CaseStatus.REMOVED: before.item_count - in_both,
        }
        if len(_COUNTS) >= _MOST_COUNTS:
            _COUNTS.clear()
        _COUNTS[before.id, after.id] = known
    return known


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
    queries = _queries(before.id, after.id)
    found: list[tuple[CaseStatus, Row[Any]]] = []
    for each in CaseStatus if status is None else [status]:
        if len(found) < limit and offset < counts[each]:
            query = queries[each].offset(offset).limit(limit - len(found))
            found += ((each, row) for row in connection.execute(query).all())
        offset = max(0, offset - counts[each])
    rows = _rows(connection, [item for _, row in found for item in (row.before_id, row.after_id) if item])
    return [
        CaseDifference(each, row.lineage_id, rows.get(row.before_id), rows.get(row.after_id))
        for each, row in found
    ]


def _queries(before_id: str, after_id: str) -> dict[CaseStatus, Select[Any]]:
    """Each with the order of the ordinals, which an index has: a page ends as soon as it is full."""
    changed = (
        select(*_columns(_AFTER, _BEFORE.c.id, _AFTER.c.id))
        .select_from(_AFTER.join(_BEFORE, _IS_SAME & (_BEFORE.c.version_id == before_id)))
        .where(_AFTER.c.version_id == after_id, _BEFORE.c.content_hash != _AFTER.c.content_hash)
        .order_by(_AFTER.c.ordinal)
    )
    added = (
        select(*_columns(_AFTER, _BEFORE.c.id, _AFTER.c.id))
        .select_from(_AFTER.outerjoin(_BEFORE, _IS_SAME & (_BEFORE.c.version_id == before_id)))
        .where(_AFTER.c.version_id == after_id, _BEFORE.c.id.is_(None))
        .order_by(_AFTER.c.ordinal)
    )
    removed = (
        select(*_columns(_BEFORE, _BEFORE.c.id, _AFTER.c.id))
        .select_from(_BEFORE.outerjoin(_AFTER, _IS_SAME & (_AFTER.c.version_id == after_id)))
        .where(_BEFORE.c.version_id == before_id, _AFTER.c.id.is_(None))
        .order_by(_BEFORE.c.ordinal)
    )
    return dict(zip(CaseStatus, (changed, added, removed), strict=True))


def _columns(side: Any, before: Any, after: Any) -> tuple[Any, ...]:
    return (
        side.c.lineage_id,
        before.label("before_id"),
        after.label("after_id"),
    )


def _rows(connection: Connection, ids: Sequence[str]) -> dict[str, Row[Any]]:
    found: dict[str, Row[Any]] = {}
    for at in range(0, len(ids), BATCH_ITEMS):
        query = select(DATASET_ITEMS).where(DATASET_ITEMS.c.id.in_(ids[at : at + BATCH_ITEMS]))
        found.update((row.id, row) for row in connection.execute(query))
    return found
