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
    evaluator_name: str
    criteria: str | None
    min_score: float | None
    max_score: float | None
    threshold: float | None
    created_at: str
    updated_at: str
    conditions: dict[str, Any] | None
    scope: Scope
    evaluator: EvaluatorAnswer | None
    sampling: dict[str, Any] | None
    budget: dict[str, Any] | None


class TimeRange(StrictBody):
    """Between which times traces were received."""

    from_: Annotated[str, Field(alias="from", examples=["2026-11-01T00:00:00Z"])]
    to: str | None = None
    """Until now by default."""
