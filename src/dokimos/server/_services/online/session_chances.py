"""The first chance of a session to be scored, which counts whether or not it was sampled then.

Each trace that matches is another chance of its session. What is said of sessions must not depend on which
of their chances had them scored: so a session that was passed over is noted, and stands where it would stand
if it had been sampled at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.trace_tables import TRACE_EVAL_CHANCES, TRACE_EVAL_JOBS


@dataclass(frozen=True, slots=True)
class PassedSession:
    """A session that a rule has matched and not sampled."""

    rule_id: str
    target: str
    """As of the job that it would have had."""
    trace: str
    """The id of the row of the trace that matched."""
    observed_at: int


def note_passed(connection: Connection, sessions: Iterable[PassedSession]) -> None:
    """Note sessions that were passed over, unless they had an earlier chance or are scored already."""
    job, chances = TRACE_EVAL_JOBS.c, TRACE_EVAL_CHANCES
    for each in sessions:
        known = select(job.id).where(job.rule_id == each.rule_id, job.target == each.target)
        if connection.execute(known).first() is None:
            insert_if_absent(
                connection,
                chances,
                rule_id=each.rule_id,
                target=each.target,
                trace=each.trace,
                observed_at=each.observed_at,
            )


def take_first_chance(connection: Connection, rule_id: str, target: str) -> int | None:
    """Return when a session that is scored after all was passed over first, None where it was not."""
    chance = TRACE_EVAL_CHANCES.c
    own = (chance.rule_id == rule_id, chance.target == target)
    removed = delete(TRACE_EVAL_CHANCES).where(*own).returning(chance.observed_at)
    return connection.execute(removed).scalar()
