"""Bodies of alerts on traces that cannot be used, and what is filled in."""

import pytest
from pydantic import ValidationError

from dokimos.server._api.trace_alerts.trace_alert_bodies import read_draft
from dokimos.server._api.trace_alerts.trace_alert_schemas import TraceAlertBody
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.trace_alerts.alert_config import AlertConfig, Baseline, Window

EARLIER = "2026-01-01T00:00:00Z"


def read(**change):
    body = {"name": "alert", "kind": "CHANGE", "metric": "ERROR_RATE", **change}
    return read_draft(TraceAlertBody.model_validate(body))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metric": "SCORE"}, "ruleId"),
        ({"ruleId": "01a20924-0000-7000-8000-000000000007"}, "ruleId"),
        ({"limit": 0.1}, "limit"),
        ({"reference": 0.5, "baseline": {"count": 50}}, "baseline"),
        ({"baseline": {"count": 50, "from": EARLIER}}, "baseline"),
        ({"baseline": {"from": EARLIER}}, "baseline"),
        ({"baseline": {"from": "2026-02-01T00:00:00Z", "to": EARLIER}}, "baseline.from"),
        ({"baseline": {"count": 3}}, "baseline.count"),
        ({"over": 3}, "over"),
        ({"importance": 0}, "importance"),
        ({"kind": "THRESHOLD"}, "limit"),
        ({"kind": "THRESHOLD", "limit": 1, "direction": "BOTH"}, "direction"),
        ({"kind": "THRESHOLD", "limit": 1, "window": {"traces": 1, "minutes": 1}}, "window"),
        ({"kind": "THRESHOLD", "limit": 1, "tolerance": 1}, "tolerance"),
        ({"metric": "LATENCY", "reference": 0}, "reference"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_an_alert_that_says_nothing_is_refused_with_the_field(change, field):
    with pytest.raises((InvalidRequestError, ValidationError), match=field):
        read(**change)


def test_what_is_not_said_has_defaults():
    change, threshold = read().config, read(kind="THRESHOLD", metric="COST", limit=0.1).config

    assert (change.direction, change.baseline, change.window) == ("RISE", Baseline(count=1000), None)
    assert (threshold.baseline, threshold.window) == (None, Window(traces=100))
    assert read(metric="SCORE", ruleId="01a20924-0000-7000-8000-000000000007").config.direction == "DROP"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"reference": 0.5, "direction": "BOTH"},
        {"kind": "THRESHOLD", "limit": 0.5, "window": {"minutes": 5}, "filter": {"rootName": "a"}},
    ],
)
def test_what_is_watched_is_stored_as_json(body):
    config = read(**body).config

    assert AlertConfig.load(config.dump()) == config
