"""Which items of a queue are asked for, as conditions on their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    Numeric,
    Row,
    Text,
    and_,
    cast,
    exists,
    false,
    func,
    or_,
    select,
    true,
)

from dokimos.server._db.clock import now
from dokimos.server._db.review_tables import REVIEW_CLAIMS, REVIEWS
from dokimos.server._db.tables import ANNOTATIONS, EVALUATIONS, ITEMS, RUN_EVALUATORS, RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.reviews.review_counts import UNSURE
from dokimos.server._services.runs.item_scores import any_of_item

_PARTS: Final = 65_536
"""Into how many equal parts the last digits of an id divide all items."""
OF_SCORE: Final = and_(
    RUN_EVALUATORS.c.run_id == ITEMS.c.run_id, RUN_EVALUATORS.c.name == EVALUATIONS.c.evaluator
)
"""By what a score finds what its run knows of its evaluator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFilter:
    """Which items of the queue are asked for."""

    project: str | None = None
    """The name of a project."""
    experiment_id: str | None = None
    run_id: str | None = None
    outcome: Literal["failed", "errored"] | None = None
    disagree: bool = False
    """Items with which some evaluators are content and others are not."""
    near: float | None = None
    """Items with a score that is at most this share of its range away from its threshold."""
    sample: float | None = None
    """A share of all items, which their ids choose: always the same ones."""
    assigned: Literal["me", "nobody"] | None = None

    @property
    def reads_contents(self) -> bool:
        """Whether what an item holds, or what was done about it, decides if it is asked for."""
        return bool(self.outcome or self.disagree or self.near is not None or self.assigned)

    @property
    def is_narrowed(self) -> bool:
        """Whether not all items of the runs are asked for."""
        return self.reads_contents or self.sample is not None


def filter_items(
    connection: Connection, principal: Principal, chosen: QueueFilter, *, in_order: bool = False
) -> list[ColumnElement[bool]]:
    """Return the conditions that an item is asked for, apart from its run and from being in the queue.

    With `in_order`, none of them is one that an index of failures serves.
    """
    conditions: list[ColumnElement[bool]] = []
    if chosen.outcome is not None or chosen.disagree:
        passed = func.coalesce(ITEMS.c.passed, true()) if in_order else ITEMS.c.passed
        conditions.append(passed.is_(false()))
    if chosen.outcome == "failed":
        conditions += [ITEMS.c.judged.is_(true()), ITEMS.c.error.is_(None)]
    elif chosen.outcome == "errored":
        conditions.append(ITEMS.c.error.is_not(None))
    if chosen.disagree:
        conditions += [_has_verdict(true()), _has_verdict(false())]
    if chosen.near is not None:
        conditions.append(_is_near(connection, chosen.near))
    if chosen.sample is not None:
        conditions.append(is_in_share(connection, ITEMS.c.id, chosen.sample))
    if chosen.assigned == "me":
        conditions.append(_is_claimed(principal, REVIEW_CLAIMS.c.reviewer == principal.id))
    elif chosen.assigned == "nobody":
        conditions.append(is_claimed_by_nobody(principal))
    return conditions


def is_pending(
    principal: Principal, run: Row[Any], *, by_annotations: bool = True
) -> Sequence[ColumnElement[bool]]:
    """Return the conditions that an item of a run is in the queue of the caller: not reviewed, or UNSURE.

    `ITEMS.reviewed` finds the place in the index; the annotation itself decides, since a server of an earlier
    version may have written it while servers were being replaced. Without `by_annotations`, the conditions
    are those by which `pending_count` of the run counts, and no more.
    """
    own = principal.tenant if principal.is_restricted else None
    if own is None or run.tenant_id is not None:
        is_unreviewed = ITEMS.c.reviewed.is_(None)
        if not by_annotations:
            return (is_unreviewed,)
        return (is_unreviewed, ~_is_annotated(run.tenant_id or "", ANNOTATIONS.c.verdict != UNSURE))
    # A tenant's own annotation of an item of a shared run comes before the shared one.
    is_open: ColumnElement[bool] = ITEMS.c.reviewed.is_(None)
    if run.reopened_count:
        is_open = or_(is_open, _is_annotated(own, ANNOTATIONS.c.verdict == UNSURE))
    return (is_open, ~_is_annotated(own, ANNOTATIONS.c.verdict != UNSURE))


def is_in_share(connection: Connection, id_column: ColumnElement[str], share: float) -> ColumnElement[bool]:
    """The condition that an id belongs to a share of all ids, by its last digits, which are random."""
    end = round(share * _PARTS)
    if end >= _PARTS:
        return true()
    if connection.dialect.name == "postgresql":
        return func.right(cast(id_column, Text), 4) < f"{end:04x}"
    return func.substr(id_column, 15, 2, type_=LargeBinary()) < end.to_bytes(2)


def is_unreviewed_by(reviewer: str) -> ColumnElement[bool]:
    """The condition that a person has not reviewed an item."""
    return ~any_of_item(REVIEWS.c.item_id, REVIEWS.c.reviewer == reviewer)


def _is_annotated(tenant: str, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return any_of_item(ANNOTATIONS.c.item_id, ANNOTATIONS.c.tenant_id == tenant, condition)


def _has_verdict(success: ColumnElement[bool]) -> ColumnElement[bool]:
    return any_of_item(
        EVALUATIONS.c.item_id, EVALUATIONS.c.success.is_(success), EVALUATIONS.c.judged.is_not(false())
    )


def distance_to_threshold(connection: Connection) -> ColumnElement[Any]:
    """How far a score is from its threshold, as a share of its range; a range nobody named counts as 1."""
    columns: list[ColumnElement[Any]] = [
        EVALUATIONS.c.score, EVALUATIONS.c.threshold, RUN_EVALUATORS.c.range_low, RUN_EVALUATORS.c.range_high,
    ]  # fmt: skip
    if connection.dialect.name == "postgresql":
        # Which refuses a double beyond the largest one, as the difference of two scores may be.
        columns = [cast(column, Numeric) for column in columns]
    score, threshold, low, high = columns
    return func.abs(score - threshold) / func.coalesce(func.nullif(high - low, 0), 1)


def _is_near(connection: Connection, share: float) -> ColumnElement[bool]:
    near = (
        select(EVALUATIONS.c.position)
        .select_from(EVALUATIONS)
        .join(RUN_EVALUATORS, OF_SCORE, isouter=True)
        .where(
            EVALUATIONS.c.item_id == ITEMS.c.id,
            EVALUATIONS.c.threshold.is_not(None),
            distance_to_threshold(connection) <= _share(connection, share),
        )
        .limit(1)
        .correlate(ITEMS)
        .scalar_subquery()
    )
    return near.is_not(None)


def _share(connection: Connection, share: float) -> Decimal | float:
    return Decimal(str(share)) if connection.dialect.name == "postgresql" else share


def may_have_near(connection: Connection, share: float) -> ColumnElement[bool]:
    """The condition that a run may have a score near its threshold, by what it keeps of its evaluators."""
    columns = RUN_EVALUATORS.c
    kept: ColumnElement[Any] = columns.nearest
    low: ColumnElement[Any] = columns.range_low
    high: ColumnElement[Any] = columns.range_high
    if connection.dialect.name == "postgresql":
        kept, low, high = (cast(column, Numeric) for column in (kept, low, high))
    # Else an earlier version of the server has added some, or replaced them.
    is_known = and_(columns.nearest_count == columns.score_count, columns.nearest_sum == columns.score_sum)
    is_far = kept / func.coalesce(func.nullif(high - low, 0), 1) > _share(connection, share)
    has_threshold = columns.nearest.is_not(None)
    return exists().where(columns.run_id == RUNS.c.id, ~(is_known & (~has_threshold | is_far)))


def is_active() -> ColumnElement[bool]:
    """The condition that a claim has not expired."""
    return or_(REVIEW_CLAIMS.c.expires_at.is_(None), REVIEW_CLAIMS.c.expires_at > now())


def is_free_for(principal: Principal) -> ColumnElement[bool]:
    """The condition that nobody else is at an item, of those who review for the same tenant."""
    return ~_is_claimed(principal, REVIEW_CLAIMS.c.reviewer != principal.id)


def is_claimed_by_nobody(principal: Principal) -> ColumnElement[bool]:
    """The condition that nobody is at an item, of those who review for the same tenant."""
    return ~_is_claimed(principal)


def _is_claimed(principal: Principal, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    if principal.is_restricted:
        is_own = REVIEW_CLAIMS.c.tenant_id == (principal.tenant or "")
    else:
        owner = select(func.coalesce(RUNS.c.tenant_id, "")).where(RUNS.c.id == REVIEW_CLAIMS.c.run_id)
        is_own = REVIEW_CLAIMS.c.tenant_id == owner.correlate(REVIEW_CLAIMS).scalar_subquery()
    return any_of_item(REVIEW_CLAIMS.c.item_id, is_active(), is_own, *conditions)
