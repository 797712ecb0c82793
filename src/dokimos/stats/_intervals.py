"""How far a rate that was seen may be from the true one."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Final

# Instead of a zero denominator, as in the method of W. J. Lentz (1976).
_TINY: Final = 1e-300
_MOST_TERMS: Final = 10_000
_MOST_NEWTON_STEPS: Final = 60
# Beyond this, e to the power of it overflows or is nearly 0, and a Newton step means nothing.
_LARGEST_LOG: Final = 690
# Two units in the last place of a float: nothing closer can be resolved.
_FINEST: Final = 4e-16
_CACHED_INTERVALS: Final = 4_096
"""Counts whose exact intervals are remembered: simulations and dashboards ask for the same few again."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A range that holds the true value with a stated confidence."""

    low: float
    high: float


def wilson_interval(passed: float, n: float, *, confidence: float = 0.95) -> Interval:
    """Return Wilson's score interval of the rate `passed / n`; with nothing seen it is 0..1.

    Unlike the normal approximation it stays inside 0..1 and keeps its width at rates of 0 and 1
    (E. B. Wilson, 1927). Counts may be fractions: means over repeats.
    """
    if n <= 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, spread = passed / n, z * z / n
    centre = (rate + spread / 2) / (1 + spread)
    half = math.sqrt(spread * (rate * (1 - rate) + spread / 4)) / (1 + spread)
    # Rounding would leave 1e-17 or 1 - 1e-16 where the end is exact.
    return Interval(0.0 if passed <= 0 else centre - half, 1.0 if passed >= n else centre + half)


@lru_cache(_CACHED_INTERVALS)
def clopper_pearson_interval(passed: float, n: float, *, confidence: float = 0.95) -> Interval:
    """Return the exact binomial interval of the rate `passed / n`; with nothing seen it is 0..1.

    It holds the true rate at least as often as stated, at the price of being wide
    (C. J. Clopper, E. S. Pearson, 1934).
    """
    if n <= 0:
        return Interval(0.0, 1.0)
    tail = (1 - confidence) / 2
    low = 0.0 if passed <= 0 else beta_quantile(tail, passed, n - passed + 1)
    high = 1.0 if passed >= n else beta_quantile(1 - tail, passed + 1, n - passed)
    return Interval(low, high)


@lru_cache(_CACHED_INTERVALS)
def mid_p_interval(passed: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Return the mid-P interval of the rate `passed / n`; with nothing seen it is 0..1.

    It is Clopper and Pearson's with half of the probability of what was seen in either tail (H. O. Lancaster,
    1961): narrower, and it holds the true rate about as often as stated, also for few items and rates near 0
    and 1, where Wilson's may not.
    """
    if n <= 0:
        return Interval(0.0, 1.0)
    tail = (1 - confidence) / 2
    low = 0.0 if passed <= 0 else 1 - _mid_p_limit(n - passed, n, tail)
    return Interval(low, 1.0 if passed >= n else _mid_p_limit(passed, n, tail))


def _mid_p_limit(passed: int, n: int, tail: float) -> float:
    """Return by bisection the largest rate at which `passed` or fewer are not too unlikely."""
    low, high = passed / n, 1.0
    # Until no float lies between them: no tolerance to choose, and never endless.
    while (middle := (low + high) / 2) not in (low, high):
        at_most = 1 - beta_cdf(middle, passed + 1, n - passed)
        fewer = 1 - beta_cdf(middle, passed, n - passed + 1) if passed else 0.0
        if (at_most + fewer) / 2 > tail:
            low = middle
        else:
            high = middle
    return high


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return the value below which a beta(a, b) variable lies with `probability`.

    It is found by Newton's steps, and by bisection where such a step leaves what is known to enclose it.
    """
    low, high, value = 0.0, 1.0, a / (a + b)
    # With very unlike a and b the mean rounds to an end, whose logarithm is not defined.
    value = value if 0 < value < 1 else 0.5
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    for steps in itertools.count():
        missed = beta_cdf(value, a, b) - probability
        low, high = (value, high) if missed < 0 else (low, value)
        log_density = log_front + (a - 1) * math.log(value) + (b - 1) * math.log1p(-value)
        is_steep = abs(log_density) < _LARGEST_LOG and steps < _MOST_NEWTON_STEPS
        candidate = value - missed / math.exp(log_density) if is_steep else -1.0
        if abs(candidate - value) <= _FINEST * value:
            return value
        value = candidate if low < candidate < high else (low + high) / 2
        if value in (low, high):
            return value
    raise AssertionError("a bisection ends")


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function: the share of a beta(a, b) variable below `x`."""
    if not 0 < x < 1:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    front = math.exp(log_front)
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(x, a, b) / a
    return 1 - front * _beta_fraction(1 - x, b, a) / b  # the fraction converges fast on its own side only


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of NIST DLMF 8.17.22 by Lentz's method."""
    c, d = 1.0, 1 / _off_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for term in (even, odd):
            d = 1 / _off_zero(1 + term * d)
            c = _off_zero(1 + term / c)
            change = c * d
            value *= change
        if abs(change - 1) < 1e-16:
            return value
    return value


def _off_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
