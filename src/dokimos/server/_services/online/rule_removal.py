"""Rules that are removed, with what their judging has under way."""

from __future__ import annotations

from functools import partial

from sqlalchemy import ColumnElement, Connection, delete, select

from dokimos.server._db.outbox import post
from dokimos.server._db.trace_rule_tables import TRACE_EVAL_BATCHES, TRACE_EVAL_CALLS, TRACE_EVAL_RULES
from dokimos.server._services.judging.judge_budgets import sums_of_rule
from dokimos.server._services.judging.judge_leases import settle_lost
from dokimos.server._services.online.rules_changed import RulesChanged


def remove_rules(connection: Connection, *chosen: ColumnElement[bool]) -> int:
    """Remove rules with their batches, whose unfinished calls count as spent; return how many there were."""
    rules = select(TRACE_EVAL_RULES.c.id).where(*chosen)
    query = (
        select(TRACE_EVAL_BATCHES.c.id, TRACE_EVAL_BATCHES.c.rule_id)
        .where(TRACE_EVAL_BATCHES.c.rule_id.in_(rules), TRACE_EVAL_BATCHES.c.completed_at.is_(None))
        .order_by(TRACE_EVAL_BATCHES.c.id)
        .with_for_update()  # so that no call is begun meanwhile
    )
    for batch in connection.execute(query).all():
        settle_lost(connection, TRACE_EVAL_CALLS, batch.id, None, partial(sums_of_rule, batch.rule_id))
    count = connection.execute(delete(TRACE_EVAL_RULES).where(*chosen)).rowcount
    if count:
        post(connection, RulesChanged())
    return count


def remove_rules_of_project(connection: Connection, project_id: str) -> int:
    """Remove the rules of a project that is deleted; return how many there were."""
    return remove_rules(connection, TRACE_EVAL_RULES.c.project_id == project_id)
