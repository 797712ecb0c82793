"""The pass rate of a known number of items, of which some were picked at random and looked at.

Once most of them were looked at, little is left to be uncertain of, and nothing once all were: the counts
are hypergeometric, not binomial.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from dokimos.stats._intervals import Interval

_CACHED_INTERVALS: Final = 4_096
_NEGLIGIBLE: Final = 1e-17
"""Terms below this share of a sum no longer change a float."""


@lru_cache(_CACHED_INTERVALS)
def finite_interval(passed: int, n: int, population: int, *, confidence: float = 0.95) -> Interval:
    """Return the exact interval of the pass rate of `population` items, of which `n` were picked at random.

    It is Clopper and Pearson's for picking without putting back: it holds the true rate at least as often as
    stated, and is a single point once all items were looked at (T. Wright, 1991, Exact Confidence Bounds when
    Sampling from Small Finite Universes).

    Args:
        passed: How many of the `n` pass.
        n: How many were looked at; with 0 the interval is 0..1.
        population: How many there are, those included; at least 1.
        confidence: How often the interval holds the true rate.

    Raises:
        ValueError: The counts contradict one another.

    Example:
        >>> finite_interval(18, 20, 100)
        Interval(low=0.72, high=0.98)
        >>> finite_interval(90, 100, 100)
        Interval(low=0.9, high=0.9)
    """
    return _interval(passed, n, population, confidence, own_share=1.0)


@lru_cache(_CACHED_INTERVALS)
def finite_mid_p_interval(passed: int, n: int, population: int, *, confidence: float = 0.95) -> Interval:
    """Return the mid-P interval of the pass rate of `population` items, of which `n` were picked at random.

    It relates to `finite_interval` as `mid_p_interval` to `clopper_pearson_interval`: it has half of the
    probability of what was seen in either tail, is narrower, and holds the true rate about as often as
    stated. Arguments and errors are those of `finite_interval`.
    """
    return _interval(passed, n, population, confidence, own_share=0.5)


def _interval(passed: int, n: int, population: int, confidence: float, *, own_share: float) -> Interval:
    if not 0 <= passed <= n <= population or population < 1:
        raise ValueError(f"{passed} of {n} picked from {population} items is not possible.")
    tail = (1 - confidence) / 2
    most = _most_passes(passed, n, population, tail, own_share)
    fewest = population - _most_passes(n - passed, n, population, tail, own_share)
    return Interval(fewest / population, most / population)


def _most_passes(passed: int, n: int, population: int, tail: float, own_share: float) -> int:
    """Return the largest number of passes of all items with which so few of `n` are not too unlikely."""
    low, high = passed, population - (n - passed)
    while low < high:
        middle = (low + high + 1) // 2
        own = _probability(passed, n, population, middle)
        if _at_most(passed, n, population, middle) - (1 - own_share) * own > tail:
            low = middle
        else:
            high = middle - 1
    return low


def _at_most(passed: int, n: int, population: int, passes: int) -> float:
    """Return how likely at most `passed` of `n` are, if `passes` of all items pass."""
    if passed >= min(n, passes):
        return 1.0
    # Away from the mean the terms fall, and few of them count.
    if passed * population <= n * passes:
        return _sum_terms(passed, n, population, passes, step=-1)
    return 1 - _sum_terms(passed + 1, n, population, passes, step=1)


def _sum_terms(start: int, n: int, population: int, passes: int, *, step: int) -> float:
    term = total = _probability(start, n, population, passes)
    k, failing = start, population - passes - n
    while term > _NEGLIGIBLE * total:
        if step < 0:
            term *= k * (failing + k) / ((passes - k + 1) * (n - k + 1))
        else:
            term *= (passes - k) * (n - k) / ((k + 1) * (failing + k + 1))
        k += step
        total += term
    return total


def _probability(k: int, n: int, population: int, passes: int) -> float:
    """Return how likely exactly `k` of `n` are."""
    if not max(0, n - population + passes) <= k <= min(n, passes):
        return 0.0
    return math.exp(
        _log_choices(passes, k) + _log_choices(population - passes, n - k) - _log_choices(population, n)
    )


def _log_choices(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
