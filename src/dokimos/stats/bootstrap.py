"""Intervals by resampling, where no formula gives one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from dokimos.stats.intervals import Interval

T = TypeVar("T")

RESAMPLES: Final = 2_000


def bootstrap_interval(
    sample: Sequence[T],
    statistic: Callable[[Sequence[T]], float | None],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Return the percentile bootstrap interval of a statistic of a sample (B. Efron, 1979).

    Resamples for which the statistic is not defined (None) are left out. The result is None for fewer than
    two observations, or where the statistic is defined in fewer than half of the resamples.
    """
    if len(sample) < 2:
        return None
    draw = random.Random(seed).choices
    found = (statistic(draw(sample, k=len(sample))) for _ in range(resamples))
    values = sorted(value for value in found if value is not None)
    if len(values) * 2 < resamples:
        return None
    tail = (1 - confidence) / 2
    return Interval(percentile(values, tail), percentile(values, 1 - tail))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of sorted values lies, interpolated between the nearest two."""
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])
