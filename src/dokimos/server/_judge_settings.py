"""The settings of judging on the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dokimos.judges import Budget
from dokimos.server._environment import Variables

MAX_COST_USD: Final = 1_000_000_000
MAX_COUNT: Final = 2**53
"""The largest limits of budgets: their sums, in billionths of a dollar too, fit into a column."""


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """How the server scores stored runs.

    Example:
        >>> JudgeSettings(max_concurrency=64).max_concurrency
        64
    """

    poll_seconds: float = 5.0
    """How often the server looks for jobs that another server has stored, or that are due again."""
    max_attempts: int = 3
    """How often a job goes over items for which the model did not answer."""
    page_size: int = 50
    """How many results are stored in one transaction at most."""
    max_concurrency: int = 32
    """Items that all jobs of this server score at once."""
    lease_seconds: float = 60.0
    """How long a job is left to a server that gives no sign of life."""
    item_seconds: float = 600.0
    """How long an evaluator may take for one item, waiting for the model included."""
    request_seconds: float = 60.0
    """How long a model may take for one reply."""
    connections_need_admin: bool = False
    """Whether only an ADMIN may create and change connections to models, and not each EDITOR."""
    budget_per_day: Budget | None = None
    """What all judging may cost on a day, in UTC; None for any amount."""
    project_budget_per_day: Budget | None = None
    """The same for each project."""
    reply_days: float = 30.0
    """Days after the end of a job at which the replies of its model are removed; -1 keeps them."""


def read_judge_settings(variables: Variables) -> JudgeSettings:
    """Read the settings from environment variables.

    Raises:
        ConfigurationError: A value cannot be used; the message names the variable.
    """
    return JudgeSettings(
        poll_seconds=variables.integer("DOKIMOS_JUDGE_POLL_INTERVAL_MS", 5000, low=10) / 1000,
        max_attempts=variables.integer("DOKIMOS_JUDGE_MAX_ATTEMPTS", 3, low=1, high=100),
        page_size=variables.integer("DOKIMOS_JUDGE_PAGE_SIZE", 50, low=1, high=1000),
        max_concurrency=variables.integer("DOKIMOS_JUDGE_MAX_CONCURRENCY", 32, low=1, high=1000),
        lease_seconds=variables.integer("DOKIMOS_JUDGE_LEASE_SECONDS", 60, low=1, high=86_400),
        item_seconds=variables.integer("DOKIMOS_JUDGE_ITEM_SECONDS", 600, low=1),
        request_seconds=variables.integer("DOKIMOS_JUDGE_REQUEST_SECONDS", 60, low=1, high=3600),
        connections_need_admin=variables.boolean("DOKIMOS_CONNECTIONS_NEED_ADMIN"),
        budget_per_day=_read_budget(variables, "DOKIMOS_JUDGE_BUDGET"),
        project_budget_per_day=_read_budget(variables, "DOKIMOS_JUDGE_PROJECT_BUDGET"),
        reply_days=variables.number("DOKIMOS_JUDGE_REPLY_DAYS", 30.0, forever="for ever"),
    )


def _read_budget(variables: Variables, prefix: str) -> Budget | None:
    dollars = variables.number(
        f"{prefix}_USD_PER_DAY", _NO_LIMIT, high=MAX_COST_USD, forever="for any amount"
    )
    tokens = variables.integer(f"{prefix}_TOKENS_PER_DAY", _NO_LIMIT, low=_NO_LIMIT, high=MAX_COUNT)
    calls = variables.integer(f"{prefix}_CALLS_PER_DAY", _NO_LIMIT, low=_NO_LIMIT, high=MAX_COUNT)
    if dollars == tokens == calls == _NO_LIMIT:
        return None
    return Budget(
        max_cost_usd=None if dollars == _NO_LIMIT else dollars,
        max_tokens=None if tokens == _NO_LIMIT else tokens,
        max_calls=None if calls == _NO_LIMIT else calls,
    )


_NO_LIMIT: Final = -1
