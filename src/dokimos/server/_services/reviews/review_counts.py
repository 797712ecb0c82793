"""What is kept of reviews with items and runs, so that the queue reads neither all items nor all reviews.

An item is decided while its annotation says CORRECT or INCORRECT. `ITEMS.reviewed` says so of the annotation
of those whose run it is: the tenant of the run, or for a shared run the shared annotation. A tenant may
decide items of a shared run for itself; how its queue differs is counted in `RUN_REVIEW_COUNTS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, and_, case, delete, exists, func, select, true, update

from dokimos.server._db.batches import in_batches
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.review_tables import RUN_REVIEW_COUNTS
from dokimos.server._db.tables import ANNOTATIONS, ITEMS, RUNS

UNSURE: Final = "UNSURE"
_COUNTED: Final = ("decided_count", "reopened_count")


def is_decided(verdict: str | None) -> bool:
    """Say whether an annotation takes its item out of the queue, by its verdict; None for no annotation."""
    return verdict is not None and verdict != UNSURE


def count_verdict(
    connection: Connection,
    run: Row[Any],
    item: Row[Any],
    tenant: str,
    *,
    before: str | None,
    after: str | None,
) -> None:
    """Keep that the verdict of a tenant's annotation has changed; the row of the run is locked.

    Args:
        connection: Of the transaction that changes it.
        run: Its row.
        item: The row of the item, as it was before.
        tenant: Whose annotation it is, "" for the shared one.
        before: Its verdict until now, None where there was no annotation.
        after: Its verdict from now on, None where it is deleted.
    """
    if tenant == (run.tenant_id or ""):
        _count_owner(connection, run, item, is_decided(after))
        return
    old, new = _differs(before, bool(item.reviewed)), _differs(after, bool(item.reviewed))
    _add_difference(connection, run.id, tenant, [b - a for a, b in zip(old, new, strict=True)])


def forget_items(connection: Connection, run_id: str, items: Iterable[Row[Any]]) -> None:
    """Take items out of the counts of their run, which were removed with what was said about them."""
    reviewed = [item for item in items if item.reviewed]
    if reviewed:
        failed = sum(not item.passed for item in reviewed)
        _add_to_run(connection, run_id, -len(reviewed), -failed)
    of_run = select(RUN_REVIEW_COUNTS.c.run_id).where(RUN_REVIEW_COUNTS.c.run_id == run_id).limit(1)
    if connection.execute(of_run).first() is not None:
        recount_tenants(connection, [run_id])


def recount_reviews(connection: Connection, run_ids: Sequence[str]) -> None:
    """Set what is kept of the reviews of runs to what their annotations give."""
    for batch in in_batches(sorted(set(run_ids))):
        of_runs = ITEMS.c.run_id.in_(batch)
        # Only what differs is written: nearly all items of a run have no annotation.
        connection.execute(
            update(ITEMS)
            .where(of_runs, ITEMS.c.reviewed.is_(None), _is_decided_by_owner())
            .values(reviewed=True)
        )
        connection.execute(
            update(ITEMS)
            .where(of_runs, ITEMS.c.reviewed.is_not(None), ~_is_decided_by_owner())
            .values(reviewed=None)
        )
        reviewed = select(func.count()).where(ITEMS.c.run_id == RUNS.c.id, ITEMS.c.reviewed.is_not(None))
        failed = reviewed.where(ITEMS.c.passed.is_not(true()))
        connection.execute(
            update(RUNS)
            .where(RUNS.c.id.in_(batch))
            .values(
                reviewed_count=reviewed.correlate(RUNS).scalar_subquery(),
                reviewed_failed_count=failed.correlate(RUNS).scalar_subquery(),
            )
        )
        recount_tenants(connection, batch)


def recount_tenants(connection: Connection, run_ids: Sequence[str]) -> None:
    """Count again by how much the queues of tenants differ in shared runs."""
    connection.execute(delete(RUN_REVIEW_COUNTS).where(RUN_REVIEW_COUNTS.c.run_id.in_(run_ids)))
    decides = ANNOTATIONS.c.verdict != UNSURE
    is_open = ITEMS.c.reviewed.is_(None)
    counted = (
        select(
            ITEMS.c.run_id,
            ANNOTATIONS.c.tenant_id,
            func.sum(case((and_(decides, is_open), 1), else_=0)),
            func.sum(case((and_(~decides, ~is_open), 1), else_=0)),
        )
        .join(ITEMS, ITEMS.c.id == ANNOTATIONS.c.item_id)
        .join(RUNS, RUNS.c.id == ITEMS.c.run_id)
        .where(RUNS.c.id.in_(run_ids), RUNS.c.tenant_id.is_(None), ANNOTATIONS.c.tenant_id != "")
        .group_by(ITEMS.c.run_id, ANNOTATIONS.c.tenant_id)
    )
    names = ["run_id", "tenant_id", *_COUNTED]
    connection.execute(RUN_REVIEW_COUNTS.insert().from_select(names, counted))


def _is_decided_by_owner() -> ColumnElement[bool]:
    owner = select(func.coalesce(RUNS.c.tenant_id, "")).where(RUNS.c.id == ITEMS.c.run_id).correlate(ITEMS)
    return (
        exists()
        .where(
            ANNOTATIONS.c.item_id == ITEMS.c.id,
            ANNOTATIONS.c.tenant_id == owner.scalar_subquery(),
            ANNOTATIONS.c.verdict != UNSURE,
        )
        .correlate(ITEMS)
    )


def _count_owner(connection: Connection, run: Row[Any], item: Row[Any], is_now: bool) -> None:
    was = bool(item.reviewed)
    if was == is_now:
        return
    connection.execute(update(ITEMS).where(ITEMS.c.id == item.id).values(reviewed=is_now or None))
    sign = 1 if is_now else -1
    _add_to_run(connection, run.id, sign, sign * (not item.passed))
    if run.tenant_id is not None:
        return
    query = select(ANNOTATIONS.c.tenant_id, ANNOTATIONS.c.verdict)
    own = query.where(ANNOTATIONS.c.item_id == item.id, ANNOTATIONS.c.tenant_id != "")
    for tenant, verdict in connection.execute(own).all():
        old, new = _differs(verdict, was), _differs(verdict, is_now)
        _add_difference(connection, run.id, tenant, [b - a for a, b in zip(old, new, strict=True)])


def _add_to_run(connection: Connection, run_id: str, count: int, failed: int) -> None:
    connection.execute(
        update(RUNS)
        .where(RUNS.c.id == run_id)
        .values(
            reviewed_count=RUNS.c.reviewed_count + count,
            reviewed_failed_count=RUNS.c.reviewed_failed_count + failed,
        )
    )


def _differs(verdict: str | None, is_reviewed: bool) -> tuple[int, int]:
    """Whether a tenant's own annotation takes an item out of its queue, and whether it puts it back."""
    if verdict is None:
        return 0, 0
    decided = is_decided(verdict)
    return int(decided and not is_reviewed), int(not decided and is_reviewed)


def _add_difference(connection: Connection, run_id: str, tenant: str, change: Sequence[int]) -> None:
    if not any(change):
        return
    values = dict(zip(_COUNTED, change, strict=True))
    statement = INSERTS[connection.dialect.name](RUN_REVIEW_COUNTS).values(
        run_id=run_id, tenant_id=tenant, **values
    )
    added = {name: RUN_REVIEW_COUNTS.c[name] + statement.excluded[name] for name in _COUNTED}
    connection.execute(statement.on_conflict_do_update(index_elements=["run_id", "tenant_id"], set_=added))
