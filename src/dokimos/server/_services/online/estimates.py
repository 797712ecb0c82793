"""What the scores of a sample say of all spans that a rule matches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from dokimos.stats import weighted_mean_estimate


@dataclass(frozen=True, slots=True)
class RuleEstimate:
    """A mean over all that a rule matches, sampled or not, with its interval."""

    value: float
    low: float
    high: float
    n: int
    """Traces that it is from: scores of one trace count as one observation."""
    sampled_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleStats:
    """What became of the jobs of a rule, and what their scores say."""

    scored: int
    errors: int
    """Jobs without a score, which are in no mean."""
    open: int
    """Jobs that are not over yet."""
    pass_rate: RuleEstimate | None
    mean_score: RuleEstimate | None
    is_cut: bool
    """Whether there are more jobs than were read."""


def estimate_mean(
    scores: Iterable[tuple[str, float, float]], *, within: tuple[float, float], confidence: float = 0.95
) -> RuleEstimate | None:
    """Return the mean of what was sampled with known probabilities; None for fewer than two traces.

    Each score is weighted by one over its probability. Those of one trace depend on each other, so they are
    one observation.

    Args:
        scores: Of each the trace, the value and the probability with which it was sampled.
        within: The range that the values could have.
        confidence: How often the interval holds the true mean.
    """
    count = 0
    weights: dict[str, float] = defaultdict(float)
    sums: dict[str, float] = defaultdict(float)
    for trace, value, probability in scores:
        count += 1
        weights[trace] += 1 / probability
        sums[trace] += value / probability
    # Rounding may carry a mean of equal values beyond them.
    low, high = within
    means = [min(high, max(low, sums[trace] / weight)) for trace, weight in weights.items()]
    estimate = weighted_mean_estimate(means, list(weights.values()), confidence=confidence, within=within)
    if estimate is None:
        return None
    total = sum(weights.values())  # in scores, as `count` is
    return RuleEstimate(
        estimate.value, estimate.interval.low, estimate.interval.high, estimate.n, min(1.0, count / total)
    )


def summarize_jobs(jobs: Sequence[Row[Any]], *, within: tuple[float, float], is_cut: bool) -> RuleStats:
    """Return what the jobs of a rule say."""
    scored = [job for job in jobs if job.status == "SUCCEEDED"]
    judged = [job for job in scored if job.success is not None]
    errors = sum(job.status == "FAILED" for job in jobs)
    return RuleStats(
        scored=len(scored),
        errors=errors,
        open=len(jobs) - len(scored) - errors,
        pass_rate=estimate_mean(
            ((job.trace, float(job.success), job.probability) for job in judged), within=(0.0, 1.0)
        ),
        mean_score=estimate_mean(((job.trace, job.score, job.probability) for job in scored), within=within),
        is_cut=is_cut,
    )
