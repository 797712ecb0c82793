"""How far people are with a queue: what each of them has reviewed lately, and what is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, case, func, select

from dokimos.server._db.clock import DAY, now
from dokimos.server._db.review_tables import REVIEW_CLAIMS, REVIEWS
from dokimos.server._db.tables import RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.reviews.authors import names_of_authors
from dokimos.server._services.reviews.review_filter import QueueFilter, is_active
from dokimos.server._services.reviews.review_queue import Queue
from dokimos.server._services.reviews.reviews import sees_tenants

_MOST_REVIEWERS: Final = 200
_CLAIM: Final = REVIEW_CLAIMS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewerProgress:
    """What a person has done, and what it has taken on.

    How many verdicts of which kind it gave is not told: where reviews are blind, that would say what others
    think before one has said so oneself.
    """

    reviewer: str
    name: str | None
    reviewed: int = 0
    """Items that it has reviewed in the time asked for, and whose review it has not withdrawn."""
    last_at: int | None = None
    claimed: int = 0
    assigned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewProgress:
    """How far people are with a queue."""

    since: int
    left: int
    """Items that wait for a verdict."""
    reviewers: Sequence[ReviewerProgress]
    """Those who have reviewed most first."""


def read_progress(
    connection: Connection, principal: Principal, chosen: QueueFilter, days: int
) -> ReviewProgress:
    """Return what each reviewer has done in the last days, as far as the caller sees the runs.

    Raises:
        NotFoundError: There is no such project, experiment or run that the caller sees.
    """
    queue = Queue(connection, principal, chosen)
    since = now() - days * DAY
    done = {row.reviewer: row for row in _count_reviews(queue, since)}
    taken = {row.reviewer: row for row in _count_claims(queue)}
    ids = sorted(done.keys() | taken.keys(), key=lambda one: (-done[one].reviewed if one in done else 0, one))
    names = names_of_authors(connection, principal, ids)
    return ReviewProgress(
        since=since,
        left=queue.count(),
        reviewers=[
            ReviewerProgress(
                reviewer=one,
                name=names.get(one),
                reviewed=done[one].reviewed if one in done else 0,
                last_at=done[one].last_at if one in done else None,
                claimed=int(taken[one].claimed) if one in taken else 0,
                assigned=int(taken[one].assigned) if one in taken else 0,
            )
            for one in ids[:_MOST_REVIEWERS]
        ],
    )


def _count_reviews(queue: Queue, since: int) -> Iterable[Row[Any]]:
    is_recent = (REVIEWS.c.updated_at >= since, sees_tenants(queue.principal, REVIEWS))
    # `OFFSET 0` keeps SQLite from looking up all reviews of all runs of a project instead.
    recent = select(REVIEWS).where(*is_recent).offset(0).subquery()
    review = recent.c
    query = (
        select(review.reviewer, func.count().label("reviewed"), func.max(review.updated_at).label("last_at"))
        .join(RUNS, RUNS.c.id == review.run_id)
        .where(queue.principal.sees(RUNS), *queue.scope())
        .group_by(review.reviewer)
    )
    return queue.connection.execute(query)


def _count_claims(queue: Queue) -> Iterable[Row[Any]]:
    is_assigned = _CLAIM.expires_at.is_(None)
    query = (
        select(
            _CLAIM.reviewer,
            func.sum(case((is_assigned, 0), else_=1)).label("claimed"),
            func.sum(case((is_assigned, 1), else_=0)).label("assigned"),
        )
        .join(RUNS, RUNS.c.id == _CLAIM.run_id)
        .where(is_active(), sees_tenants(queue.principal, REVIEW_CLAIMS))
        .where(queue.principal.sees(RUNS), *queue.scope())
        .group_by(_CLAIM.reviewer)
    )
    return queue.connection.execute(query)
