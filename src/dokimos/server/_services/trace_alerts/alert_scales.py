"""The scale of what alerts watch: which values can occur, as the rule says, and what is refused for it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, select

from dokimos.server._db.trace_rule_tables import TRACE_EVAL_RULES
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.online.eval_rules import find_rule
from dokimos.server._services.projects.projects import find_project_by_id
from dokimos.server._services.trace_alerts.alert_config import AlertConfig, AlertKind, Direction
from dokimos.server._services.trace_alerts.change_watch import ChangeWatch
from dokimos.server._services.trace_alerts.watched_rules import take_scale_of_rule


def check_may_add_alerts(connection: Connection, principal: Principal, project_id: str) -> str | None:
    """Return whose an alert is that the caller adds to a project: a tenant, or None for everybody's.

    Raises:
        NotFoundError: There is no such project that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
    """
    project = find_project_by_id(connection, principal, project_id)
    principal.check_may_write(project.tenant_id, f"The project '{project.name}'", project=project_id)
    # What is made below a tenant's project is the tenant's, whoever makes it.
    tenant: str | None = principal.tenant if principal.is_restricted else project.tenant_id
    return tenant


def complete_config(
    connection: Connection, principal: Principal, project_id: str, tenant: str | None, config: AlertConfig
) -> AlertConfig:
    """Return what is watched with what the rule says of its scores: their range, and how they are sampled.

    Args:
        tenant: Whose the alert is.
        config: What is watched, as it is asked for.

    Raises:
        NotFoundError: There is no such rule of the project that the caller sees.
        InvalidRequestError: The reference is not inside the range of the scores, or the rule is of a tenant
            and the alert is not.
    """
    if config.rule_id is not None:
        rule = find_rule(connection, principal, project_id, config.rule_id)
        if rule.tenant_id not in (None, tenant):
            raise InvalidRequestError("names a rule of a tenant, whose alert this is not", field="ruleId")
        config = take_scale_of_rule(config, rule)
    _check_bounds(config)
    return config


def complete_edit(
    connection: Connection, principal: Principal, row: Row[Any], config: AlertConfig
) -> AlertConfig:
    """Return what a stored alert is to watch, with the scale of the scores.

    Where nothing else is watched than before, it is what is stored: a change of the rule since, or its
    deletion, keeps nobody from renaming or pausing the alert, which does not begin anew by that.

    Args:
        row: The alert as it is stored.
        config: What is to be watched, as it is asked for.

    Raises:
        NotFoundError: There is no such rule of the project that the caller sees.
        InvalidRequestError: As for `complete_config`.
    """
    stored = AlertConfig.load(row.config)
    if config.take_scale(stored) == stored:
        return stored
    return complete_config(connection, principal, row.project_id, row.tenant_id, config)


def read_scale(connection: Connection, config: AlertConfig) -> AlertConfig:
    """Return what a stored alert watches with the scale that its rule has now, if there is the rule still.

    Raises:
        InvalidRequestError: The tolerance is too large for it.
    """
    if config.rule_id is None:
        return config
    query = select(TRACE_EVAL_RULES).where(TRACE_EVAL_RULES.c.id == config.rule_id)
    rule = connection.execute(query).first()
    if rule is None:
        return config
    config = take_scale_of_rule(config, rule)
    _check_bounds(config)
    return config


def _check_bounds(config: AlertConfig) -> None:
    if config.kind is AlertKind.THRESHOLD:
        _check_limit(config)
        return
    if config.reference is None and not config.is_squashed:
        if config.tolerance >= config.high - config.low:
            raise InvalidRequestError(f"must be less than {config.high - config.low:g}", field="tolerance")
        # The baseline is not known yet; the range and the weights are.
        config = replace(config, reference=config.low / 2 + config.high / 2, tolerance=0.0)
    if config.reference is None:
        return
    try:
        ChangeWatch(config, None, 1.0)
    except ValueError:
        span = "above 0" if config.is_squashed else f"between {config.low:g} and {config.high:g}"
        message = f"must be {span}, with the tolerance too, and not at an end"
        raise InvalidRequestError(message, field="reference") from None


def _check_limit(config: AlertConfig) -> None:
    """Refuse a limit beyond which no mean can be."""
    assert config.limit is not None, "a threshold has a limit"
    is_unbounded = config.metric.is_unbounded and config.over is None
    low, high = (0.0, math.inf) if is_unbounded else (config.low, config.high)
    if config.direction is Direction.DROP and not low < config.limit <= high:
        span = f"above {low:g}" + ("" if is_unbounded else f" and at most {high:g}")
    elif config.direction is not Direction.DROP and not low <= config.limit < high:
        span = f"at least {low:g}" + ("" if is_unbounded else f" and below {high:g}")
    else:
        return
    raise InvalidRequestError(f"must be {span}: no mean is beyond it otherwise", field="limit")
