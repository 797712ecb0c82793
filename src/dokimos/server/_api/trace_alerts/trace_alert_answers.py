"""Alerts on traces as they are answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Row

from dokimos.server._db.clock import format_time
from dokimos.server._services.row_versions import version_of
from dokimos.server._services.trace_alerts.alert_config import AlertConfig, Baseline
from dokimos.server._services.trace_alerts.alert_progress import make_watch
from dokimos.server._services.trace_alerts.change_watch import ChangeWatch
from dokimos.server._services.trace_alerts.firing_facts import describe_evidence, describe_reason
from dokimos.server._services.trace_alerts.watched_rules import Problem

_FIGURES: Final = (
    "learnedCount", "lowerBoundCount", "evidence", "needed", "mean", "meanSinceFiring", "value",
)  # fmt: skip
"""What its watch says of it, where it knows that."""


def answer_alert(
    row: Row[Any],
    share: float | None,
    firing: Row[Any] | None,
    problem: Problem | None,
    names: Mapping[str, str],
) -> dict[str, Any]:
    """Return an alert with what it knows.

    Args:
        row: The alert.
        share: How many false alarms it may have in a year; None where it has no share.
        firing: What it fires on at the moment.
        problem: Why it is not to be relied on.
        names: Those of who acknowledged what it fires on, by their ids.
    """
    config = AlertConfig.load(row.config)
    known = make_watch(config, row.state, share or 1.0).describe()
    if share is None:
        known |= {"evidence": None, "needed": None}
    return {
        "id": row.id,
        "projectId": row.project_id,
        "tenantId": row.tenant_id,
        "name": row.name,
        "enabled": row.enabled,
        "kind": config.kind,
        "metric": config.metric,
        "ruleId": config.rule_id,
        "filter": None if config.metric.is_of_rule else _answer_filter(config),
        "direction": config.direction,
        "over": config.over,
        "reference": known.get("reference", config.reference),
        "baseline": None if config.baseline is None else _answer_baseline(config.baseline),
        "tolerance": config.tolerance,
        "importance": row.importance,
        "limit": config.limit,
        "window": _answer_window(config),
        "createdAt": format_time(row.created_at),
        "updatedAt": format_time(row.updated_at),
        "version": version_of(row),
        "status": row.status,
        "problem": None if problem is None else problem.text,
        "needsRestart": problem is not None and problem.needs_restart,
        "falseAlarmsPerYear": share,
        "observationCount": row.observation_count,
        "observedUntil": format_time(row.observed_until),
        **{name: known.get(name) for name in _FIGURES},
        "firing": None if firing is None else answer_firing(firing, config, names),
    }


def answer_history(row: Row[Any]) -> list[dict[str, Any]]:
    """Return how the evidence of a change alert went, nothing of a threshold."""
    watch = make_watch(AlertConfig.load(row.config), row.state, 1.0)
    if not isinstance(watch, ChangeWatch):
        return []
    return [
        {
            "at": format_time(point.at),
            "evidence": point.evidence,
            "needed": point.needed,
            "status": "FIRING" if point.is_firing else "WATCHING",
        }
        for point in watch.history
    ]


def answer_firing(row: Row[Any], config: AlertConfig, names: Mapping[str, str]) -> dict[str, Any]:
    """Return when an alert fired, on what, and what was done about it."""
    evidence = json.loads(row.evidence)
    return {
        "id": row.id,
        "createdAt": format_time(row.created_at),
        "reason": describe_reason(config, evidence),
        "endedAt": format_time(row.ended_at),
        "acknowledgedAt": format_time(row.acknowledged_at),
        "acknowledgedBy": row.acknowledged_by,
        "acknowledgedByName": names.get(row.acknowledged_by),
        "note": row.note,
        **describe_evidence(evidence),
    }


def _answer_filter(config: AlertConfig) -> dict[str, Any]:
    chosen = config.filter
    return {"model": chosen.model, "rootName": chosen.root_name, "userId": chosen.user_id}


def _answer_baseline(baseline: Baseline) -> dict[str, Any]:
    return {
        "count": baseline.count,
        "from": format_time(baseline.from_at),
        "to": format_time(baseline.to_at),
    }


def _answer_window(config: AlertConfig) -> dict[str, Any] | None:
    window = config.window
    return None if window is None else {"traces": window.traces, "minutes": window.minutes}
