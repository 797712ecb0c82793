"""The annotation of an item: what was said last about it, a verdict, a corrected expected output, a note."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.tables import ANNOTATIONS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import NotFoundError
from dokimos.server._services.reviews.reviews import (
    SHARED,
    NewAnnotation,
    Reviewed,
    find_hidden,
    find_item,
    give_review,
    open_item,
    withdraw_reviews,
)
from dokimos.server._services.runs.runs import find_run


def annotate(
    connection: Connection, principal: Principal, run_id: str, item_id: str, new: NewAnnotation
) -> Row[Any]:
    """Create the annotation of an item, or replace all of it but who made it and when.

    It is the caller's review of the item as well.

    Raises:
        NotFoundError: The run has no such item, or the caller does not see the run.
    """
    place = open_item(connection, principal, run_id, item_id)
    give_review(connection, principal, place, new)
    return _select(connection, principal, place.item.id)


def find_annotation(connection: Connection, principal: Principal, run_id: str, item_id: str) -> Row[Any]:
    """Return the annotation of an item.

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    run = find_run(connection, principal, run_id)
    find_item(connection, run, item_id)
    if item_id in find_hidden(connection, principal, run.project_id, [item_id]):
        raise NotFoundError(f"Annotation not found for item: {item_id}")
    return _select(connection, principal, item_id)


def delete_annotation(connection: Connection, principal: Principal, run_id: str, item_id: str) -> None:
    """Delete the annotation that the caller sees, with the reviews that it is the latest of.

    Where there is none, nothing happens.
    """
    run = find_run(connection, principal, run_id, for_update=True)
    item = find_item(connection, run, item_id)
    row = annotations_of(connection, principal, [item_id]).get(item_id)
    if row is None:
        return
    principal.check_may_write(row.tenant_id or None, "The annotation", project=run.project_id)
    withdraw_reviews(connection, principal, Reviewed(run, item, row.tenant_id))


def _select(connection: Connection, principal: Principal, item_id: str) -> Row[Any]:
    row = annotations_of(connection, principal, [item_id]).get(item_id)
    if row is None:
        raise NotFoundError(f"Annotation not found for item: {item_id}")
    return row


def annotations_of(
    connection: Connection,
    principal: Principal,
    item_ids: Sequence[str],
    columns: Sequence[ColumnElement[Any]] = tuple(ANNOTATIONS.c),
) -> dict[str, Row[Any]]:
    """Return the annotation of each item that has one that the caller sees.

    A tenant's own one comes before the shared one. A caller that sees all tenants gets the latest.

    Args:
        connection: To read with.
        principal: Who asks.
        item_ids: The items.
        columns: What to read of each annotation; `item_id` and `tenant_id` are needed.
    """
    own = principal.tenant or SHARED
    annotations: dict[str, Row[Any]] = {}
    for batch in in_batches(item_ids):
        query: Select[Any] = select(*columns).where(ANNOTATIONS.c.item_id.in_(batch))
        if principal.is_restricted:
            query = query.where(ANNOTATIONS.c.tenant_id.in_((own, SHARED)))
        for row in connection.execute(query.order_by(ANNOTATIONS.c.updated_at)):
            earlier = annotations.get(row.item_id)
            is_own = principal.is_restricted and earlier is not None and earlier.tenant_id == own
            if not (is_own and row.tenant_id != own):
                annotations[row.item_id] = row
    return annotations


def visible_annotations(
    connection: Connection, principal: Principal, project_id: str, item_ids: Sequence[str]
) -> dict[str, Row[Any]]:
    """Return the annotations of items of a project, without those that a blind review hides."""
    annotations = annotations_of(connection, principal, item_ids)
    hidden = find_hidden(connection, principal, project_id, list(annotations)) if annotations else set()
    return {item_id: row for item_id, row in annotations.items() if item_id not in hidden}
