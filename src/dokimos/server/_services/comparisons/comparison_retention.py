"""How long comparisons are kept: those that were asked for by their age, and all of them by their size."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Select, and_, delete, false, func, or_, select, update

from dokimos.server._db.clock import DAY, now
from dokimos.server._db.tables import COMPARISON_CASES, COMPARISONS, EXPERIMENTS
from dokimos.server._services.comparisons.comparison_jobs import CHUNK
from dokimos.server._services.comparisons.stored_comparisons import GIVEN_UP, UNFINISHED, discard

KEEP_FOR_EVER: Final = -1.0
_UNFINISHED_MICROSECONDS: Final = 600_000_000
"""After which a comparison that is not whole was left by a server that ended."""
_AT_ONCE: Final = 500
"""Comparisons that one transaction discards at most."""
PURGE_CHUNKS: Final = 50
"""Rows of cases that one transaction removes at most: each holds 100 cases."""

_IS_PINNED: Final = COMPARISONS.c.baseline_run_id.in_(
    select(EXPERIMENTS.c.baseline_run_id).where(EXPERIMENTS.c.baseline_run_id.is_not(None))
)
_IS_KEPT_LONGEST: Final = or_(func.coalesce(COMPARISONS.c.automatic, false()), _IS_PINNED)
_IS_WHOLE: Final = COMPARISONS.c.state != UNFINISHED


def expire_comparisons(connection: Connection, days: float, most_cases: int) -> int:
    """Discard comparisons that are too old or too many, at most 500; return how many.

    Those of a run with the baseline that it was compared with when it ended, and those with a pinned
    baseline, have no age, and go last where there are too many.

    Args:
        connection: Of a transaction that writes.
        days: After which a comparison that was asked for is discarded; -1 for never.
        most_cases: How many cases all comparisons may have.
    """
    expired: list[str] = []
    if days != KEEP_FOR_EVER:
        old = _oldest_first().where(COMPARISONS.c.created_at < now() - int(days * DAY), ~_IS_KEPT_LONGEST)
        expired += [row.id for row in connection.execute(old.limit(_AT_ONCE))]
    # A comparison has a row of its own, so one without cases counts too.
    weight = COMPARISONS.c.case_count + CHUNK
    total = connection.execute(select(func.sum(weight)).where(_IS_WHOLE)).scalar() or 0
    if total > most_cases:
        for row in connection.execute(_oldest_first().limit(_AT_ONCE)).all():
            if total <= most_cases:
                break
            total -= row.case_count + CHUNK
            expired.append(row.id)
    chosen = list(dict.fromkeys(expired))[:_AT_ONCE]
    discard(connection, chosen)
    return len(chosen)


def purge_comparisons(connection: Connection) -> int:
    """Remove some rows of comparisons that nobody finds any more; return how many, 0 where none is left."""
    is_left = and_(
        COMPARISONS.c.state == UNFINISHED, COMPARISONS.c.created_at < now() - _UNFINISHED_MICROSECONDS
    )
    comparison_id = connection.execute(select(COMPARISONS.c.id).where(is_left).limit(1)).scalar()
    # Looked at again: on PostgreSQL, cases may have come in between.
    change = update(COMPARISONS).where(COMPARISONS.c.id == comparison_id, is_left).values(created_at=GIVEN_UP)
    if comparison_id is None or not connection.execute(change).rowcount:
        return 0
    return _remove_some(connection, comparison_id)


def purge_comparisons_of(connection: Connection, run_id: str) -> int:
    """Remove some rows of the comparisons of a run that is being removed; return how many."""
    of_run = or_(COMPARISONS.c.baseline_run_id == run_id, COMPARISONS.c.candidate_run_id == run_id)
    comparison_id = connection.execute(select(COMPARISONS.c.id).where(of_run).limit(1)).scalar()
    return 0 if comparison_id is None else _remove_some(connection, comparison_id)


def _remove_some(connection: Connection, comparison_id: str) -> int:
    chunks = select(COMPARISON_CASES.c.chunk).where(COMPARISON_CASES.c.comparison_id == comparison_id)
    of_comparison = delete(COMPARISON_CASES).where(COMPARISON_CASES.c.comparison_id == comparison_id)
    removed = connection.execute(
        of_comparison.where(COMPARISON_CASES.c.chunk.in_(chunks.limit(PURGE_CHUNKS)))
    ).rowcount
    if removed:
        return removed
    return connection.execute(delete(COMPARISONS).where(COMPARISONS.c.id == comparison_id)).rowcount


def _oldest_first() -> Select[Any]:
    return (
        select(COMPARISONS.c.id, COMPARISONS.c.case_count)
        .where(_IS_WHOLE)
        .order_by(_IS_KEPT_LONGEST, COMPARISONS.c.created_at)
    )
