"""What people say about items: a verdict, a corrected expected output, a note."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.tables import ANNOTATIONS, ITEMS
from dokimos.server._services.errors import NotFoundError
from dokimos.server._services.events import EventKind, announce_run
from dokimos.server._services.principal import Principal
from dokimos.server._services.runs import find_run

_SHARED: Final = ""


class Verdict(StrEnum):
    """What a person thinks of an item's scores."""

    CORRECT = "CORRECT"
    INCORRECT = "INCORRECT"
    UNSURE = "UNSURE"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAnnotation:
    """What a person says about an item. Texts that are JSON are JSON already."""

    verdict: Verdict
    overridden_expected_output: str | None = None
    note: str | None = None
    """A JSON string."""


def annotate(
    connection: Connection, principal: Principal, run_id: str, item_id: str, new: NewAnnotation
) -> Row[Any]:
    """Create the annotation of an item, or replace all of it but who made it and when.

    Raises:
        NotFoundError: The run has no such item, or the caller does not see the run.
    """
    run = _check_item(connection, principal, run_id, item_id)
    tenant = principal.tenant if principal.is_restricted else run.tenant_id
    if tenant is None:
        principal.check_may_write(None, "The run")
    moment = now()
    said = {
        "verdict": new.verdict,
        "overridden_expected_output": new.overridden_expected_output,
        "note": new.note,
        "updated_at": moment,
    }
    statement = INSERTS[connection.dialect.name](ANNOTATIONS).values(
        item_id=item_id,
        tenant_id=tenant or _SHARED,
        id=new_id(),
        created_by=principal.id,
        created_at=moment,
        **said,
    )
    connection.execute(statement.on_conflict_do_update(index_elements=["item_id", "tenant_id"], set_=said))
    announce_run(connection, EventKind.ANNOTATION_CHANGED, run, {"itemId": item_id}, tenants=(tenant,))
    return find_annotation(connection, principal, run_id, item_id)


def find_annotation(connection: Connection, principal: Principal, run_id: str, item_id: str) -> Row[Any]:
    """Return the annotation of an item.

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    _check_item(connection, principal, run_id, item_id)
    row = annotations_of(connection, principal, [item_id]).get(item_id)
    if row is None:
        raise NotFoundError(f"Annotation not found for item: {item_id}")
    return row


def delete_annotation(connection: Connection, principal: Principal, run_id: str, item_id: str) -> None:
    """Delete the annotation that the caller sees; where there is none, nothing happens."""
    run = _check_item(connection, principal, run_id, item_id)
    row = annotations_of(connection, principal, [item_id]).get(item_id)
    if row is None:
        return
    principal.check_may_write(row.tenant_id or None, "The annotation")
    connection.execute(
        delete(ANNOTATIONS).where(ANNOTATIONS.c.item_id == item_id, ANNOTATIONS.c.tenant_id == row.tenant_id)
    )
    tenants = (row.tenant_id or None,)
    announce_run(connection, EventKind.ANNOTATION_DELETED, run, {"itemId": item_id}, tenants=tenants)


def annotations_of(
    connection: Connection, principal: Principal, item_ids: Sequence[str]
) -> dict[str, Row[Any]]:
    """Return the annotation of each item that has one that the caller sees.

    A tenant's own one comes before the shared one. A caller that sees all tenants gets the latest.
    """
    own = principal.tenant or _SHARED
    annotations: dict[str, Row[Any]] = {}
    for batch in in_batches(item_ids):
        query = select(ANNOTATIONS).where(ANNOTATIONS.c.item_id.in_(batch))
        if principal.is_restricted:
            query = query.where(ANNOTATIONS.c.tenant_id.in_((own, _SHARED)))
        for row in connection.execute(query.order_by(ANNOTATIONS.c.updated_at)):
            earlier = annotations.get(row.item_id)
            is_own = principal.is_restricted and earlier is not None and earlier.tenant_id == own
            if not (is_own and row.tenant_id != own):
                annotations[row.item_id] = row
    return annotations


def _check_item(connection: Connection, principal: Principal, run_id: str, item_id: str) -> Row[Any]:
    run = find_run(connection, principal, run_id)
    query = select(ITEMS.c.id).where(ITEMS.c.id == item_id, ITEMS.c.run_id == run_id)
    if connection.execute(query).first() is None:
        raise NotFoundError(f"Item not found in this run: {item_id}")
    return run
