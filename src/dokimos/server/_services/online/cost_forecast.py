"""About what a rule will cost, from the texts that it would be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from dokimos._core.metrics import CallMetrics, PriceTable
from dokimos.judges._prices import cost_of
from dokimos.server._services.judging.judge_evaluators import EvaluatorSpec

_CHARACTERS_PER_TOKEN: Final = 4.0
"""Of English text."""
_PROMPT_TOKENS: Final = 350
"""Of what the library says around the texts."""
_REPLY_TOKENS: Final = 120


@dataclass(frozen=True, slots=True)
class CostForecast:
    """An estimate; each job is counted as one call."""

    jobs_per_day: float
    tokens_per_job: float | None
    cost_usd_per_day: float | None


def forecast_cost(
    jobs_per_day: float,
    lengths: Sequence[int],
    spec: EvaluatorSpec,
    prices: PriceTable | None,
    model: str | None,
) -> CostForecast:
    """Return about what the jobs of a rule will cost.

    Args:
        jobs_per_day: How many there will be.
        lengths: The characters of the texts of some of them.
        spec: What scores them.
        prices: What the model costs, None where nobody knows.
        model: Its name, None where none is asked.
    """
    if model is None or not lengths:
        return CostForecast(jobs_per_day, None, None)
    criteria = len(spec.criteria.criteria) if spec.criteria is not None else 0
    tokens_in = round((fmean(lengths) + criteria) / _CHARACTERS_PER_TOKEN) + _PROMPT_TOKENS
    cost = None
    if prices is not None:
        cost = cost_of(prices, CallMetrics(tokens_in, _REPLY_TOKENS, model=model))
    return CostForecast(
        jobs_per_day, float(tokens_in + _REPLY_TOKENS), None if cost is None else cost * jobs_per_day
    )
