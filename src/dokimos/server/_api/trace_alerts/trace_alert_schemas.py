"""Bodies and answers of the routes of alerts on traces."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dokimos.server._api.http.json_body import StrictBody, WireModel
from dokimos.server._services.trace_alerts.alert_config import MAX_BASELINE, MIN_BASELINE

Kind = Literal["CHANGE", "THRESHOLD"]
MetricName = Literal["SCORE", "PASS_RATE", "ERROR_RATE", "LATENCY", "COST"]
DirectionName = Literal["DROP", "RISE", "BOTH"]
Text = Annotated[str, Field(min_length=1, max_length=1000)]
Number = Annotated[float, Field(ge=-1e12, le=1e12)]
Positive = Annotated[float, Field(ge=0, le=1e12)]
_DAY: int = 24 * 60


class FilterBody(StrictBody):
    """Which traces are watched; null says nothing."""

    model: Text | None = None
    root_name: Text | None = None
    user_id: Text | None = None


class BaselineBody(StrictBody):
    """Of which observations the reference is the mean: the next ones, or those of a period."""

    count: Annotated[int | None, Field(ge=MIN_BASELINE, le=MAX_BASELINE)] = None
    from_: Annotated[str | None, Field(alias="from", examples=["2026-11-01T00:00:00Z"])] = None
    to: str | None = None


class WindowBody(StrictBody):
    """Of which observations the mean is compared: the last ones, or those of the last minutes."""

    traces: Annotated[int | None, Field(ge=1, le=1000)] = None
    minutes: Annotated[int | None, Field(ge=1, le=7 * _DAY)] = None


class TraceAlertBody(StrictBody):
    """An alert on traces."""

    name: Annotated[str, Field(min_length=1, max_length=255, examples=["more errors"])]
    enabled: bool = True
    """An alert that is not enabled watches nothing; what comes meanwhile does not count."""
    kind: Kind
    metric: Annotated[MetricName, Field(examples=["ERROR_RATE"])]
    rule_id: str | None = None
    """For SCORE and PASS_RATE: whose scores are watched."""
    filter: FilterBody | None = None
    """For the others: which traces are watched; all of the project by default."""
    direction: DirectionName | None = None
    """By default DROP for SCORE and PASS_RATE, RISE for the others."""
    over: Positive | None = None
    """For LATENCY (in ms) and COST (in US dollars): the share of traces above this is watched."""
    reference: Number | None = None
    """For CHANGE, what the mean should be. Without it, the alert learns a baseline."""
    baseline: BaselineBody | None = None
    """For CHANGE without a reference; the next 1,000 observations by default."""
    tolerance: Positive = 0.0
    """For CHANGE: how far the mean may be from the reference, in its units, without being a change."""
    importance: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """For CHANGE: by this the alerts of a project share its false alarms."""
    limit: Number | None = None
    """For THRESHOLD: the alert fires when the mean is below (DROP) or above (RISE) it."""
    window: WindowBody | None = None
    """For THRESHOLD: the last 100 traces by default."""


class ChangedAlertBody(TraceAlertBody):
    """An alert as it is to be from now on."""

    restart: bool = False
    """Begin anew even where it watches the same as before: with the scale and the sampling that its rule has
    now, and a new baseline."""


class BackTestBody(TraceAlertBody):
    """An alert to try, and on which stored traces."""

    alert_id: str | None = None
    """The stored alert of which this is an edit, whose place it takes among those of the project."""
    from_: Annotated[str | None, Field(alias="from")] = None
    """When the server heard of the first of them; 30 days ago by default."""
    to: str | None = None


class AcknowledgeBody(StrictBody):
    """What is done about what an alert fired on."""

    baseline: Literal["keep", "new"] = "keep"
    """`keep` watches against the same reference again; `new` learns a new baseline, from now on."""
    note: Annotated[str | None, Field(max_length=2000)] = None


class MeanAnswer(WireModel):
    """A mean with its 95 % interval."""

    value: float | None
    """Null where it is not finite, as either end."""
    low: float | None
    high: float | None


class EvidenceAnswer(WireModel):
    """What an alert fired on."""

    fired_at: str
    """When the server heard of the trace that decided it."""
    since: str | None
    """Of a change: when it came, as estimated."""
    direction: Literal["DROP", "RISE"]
    value: float | None
    """Of a threshold: the mean of the window."""
    limit: float | None
    reference: float | None
    """Of a change: what the mean was, or should be."""
    before: MeanAnswer | None
    """Of a change: the mean until then, and since then."""
    after: MeanAnswer | None
    observations: int
    """Of a change: all of them; of a threshold: those in the window."""
    lower_bound_count: int | None
    """Of a cost: traces that cost more than was observed, as some of their model calls are unpriced. Of a
    change those of its baseline, too; null where an earlier version has not counted them."""
    since_observation: int | None
    evidence: float | None
    """Of a change: by how much it was more likely than chance allows; it fires from `needed` on."""
    needed: float | None
    false_alarms_per_year: float | None


class FiringAnswer(EvidenceAnswer):
    """When an alert fired, on what, and what was done about it."""

    id: str
    created_at: str
    """When the server noticed it."""
    reason: str
    ended_at: str | None
    """When a threshold was kept again, or a change was acknowledged."""
    acknowledged_at: str | None
    acknowledged_by: str | None
    acknowledged_by_name: str | None
    """As that key or person is called, where it exists still."""
    note: str | None


class FilterAnswer(WireModel):
    """Which traces are watched."""

    model: str | None
    root_name: str | None
    user_id: str | None


class BaselineAnswer(WireModel):
    """Of which observations the reference is the mean."""

    count: int | None
    from_: Annotated[str | None, Field(alias="from")]
    to: str | None


class WindowAnswer(WireModel):
    """Of which observations the mean is compared."""

    traces: int | None
    minutes: int | None


class TraceAlertAnswer(WireModel):
    """An alert on traces, and what it knows."""

    id: str
    project_id: str
    tenant_id: str | None
    """Whose it is; null for everybody's."""
    name: str
    enabled: bool
    kind: Kind
    metric: MetricName
    rule_id: str | None
    filter: FilterAnswer | None
    direction: DirectionName
    over: float | None
    reference: float | None
    """What was set, or what the baseline gave."""
    baseline: BaselineAnswer | None
    tolerance: float
    importance: float
    limit: float | None
    window: WindowAnswer | None
    created_at: str
    updated_at: str
    version: str
    """What `If-Match` takes: it is another one after each change."""
    status: Literal["LEARNING", "WATCHING", "FIRING"]
    problem: str | None
    """Why the alert is not to be relied on, such as a rule that was deleted; null where nothing is wrong."""
    needs_restart: bool
    """Whether the problem is solved by beginning anew (`restart`), with the scale that the rule has now."""
    false_alarms_per_year: float | None
    """Of a change alert that is enabled: its share of those of the project."""
    observation_count: int
    lower_bound_count: int
    """Of a cost: traces that cost more than was observed, as some of their model calls are unpriced. Of a
    threshold, those in the window."""
    observed_until: str | None
    """When the last trace came that counted."""
    learned_count: int | None
    """Observations of the baseline until now, while it is learned."""
    evidence: float | None
    """Of a change alert, now: it fires from `needed` on."""
    needed: float | None
    mean: MeanAnswer | None
    """Of a change alert, since it began to watch."""
    mean_since_firing: MeanAnswer | None
    value: float | None
    """Of a threshold: the mean of the last window."""
    firing: FiringAnswer | None
    """What it fires on at the moment."""


class EvidencePointAnswer(WireModel):
    """The greatest evidence of some traces that followed each other."""

    at: str
    evidence: float
    needed: float
    """What it took to fire then: the alert's share of the false alarms may have changed since."""
    status: Literal["WATCHING", "FIRING"]


class ChanceAnswer(WireModel):
    """How often a threshold would have fired if nothing had changed."""

    expected: float
    standard_error: float
    is_exact: bool


class BackTestAnswer(WireModel):
    """What an alert would have made of stored traces."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    observation_count: int
    lower_bound_count: int
    """Of a cost: traces that cost more than what was observed, as some of their model calls are unpriced."""
    is_complete: bool
    """Whether all traces of the time were looked at; else the first ones were, until `to`."""
    status: Literal["LEARNING", "WATCHING", "FIRING"]
    """How it would have ended; LEARNING where the time is too short for the baseline."""
    firing_count: int
    firings: list[EvidenceAnswer]
    """What it would have fired on, the first 20."""
    false_alarms_per_year: float | None
    """Of a change alert: what its share would be."""
    by_chance: ChanceAnswer | None
    """Of a threshold; null without traces, and where they were sampled with several probabilities."""
