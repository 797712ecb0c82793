"""Bodies and answers of the routes of judge jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from dokimos.server._api.http.json_body import StrictBody, WireModel
from dokimos.server._judge_settings import MAX_COST_USD, MAX_COUNT

Status = Literal["PENDING", "CLAIMED", "SUCCEEDED", "FAILED", "PAUSED", "CANCELLED"]
Part = Literal["INPUT", "EXPECTED_OUTPUT", "ACTUAL_OUTPUT"]


class EvaluatorBody(StrictBody):
    """An evaluator of the library."""

    type: Annotated[str, Field(min_length=1, max_length=100, examples=["exact_match"])]
    """Its name, such as `faithfulness`."""
    params: Annotated[dict[str, Any], Field(default_factory=dict)]
    """Its parameters."""


class BudgetBody(StrictBody):
    """What the calls of a job may cost at most; null sets no limit."""

    max_cost_usd: Annotated[float | None, Field(ge=0, le=MAX_COST_USD)] = None
    max_tokens: Annotated[int | None, Field(ge=0, le=MAX_COUNT)] = None
    max_calls: Annotated[int | None, Field(ge=0, le=MAX_COUNT)] = None


class JobBody(WireModel):
    """A job: criteria for a judge, or an evaluator of the library."""

    connection_id: str | None = None
    """The model that is asked; null for an evaluator that asks none."""
    evaluator_name: Annotated[str, Field(min_length=1, max_length=255, examples=["exact"])]
    """What the scores are called."""
    criteria: Annotated[str | None, Field(max_length=50_000)] = None
    evaluation_params: Annotated[list[Part] | None, Field(max_length=20)] = None
    """What the judge is shown of each item, whole and as JSON."""
    min_score: float = 0.0
    max_score: float = 0.0
    threshold: float | None = None
    """The score, on this scale, from which on an item passes."""
    evaluator: EvaluatorBody | None = None
    """Instead of criteria."""
    concurrency: Annotated[int | None, Field(ge=1, le=256)] = None
    """Items that are scored at once; 8 by default."""
    budget: BudgetBody | None = None
    replace: bool = False
    """Whether the scores take the place of those that an earlier job gave under this name."""


class EvaluatorAnswer(WireModel):
    """The evaluator of a job."""

    type: str
    params: dict[str, Any]


class JobAnswer(WireModel):
    """A judge job."""

    id: str
    run_id: str
    connection_id: str | None
    evaluator_name: str
    status: Status
    attempt_count: int
    last_error: str | None
    created_at: str
    claimed_at: str | None
    completed_at: str | None
    criteria: str | None
    evaluation_params: list[Part] | None
    min_score: float | None
    max_score: float | None
    threshold: float | None
    evaluator: EvaluatorAnswer | None
    concurrency: int
    budget: dict[str, Any] | None
    replace: bool
    item_count: int
    scored_count: int
    """Items that have a score, those with an earlier one included."""
    error_count: int
    """Items that could not be scored; `.../errors` lists them."""
    skipped_count: int
    """Items for which the application gave no output."""
    calls: int
    """Calls to the model until now."""
    tokens: int
    cost_usd: float | None
    """In US dollars; null where no call was made, or the price of none is known."""
    unpriced_calls: int
    """Calls whose price is not known, which `costUsd` leaves out."""
    lost_calls: int
    """Calls that a server did not see the end of; what needed them asked again."""
    next_attempt_at: str | None
    """When a job that waits is due; null for others."""
    remaining_seconds: float | None
    """An estimate of how long it will take; null while there is none."""


class ErrorAnswer(WireModel):
    """An item that a job could not score."""

    item_id: str
    ordinal: int
    repetition: int
    kind: str
    """`unreadable` or `contested` (the reply), `unavailable` or `refused` (the model), `missing` (a part of
    the item), `timeout`, `skipped` (there is no output) or `error`."""
    message: str
    created_at: str
