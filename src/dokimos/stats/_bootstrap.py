"""Intervals by resampling, where no formula gives one."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate
from statistics import NormalDist, fmean, pstdev
from typing import Final, TypeVar

from dokimos.stats._intervals import Interval

T = TypeVar("T")

RESAMPLES: Final = 2_000
MEAN_RESAMPLES: Final = 10_000
# Up to here resamples are drawn: the expansion by skewness and kurtosis is one for many values.
_MAX_RESAMPLED_VALUES: Final = 20
# The longest integer of `_sum_quantiles`, in values, in steps of the grid and in bits: it is raised to the
# n-th power, and beyond these it would take longer than the expansion is worth.
_MOST_ON_GRID: Final = 300
_FINEST: Final = 3_000
_SAME: Final = 1e-9
_MOST_BITS: Final = 400_000


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
    statistics = (statistic(draw(sample, k=len(sample))) for _ in range(resamples))
    values = sorted(value for value in statistics if value is not None)
    if len(values) * 2 < resamples:
        return None
    tail = (1 - confidence) / 2
    return Interval(percentile(values, tail), percentile(values, 1 - tail))


def bootstrap_mean_interval(
    values: Sequence[float], *, confidence: float = 0.95, resamples: int = MEAN_RESAMPLES, seed: int = 42
) -> Interval | None:
    """Return the percentile bootstrap interval of a mean; None for fewer than two values.

    Nothing is drawn where that is not needed: for values on a coarse grid, such as verdicts, the distribution
    of all resamples is computed; for other values, from 21 on, its quantiles are expanded by skewness and
    kurtosis (P. Hall, The Bootstrap and Edgeworth Expansion, 1992), which comes nearer than thousands of
    resamples.
    """
    if len(values) < 2:
        return None
    tail = (1 - confidence) / 2
    if (grid := _grid_of(values)) is not None:
        low, high = (float(grid * total / len(values)) for total in _sum_quantiles(values, grid, tail))
        return Interval(low, high)
    if len(values) <= _MAX_RESAMPLED_VALUES:
        return bootstrap_interval(values, fmean, confidence=confidence, resamples=resamples, seed=seed)
    return Interval(_mean_quantile(values, tail), _mean_quantile(values, 1 - tail))


def _grid_of(values: Sequence[float]) -> Fraction | None:
    """Return the largest step of which all values are multiples; None if sums of them would take too many."""
    if len(values) > _MOST_ON_GRID:
        return None
    near: dict[float, Fraction] = {}
    for value in set(values):
        # The float of 1/3 is meant as 1/3: without this the common denominator would be a power of two beyond
        # any use.
        near[value] = Fraction(value).limit_denominator(_FINEST)
        if abs(value - near[value]) > _SAME:
            return None
    unit = math.lcm(*(fraction.denominator for fraction in near.values()))
    step = Fraction(math.gcd(*(int(fraction * unit) for fraction in near.values())) or 1, unit)
    bits = _sum_bits(len(values)) * len(values) * int((max(near.values()) - min(near.values())) / step)
    return step if bits <= _MOST_BITS else None


def _sum_bits(n: int) -> int:
    """Return how many bits, in whole bytes, hold the number of all resamples of n values."""
    # There are n**n resamples in all, so no count can carry into the bits of the next sum.
    return int.bit_length(n**n) // 8 * 8 + 8


def _sum_quantiles(values: Sequence[float], grid: Fraction, tail: float) -> tuple[int, int]:
    """Return both quantiles of the sum of a resample, in steps of the grid, over all resamples.

    How many resamples have each sum are the coefficients of a polynomial's power: they are computed as a
    power of one long integer that holds them side by side (L. Kronecker, 1882).
    """
    n, steps = len(values), [round(value / grid) for value in values]
    least, width = min(steps), _sum_bits(len(values))
    power: int = sum(1 << (step - least) * width for step in steps) ** n
    packed = power.to_bytes(-(-power.bit_length() // 8), "little")
    ways = (packed[at : at + width // 8] for at in range(0, len(packed), width // 8))
    below = list(accumulate(int.from_bytes(way, "little") for way in ways))
    low, high = (bisect_left(below, math.ceil(Fraction(share) * n**n)) for share in (tail, 1 - tail))
    return n * least + low, n * least + high


def _mean_quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of the mean of a resample."""
    n, centre = len(values), fmean(values)
    spread = pstdev(values, centre)
    if spread == 0:
        return centre
    # Skewness and excess kurtosis of the mean, not of the values: hence the root of n and the n below.
    skew = fmean(((value - centre) / spread) ** 3 for value in values) / math.sqrt(n)
    kurtosis = (fmean(((value - centre) / spread) ** 4 for value in values) - 3) / n
    z = NormalDist().inv_cdf(share)
    bent = skew * (z * z - 1) / 6 + kurtosis * (z**3 - 3 * z) / 24 - skew**2 * (2 * z**3 - 5 * z) / 36
    return centre + spread / math.sqrt(n) * (z + bent)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of sorted values lies, interpolated between the nearest two."""
    position = share * (len(values) - 1)
    below = int(position)
    above = min(below + 1, len(values) - 1)
    return values[below] + (position - below) * (values[above] - values[below])
