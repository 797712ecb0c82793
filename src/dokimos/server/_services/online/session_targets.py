"""How jobs and chances name the session that they are of."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from dokimos.server._db.trace_tables import TRACE_EVAL_CHANCES, TRACE_EVAL_JOBS, TRACES
from dokimos.server._services.online.enabled_rules import EvalRule
from dokimos.server._services.online.trace_jobs import SESSION


def name_session(rule: EvalRule, trace: Row[Any]) -> str:
    """Return the target of the session of a trace, one for each project and tenant that has such a session.

    Several may use the same id, and each such session is scored with the traces of its own project alone.
    """
    # A tenant may be called anything: "a" with a session "b/c" is not "a/b" with a session "c".
    tenant = trace.tenant_key.replace("%", "%25").replace("/", "%2F")
    session = f"{tenant}/{trace.session_id}"
    # Without the project where it is that of the rule, as earlier versions named all of them.
    return f"{SESSION}{session}" if trace.project_id == rule.project_id else f"{_prefix(trace)}{session}"


def find_stored_name(connection: Connection, rule_id: str, target: str, trace: Row[Any]) -> str:
    """Return the target under which a session is stored, so that it is not scored a second time.

    The spans of the rule's project may have come first, and been matched, before the one that had the trace
    counted to another project: what is stored has the name from before.

    Args:
        connection: Of the traces.
        rule_id: The rule.
        target: As `name_session` names it now; that of anything else is returned as it is.
        trace: One of its traces.
    """
    prefix = _prefix(trace)
    if not target.startswith(prefix):
        return target
    earlier = SESSION + target.removeprefix(prefix)
    is_now_here = (TRACES.c.project_id == trace.project_id, TRACES.c.session_id == trace.session_id)
    for table in (TRACE_EVAL_JOBS, TRACE_EVAL_CHANCES):
        named = select(TRACES.c.id).join(table, table.c.trace == TRACES.c.id)
        is_stored = (table.c.rule_id == rule_id, table.c.target == earlier)
        if connection.execute(named.where(*is_stored, *is_now_here)).first() is not None:
            return earlier
    return target


def _prefix(trace: Row[Any]) -> str:
    return f"{SESSION}{trace.project_id}/"
