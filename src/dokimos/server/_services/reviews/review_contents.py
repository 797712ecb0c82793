"""What a page of the review queue shows of its items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.tables import ITEMS
from dokimos.server._services.reviews.review_queue import Waiting
from dokimos.server._services.runs.item_pages import evaluations_of


@dataclass(frozen=True, slots=True)
class QueueContents:
    """What a page of the queue shows."""

    items: dict[str, Row[Any]]
    evaluations: dict[str, list[Row[Any]]]


def read_contents(connection: Connection, page: Sequence[Waiting]) -> QueueContents:
    """Return the items of a page with their scores."""
    ids = [each.item_id for each in page]
    items: dict[str, Row[Any]] = {}
    evaluations: dict[str, list[Row[Any]]] = {}
    for batch in in_batches(ids):
        items |= {row.id: row for row in connection.execute(select(ITEMS).where(ITEMS.c.id.in_(batch)))}
        evaluations |= evaluations_of(connection, batch)
    return QueueContents(items, evaluations)
