"""What holds a connection to a model: the rules that ask it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from dokimos.server._db.trace_rule_tables import TRACE_EVAL_RULES
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import ConflictError


def check_no_rule_uses(connection: Connection, principal: Principal, row: Row[Any]) -> None:
    """Refuse to take the model from rules, whoever they belong to; only what the caller sees is named.

    Raises:
        ConflictError: Rules use it.
    """
    rule = TRACE_EVAL_RULES.c
    used = select(rule.id).where(rule.connection_id == row.id)
    if connection.execute(used.limit(1)).first() is None:
        return
    visible = select(rule.name).where(rule.connection_id == row.id, principal.sees(TRACE_EVAL_RULES))
    names = connection.execute(visible.order_by(rule.created_at).limit(3)).scalars().all()
    which = f", such as '{names[0]}'" if names else ""
    raise ConflictError(
        f"Trace eval rules use the LLM connection '{row.name}'{which}; delete them, or give them another one"
    )
