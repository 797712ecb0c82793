"""Means of scores that reach a threshold where they should."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import mul
from typing import Final

_FINEST: Final = 10**6
"""The largest denominator of a number that is taken for a fraction."""


def exact_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Return the mean of what the numbers stand for, 7/10 for 0.7, rounded once.

    Three times 0.7 is 0.7, and not the 0.6999999999999998 that adding floats gives, which misses a threshold
    of 0.7. The weights must not all be 0.
    """
    shares = [Fraction(1)] * len(values) if weights is None else list(map(_fraction, weights))
    return float(sum(map(mul, map(_fraction, values), shares), Fraction()) / sum(shares))


def _fraction(number: float) -> Fraction:
    exact = Fraction(number)
    near = exact.limit_denominator(_FINEST)
    return near if float(near) == number else exact
