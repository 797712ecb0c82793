"""Answers of the routes of the ledger of judge calls."""

from __future__ import annotations

from typing import Any, Literal

from dokimos.server._api.http.json_body import WireModel

State = Literal["IN_FLIGHT", "ANSWERED", "UNUSABLE", "FAILED", "LOST", "REPLACED"]


class JudgeCallAnswer(WireModel):
    """A call to a model that a judge job has made."""

    id: str
    created_at: str
    """When it was reserved, just before it was made."""
    answered_at: str | None
    duration_ms: float | None
    state: State
    """`UNUSABLE` was answered with a reply that is of no use, `LOST` is a call of which nobody knows how it
    ended, and `REPLACED` was answered, but another reply to it counts."""
    problem: str | None
    """Why there is no reply, or why it is of no use."""
    calls: int
    """1, or 0 for what was answered together with another call, at no cost of its own."""
    tokens: int
    """What it took; of a call in flight, what is reserved for it."""
    cost_usd: float | None
    """Likewise, in US dollars; null where the price is not known."""
    has_reply: bool
    """Whether its reply is still kept."""
    judge: str
    """The model with its parameters, as the call was made."""
    job_id: str
    evaluator_name: str
    run_id: str
    run_name: str | None
    connection_id: str | None
    connection_name: str | None
    model: str | None
    """That of the connection as it is now."""


class JudgeCallTotals(WireModel):
    """What the calls that a filter chooses come to; tokens and cost leave out those in flight."""

    calls: int
    tokens: int
    cost_usd: float | None
    """In US dollars; null where no call was made, or the price of none is known."""
    unpriced_calls: int
    """Calls whose price is not known, which `costUsd` leaves out."""
    in_flight: int
    answered: int
    unusable: int
    failed: int
    lost: int
    replaced: int


class SpendingAnswer(WireModel):
    """What calls have cost, and what is reserved for those that are being made."""

    calls: int
    tokens: int
    cost_usd: float | None
    """In US dollars; null where no call was made, or the price of none is known."""
    unpriced_calls: int
    lost_calls: int
    reserved_calls: int
    reserved_tokens: int
    reserved_cost_usd: float


class SpendingDayAnswer(SpendingAnswer):
    """A day, in UTC, on which calls were made."""

    day: str


class SpendingJobAnswer(SpendingAnswer):
    """A judge job that calls a model."""

    job_id: str
    run_id: str
    evaluator_name: str
    status: str
    created_at: str
    budget: dict[str, Any] | None
    """`maxCostUsd`, `maxTokens` and `maxCalls`, as far as they are set."""


class JudgeBudgetsAnswer(WireModel):
    """What judging a project costs, beside the budgets that hold it."""

    today: str
    is_complete: bool
    """Whether the days hold all that counts in the budget; otherwise, the jobs that the caller sees."""
    limit_per_day: dict[str, Any] | None
    """The budget of each day: `maxCostUsd`, `maxTokens` and `maxCalls`, as far as they are set."""
    days: list[SpendingDayAnswer]
    """Days with calls, the oldest first; rules of online evaluation count in them, too."""
    jobs: list[SpendingJobAnswer]
    """The latest 20 jobs, the newest first."""
