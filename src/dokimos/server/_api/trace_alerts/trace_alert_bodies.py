"""The body of an alert on traces, as what it asks for."""

from __future__ import annotations

from typing import Final

from dokimos.server._api.trace_alerts.trace_alert_schemas import (
    BackTestBody,
    BaselineBody,
    ChangedAlertBody,
    TraceAlertBody,
    WindowBody,
)
from dokimos.server._db.clock import parse_time
from dokimos.server._db.ids import parse_id
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.trace_alerts.alert_config import (
    AlertConfig,
    AlertFilter,
    AlertKind,
    Baseline,
    Direction,
    Metric,
    Window,
)
from dokimos.server._services.trace_alerts.trace_alerts import DEFAULT_BASELINE, AlertDraft

_DEFAULT_WINDOW: Final = Window(traces=100)
_OF_CHANGES: Final = ("reference", "baseline")
_OF_THRESHOLDS: Final = ("limit", "window")


def read_draft(body: TraceAlertBody) -> AlertDraft:
    """Return the alert that a body describes.

    Raises:
        InvalidRequestError: A field is missing, cannot be used, or is of the other kind.
    """
    kind, metric = AlertKind(body.kind), Metric(body.metric)
    _check_fields(body, kind, metric)
    direction = Direction.DROP if metric.is_of_rule else Direction.RISE
    if body.direction is not None:
        direction = Direction(body.direction)
    if kind is AlertKind.THRESHOLD and direction is Direction.BOTH:
        raise InvalidRequestError("must be DROP or RISE for a THRESHOLD", field="direction")
    chosen = AlertFilter() if body.filter is None else AlertFilter(**body.filter.model_dump())
    config = AlertConfig(
        kind=kind,
        metric=metric,
        direction=direction,
        rule_id=_read_rule_id(body) if metric.is_of_rule else None,
        filter=chosen,
        over=body.over,
        reference=body.reference,
        tolerance=body.tolerance,
        baseline=_read_baseline(body) if kind is AlertKind.CHANGE else None,
        limit=body.limit,
        window=_read_window(body.window) if kind is AlertKind.THRESHOLD else None,
    )
    return AlertDraft(
        name=body.name,
        enabled=body.enabled,
        importance=body.importance,
        config=config,
        restart=isinstance(body, ChangedAlertBody) and body.restart,
    )


def read_moment(text: str, field: str) -> int:
    """Return a time of a request in microseconds since 1970.

    Raises:
        InvalidRequestError: It is not one.
    """
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        raise InvalidRequestError("must be a time such as 2026-11-23T12:00:00Z", field=field) from None


def read_alert_id(body: BackTestBody) -> str | None:
    """Return the stored alert of which a body is an edit.

    Raises:
        InvalidRequestError: It is not an id.
    """
    alert_id = None if body.alert_id is None else parse_id(body.alert_id)
    if alert_id is None and body.alert_id is not None:
        raise InvalidRequestError("must be the id of an alert on traces", field="alertId")
    return alert_id


def _check_fields(body: TraceAlertBody, kind: AlertKind, metric: Metric) -> None:
    """Refuse fields that would be ignored, by which somebody wants something else."""
    foreign = _OF_THRESHOLDS if kind is AlertKind.CHANGE else _OF_CHANGES
    for name in foreign:
        if getattr(body, name) is not None:
            raise InvalidRequestError(f"is not for a {kind}", field=name)
    if kind is AlertKind.THRESHOLD and body.tolerance:
        raise InvalidRequestError(f"is not for a {kind}", field="tolerance")
    if kind is AlertKind.THRESHOLD and body.limit is None:
        raise InvalidRequestError("must not be null for a THRESHOLD", field="limit")
    if metric.is_of_rule and body.filter is not None:
        raise InvalidRequestError(f"is not for {metric}: the rule says what is scored", field="filter")
    if not metric.is_of_rule and body.rule_id is not None:
        raise InvalidRequestError(f"is not for {metric}", field="ruleId")
    if body.over is not None and not metric.is_unbounded:
        raise InvalidRequestError(f"is not for {metric}", field="over")
    is_value = metric.is_unbounded and body.over is None
    if is_value and body.reference is not None and body.reference <= 0:
        raise InvalidRequestError("must be above 0", field="reference")


def _read_rule_id(body: TraceAlertBody) -> str:
    rule_id = None if body.rule_id is None else parse_id(body.rule_id)
    if rule_id is None:
        raise InvalidRequestError("must be the id of a trace eval rule", field="ruleId")
    return rule_id


def _read_baseline(body: TraceAlertBody) -> Baseline | None:
    if body.reference is not None:
        if body.baseline is not None:
            raise InvalidRequestError("must be left out beside reference", field="baseline")
        return None
    return Baseline(count=DEFAULT_BASELINE) if body.baseline is None else _read_period(body.baseline)


def _read_period(body: BaselineBody) -> Baseline:
    if body.count is not None:
        if body.from_ is not None or body.to is not None:
            raise InvalidRequestError("must have either a count, or from and to", field="baseline")
        return Baseline(count=body.count)
    if body.from_ is None or body.to is None:
        raise InvalidRequestError("must have either a count, or from and to", field="baseline")
    start, end = read_moment(body.from_, "baseline.from"), read_moment(body.to, "baseline.to")
    if not 0 <= start < end:
        raise InvalidRequestError("must be before 'to'", field="baseline.from")
    return Baseline(from_at=start, to_at=end)


def _read_window(body: WindowBody | None) -> Window:
    if body is None:
        return _DEFAULT_WINDOW
    if (body.traces is None) == (body.minutes is None):
        raise InvalidRequestError("must have either traces or minutes", field="window")
    return Window(traces=body.traces, minutes=body.minutes)
