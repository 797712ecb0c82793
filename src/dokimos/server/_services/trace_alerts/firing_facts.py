"""What an alert on traces says when it fires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Row

from dokimos.server._db.clock import format_time
from dokimos.server._services.trace_alerts.alert_config import AlertConfig, AlertKind, Metric

_NAMES: Final[Mapping[Metric, str]] = {
    Metric.SCORE: "mean score",
    Metric.PASS_RATE: "pass rate",
    Metric.ERROR_RATE: "error rate",
    Metric.LATENCY: "latency",
    Metric.COST: "cost",
}
_SECOND_MS: Final = 1000.0


def describe_evidence(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an alert fired on as it is answered and sent: with times as texts."""
    since = evidence.get("since")
    names = ("direction", "value", "limit", "reference", "before", "after", "observations", "lowerBoundCount")
    more = ("sinceObservation", "evidence", "needed", "falseAlarmsPerYear")
    return {
        "firedAt": format_time(evidence["firedAt"]),
        "since": format_time(since),
        **{name: evidence.get(name) for name in (*names, *more)},
    }


def describe_firing(
    alert: Row[Any], config: AlertConfig, firing_id: str, evidence: Mapping[str, Any], *, project_name: str
) -> dict[str, Any]:
    """Return the facts that webhooks are sent, except for the link."""
    return {
        "type": "traceAlert",
        "projectName": project_name,
        "projectId": alert.project_id,
        "alertId": alert.id,
        "alertName": alert.name,
        "firingId": firing_id,
        "kind": str(config.kind),
        "metric": str(config.metric),
        **describe_evidence(evidence),
        "reason": describe_reason(config, evidence),
    }


def describe_reason(config: AlertConfig, evidence: Mapping[str, Any]) -> str:
    """Return why an alert fires, in sentences."""
    return f"{_describe_crossing(config, evidence)}{_describe_lower_bounds(evidence)}"


def _describe_lower_bounds(evidence: Mapping[str, Any]) -> str:
    count = evidence.get("lowerBoundCount")
    if not count:
        return ""
    of_whom = "of 1 trace is" if count == 1 else f"of {count} traces is"
    return f" The cost {of_whom} a lower bound: some of the model calls are unpriced."


def _describe_crossing(config: AlertConfig, evidence: Mapping[str, Any]) -> str:
    name = _NAMES[config.metric]
    if config.over is not None:
        name = f"share of traces with a {name} over {_write(config, config.over, is_raw=True)}"
    elif config.is_squashed:
        name = f"typical {name}"
    if config.kind is AlertKind.THRESHOLD:
        beyond = "below" if evidence["direction"] == "DROP" else "above"
        return (
            f"The {name} is {_write(config, evidence['value'])}, {beyond} the limit of "
            f"{_write(config, evidence['limit'])}, over {evidence['observations']} traces."
        )
    moved = "dropped" if evidence["direction"] == "DROP" else "rose"
    return (
        f"The {name} {moved} from {_write(config, evidence['reference'])} to "
        f"{_write_estimate(config, evidence['after'])} since {format_time(evidence['since'])}. "
        f"The evidence is {evidence['evidence']:.0f}, and {evidence['needed']:.0f} is needed for "
        f"{evidence['falseAlarmsPerYear']:g} false alarms in a year."
    )


def _write_estimate(config: AlertConfig, estimate: Mapping[str, float | None] | None) -> str:
    if estimate is None:
        return "another value"
    low, high = (_write(config, estimate[name]) for name in ("low", "high"))
    return f"{_write(config, estimate['value'])} ({low} to {high})"


def _write(config: AlertConfig, value: float | None, *, is_raw: bool = False) -> str:
    """Write a value with its unit; with `is_raw`, one of latency or cost also where a share is watched."""
    if value is None:
        return "infinity"
    if config.metric.is_unbounded and (is_raw or config.over is None):
        if config.metric is Metric.COST:
            return f"${value:.4g}"
        return f"{value / _SECOND_MS:.3g} s" if value >= _SECOND_MS else f"{value:.3g} ms"
    return f"{value:.3g}" if config.metric is Metric.SCORE else f"{value:.1%}"
