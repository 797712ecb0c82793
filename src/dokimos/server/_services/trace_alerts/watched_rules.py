"""The rules whose scores alerts watch: how these are bounded and sampled, and why none may come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from dokimos.server._db.clock import MINUTE, format_time, now
from dokimos.server._db.ids import time_of_id
from dokimos.server._db.trace_rule_tables import TRACE_EVAL_RULES
from dokimos.server._services.judging.judge_evaluators import EvaluatorSpec
from dokimos.server._services.online.enabled_rules import make_rule
from dokimos.server._services.trace_alerts.alert_config import AlertConfig, Metric

_SLACK: Final = MINUTE
"""By how much clocks of several servers may differ."""
_REMEDY: Final = "begin the alert anew ('restart')."


def take_scale_of_rule(config: AlertConfig, rule: Row[Any]) -> AlertConfig:
    """Return what is watched with what a rule says of its scores: their range, and how they are sampled."""
    judge = EvaluatorSpec.load(rule.evaluator).criteria
    low, high = (0.0, 1.0) if judge is None else (judge.min_score, judge.max_score)
    if config.metric is Metric.PASS_RATE:
        low, high = 0.0, 1.0
    sampling = make_rule(rule).sampling
    rates = (sampling.rate, *(stratum.rate for stratum in sampling.strata))
    return replace(config, low=low, high=high, largest_weight=1 / min(rates))


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an alert is not to be relied on."""

    text: str
    needs_restart: bool = False
    """Whether it is solved by beginning anew with the scale that the rule has now."""


def find_problems(connection: Connection, alerts: Sequence[Row[Any]]) -> dict[str, Problem]:
    """Return why alerts are not to be relied on, by their ids; those without a problem are not in it.

    An alert that hears of nothing would look like one for which all is well.
    """
    ids = sorted({alert.rule_id for alert in alerts if alert.rule_id is not None})
    query = select(TRACE_EVAL_RULES).where(TRACE_EVAL_RULES.c.id.in_(ids))
    rules = {rule.id: rule for rule in connection.execute(query)} if ids else {}
    found = {alert.id: _find_problem(alert, rules) or _find_problem_of_time(alert) for alert in alerts}
    return {alert_id: problem for alert_id, problem in found.items() if problem is not None}


def _find_problem(alert: Row[Any], rules: Mapping[str, Row[Any]]) -> Problem | None:
    if alert.rule_id is None:
        return None
    rule = rules.get(alert.rule_id)
    if rule is None:
        return Problem("The rule whose scores it watches was deleted: it observes nothing any more.")
    if not rule.enabled:
        return Problem(f"The rule '{rule.name}' is not enabled: no scores come.")
    config = AlertConfig.load(alert.config)
    bounded = take_scale_of_rule(config, rule)
    if (bounded.low, bounded.high) != (config.low, config.high):
        text = f"The scores of the rule '{rule.name}' have another range now: {_REMEDY}"
        return Problem(text, needs_restart=True)
    if bounded.largest_weight > config.largest_weight:
        text = f"The rule '{rule.name}' samples a smaller share now: {_REMEDY}"
        return Problem(text, needs_restart=True)
    return None


def _find_problem_of_time(alert: Row[Any]) -> Problem | None:
    """Say that an alert is ahead of the clock: it goes from trace to trace in the order of their times."""
    seen_until = time_of_id(alert.after)
    baseline = AlertConfig.load(alert.config).baseline
    begins_at = None if baseline is None else baseline.from_at  # which may be in the future
    if not alert.enabled or seen_until <= max(now(), begins_at or 0) + _SLACK:
        return None
    return Problem(
        "The clock of the server was set back: traces are not observed before it is "
        f"{format_time(seen_until)} again. To observe them from now on, {_REMEDY}",
        needs_restart=True,
    )
