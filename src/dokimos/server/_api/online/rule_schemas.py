"""Bodies and answers of the routes of online evaluation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from dokimos.server._api.http.json_body import StrictBody, WireModel
from dokimos.server._api.judging.judge_schemas import BudgetBody, EvaluatorAnswer, EvaluatorBody

MatchTypes = Literal["SPAN_NAME", "ATTRIBUTE", "WILDCARD", "PATTERN"]
Scope = Literal["span", "parent", "trace", "session"]


class RuleBody(WireModel):
    """A rule: which spans are scored, and by what."""

    name: Annotated[str, Field(min_length=1, max_length=255, examples=["helpfulness"])]
    enabled: bool = True
    """A rule that is not enabled matches nothing, and what it has queued waits."""
    match_type: Annotated[MatchTypes, Field(examples=["SPAN_NAME"])]
    match_key: Annotated[str | None, Field(max_length=255)] = None
    """The attribute that is compared; WILDCARD and PATTERN compare the name of the span without it."""
    match_value: Annotated[str, Field(min_length=1, max_length=2000, examples=["llm.generate"])]
    conditions: dict[str, Any] | None = None
    """Further ones that must hold too: `{"all": [...]}`, `{"any": [...]}`, or an object of matchType,
    matchKey and matchValue."""
    scope: Scope = "span"
    """Whose input and output are scored where a span matches."""
    connection_id: str | None = None
    """The model that is asked; null for an evaluator that asks none."""
    evaluator_name: Annotated[str, Field(min_length=1, max_length=255, examples=["helpfulness"])]
    """What the scores are called."""
    criteria: Annotated[str | None, Field(max_length=50_000)] = None
    min_score: float = 0.0
    max_score: float = 0.0
    threshold: float | None = None
    """The score, on this scale, from which on a span passes."""
    evaluator: EvaluatorBody | None = None
    """Instead of criteria, an evaluator of the library."""
    sampling: dict[str, Any] | None = None
    """`{"rate": 0.1}`, and perhaps `strata`, each with a name, conditions and a rate."""
    budget: BudgetBody | None = None
    """What the rule may cost on a day, in UTC."""
    review: dict[str, Any] | None = None
    """Which of its scores people look at: `{"failedRate": 1.0, "otherRate": 0.05, "maxPerDay": 50}`."""


class RuleAnswer(WireModel):
    """A rule."""

    id: str
    project_id: str
    name: str
    enabled: bool
    match_type: MatchTypes
    match_key: str | None
    match_value: str
    connection_id: str | None
    """Null for an evaluator that asks no model, and for callers that do not see the connection."""
    evaluator_name: str
    criteria: str | None
    min_score: float | None
    max_score: float | None
    threshold: float | None
    created_at: str
    updated_at: str
    version: str
    """What `If-Match` takes: it is another one after each change."""
    conditions: dict[str, Any] | None
    scope: Scope
    evaluator: EvaluatorAnswer | None
    sampling: dict[str, Any] | None
    budget: dict[str, Any] | None
    review: dict[str, Any] | None


class BackFillBody(StrictBody):
    """Which stored traces a rule is held against."""

    from_: Annotated[str, Field(alias="from", examples=["2026-11-01T00:00:00Z"])]
    """When the server heard of the first of them."""
    to: str | None = None
    """Until now by default."""


class DryRunBody(RuleBody):
    """A rule to try, and on which stored traces."""

    from_: Annotated[str | None, Field(alias="from")] = None
    """When the server heard of the first of them; a week ago by default."""
    to: str | None = None


class BackFillAnswer(WireModel):
    """How far a rule has been held against stored traces."""

    id: str
    rule_id: str
    status: Literal["PENDING", "SUCCEEDED"]
    from_: Annotated[str, Field(alias="from")]
    to: str
    trace_count: int
    """Traces that were looked at."""
    job_count: int
    """What was queued: what the rule had scored before is not scored again."""
    created_at: str
    completed_at: str | None


class ForecastAnswer(WireModel):
    """About what a rule will cost; each job is counted as one call."""

    jobs_per_day: float
    tokens_per_job: float | None
    """Null for an evaluator that asks no model."""
    cost_usd_per_day: float | None
    """Null where the price of the model is not known, or none is asked."""


class ExampleAnswer(WireModel):
    """Something that would be scored."""

    trace_id: str
    span_id: str


class DryRunAnswer(WireModel):
    """What a rule would make of stored traces."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    trace_count: int
    is_complete: bool
    """Whether all traces of the time were looked at; else the first ones were, until `to`. Of traces of
    other projects, which may have spans of this one, the first 20,000 are looked at."""
    match_count: int
    """What matches, sampled or not."""
    sampled_count: int
    examples: list[ExampleAnswer]
    forecast: ForecastAnswer


class EstimateAnswer(WireModel):
    """A mean over all that a rule matches, sampled or not."""

    value: float
    low: float
    """Of the interval that holds the true mean in 95 of 100 cases; `high` is its other end."""
    high: float
    n: int
    """Traces that it is from; the scores of one trace count as one observation."""
    sampled_share: float
    """The share of what matches that was sampled."""


class ReviewStatsAnswer(WireModel):
    """What people said of scores that a rule put into the review queue."""

    queued_count: int
    reviewed_count: int
    """With the verdict CORRECT or INCORRECT."""
    correct_rate: EstimateAnswer | None
    """How often people find the answer correct; null for fewer than two reviewed traces."""


class RuleReviewsAnswer(WireModel):
    """What people said of scores that a rule put into the review queue, as the rule had judged."""

    failed: ReviewStatsAnswer
    other: ReviewStatsAnswer
    correct_rate: EstimateAnswer | None
    """Over all that the rule matches, each weighted by the rates that held when it was queued; null as long
    as only failed scores, or only others, were reviewed."""
    limited_day_count: int
    """Days of which as many scores are in the queue as `maxPerDay` now is, whoever sees them: what was
    scored later on them is in no rate. Items that were removed, and limits of earlier times, do not count."""


class RuleStatsAnswer(WireModel):
    """What the scores of a rule say of some time."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    scored_count: int
    error_count: int
    """Jobs without a score, which are in no mean."""
    open_count: int
    """Jobs that are not over yet."""
    pass_rate: EstimateAnswer | None
    """Null for fewer than two traces."""
    mean_score: EstimateAnswer | None
    is_complete: bool
    """Whether all jobs of the time are counted; else the latest are."""
    reviews: RuleReviewsAnswer
