"""What differs between two versions of a dataset, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, func, literal, select, union_all

from dokimos.server._db.tables import DATASET_ITEMS
from dokimos.server._services.dataset_items import BATCH_ITEMS

_BEFORE: Final = DATASET_ITEMS.alias("before")
_AFTER: Final = DATASET_ITEMS.alias("after")


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


def count_differences(connection: Connection, before_id: str, after_id: str) -> dict[CaseStatus, int]:
    """Count the cases that differ."""
    counts = {}
    for status, query in _queries(before_id, after_id).items():
        counts[status] = connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()
    return counts


def list_differences(
    connection: Connection,
    before_id: str,
    after_id: str,
    *,
    status: CaseStatus | None,
    offset: int,
    limit: int,
) -> list[CaseDifference]:
    """Return some of the cases that differ: the changed ones, the added ones, then the removed ones."""
    queries = _queries(before_id, after_id)
    chosen = union_all(*(queries.values() if status is None else [queries[status]])).subquery()
    query = select(chosen).order_by(chosen.c.position, chosen.c.ordinal).offset(offset).limit(limit)
    found = connection.execute(query).all()
    rows = _rows(connection, [item for row in found for item in (row.before_id, row.after_id) if item])
    return [
        CaseDifference(
            list(CaseStatus)[row.position], row.lineage_id, rows.get(row.before_id), rows.get(row.after_id)
        )
        for row in found
    ]


def _queries(before_id: str, after_id: str) -> dict[CaseStatus, Select[Any]]:
    is_same = _BEFORE.c.lineage_id == _AFTER.c.lineage_id
    pairs = _AFTER.join(_BEFORE, is_same & (_BEFORE.c.version_id == before_id))
    changed = (
        select(*_columns(0, _AFTER, _BEFORE.c.id, _AFTER.c.id))
        .select_from(pairs)
        .where(_AFTER.c.version_id == after_id, _BEFORE.c.content_hash != _AFTER.c.content_hash)
    )
    added = (
        select(*_columns(1, _AFTER, _BEFORE.c.id, _AFTER.c.id))
        .select_from(_AFTER.outerjoin(_BEFORE, is_same & (_BEFORE.c.version_id == before_id)))
        .where(_AFTER.c.version_id == after_id, _BEFORE.c.id.is_(None))
    )
    removed = (
        select(*_columns(2, _BEFORE, _BEFORE.c.id, _AFTER.c.id))
        .select_from(_BEFORE.outerjoin(_AFTER, is_same & (_AFTER.c.version_id == after_id)))
        .where(_BEFORE.c.version_id == before_id, _AFTER.c.id.is_(None))
    )
    return dict(zip(CaseStatus, (changed, added, removed), strict=True))


def _columns(position: int, side: Any, before: Any, after: Any) -> tuple[Any, ...]:
    return (
        literal(position).label("position"),
        side.c.ordinal,
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
