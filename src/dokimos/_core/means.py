"""Exact means that are rounded once, so that a threshold that is reached counts as reached.

Floats cannot hold 0.7, so three of them, added and divided, give 0.6999999999999998, which misses a level of
0.7. Here a number counts as what it stands for, 7/10, and only the mean is made a float again: the float that
is nearest to the exact mean, which is also the one that a level with the same value is read as.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from operator import mul
from typing import Final

_PLACES: Final = 350
"""Decimal places of a unit; the shortest spelling of a float has no more."""
UNIT: Final = 10**_PLACES
"""Numbers are added as integers, in which 1 is this many units: sums do not depend on their order."""
_MAX_DECIMALS: Final = 12
"""Decimals up to which a number is taken for a decimal; those of 1/3 go on to the end."""
_LARGEST_DENOMINATOR: Final = 10**6


@lru_cache(maxsize=2048)
def units_of(number: float) -> int:
    """Return what a number stands for, in units: 7/10 for 0.7, 1/3 for 0.3333333333333333.

    That is its shortest decimal spelling, unless it is long and a fraction of small terms is nearest to it.

    Raises:
        ValueError: when it is not finite.
    """
    if isinstance(number, int):  # which may be too large for a float
        return number * UNIT
    value = float(number)
    if not isfinite(value):
        raise ValueError(f"There is no mean of numbers with {number!r} among them; leave it out.")
    digits, _, exponent = repr(value).partition("e")
    whole, _, rest = digits.partition(".")
    if len(rest) > _MAX_DECIMALS and (terms := _small_terms(value)) is not None:
        return terms[0] * UNIT // terms[1]
    return int(whole + rest) * _power_of_ten(_PLACES - len(rest) + int(exponent or 0))


@lru_cache(maxsize=2048)
def square_units_of(number: float) -> int:
    """Return the square of what a number stands for, in units."""
    return units_of(number) ** 2 // UNIT


@lru_cache(maxsize=64)
def _power_of_ten(exponent: int) -> int:
    power: int = 10**exponent  # computing it takes as long as the rest of `units_of`
    return power


def _small_terms(value: float) -> tuple[int, int] | None:
    """Return numerator and denominator of the simplest fraction whose float is `value`, None without one.

    Any such fraction is so near that it is a convergent of the value's continued fraction.
    """
    above, below = value.as_integer_ratio()
    last, now = (0, 1), (1, 0)
    while below:
        whole, rest = divmod(above, below)
        last, now = now, (whole * now[0] + last[0], whole * now[1] + last[1])
        if now[1] > _LARGEST_DENOMINATOR:
            return None
        if now[0] / now[1] == value:
            return now
        above, below = below, rest
    return None


def exact_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Return the mean of what the numbers stand for, rounded once. The weights must not all be 0."""
    units = [units_of(value) for value in values]
    if weights is None:
        return sum(units) / (len(units) * UNIT)
    shares = [units_of(weight) for weight in weights]
    total: int = sum(map(mul, units, shares))
    return total / (sum(shares) * UNIT)


def exact_median(values: Sequence[float]) -> float:
    """Return the median; of an even number the exact mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return exact_mean(ordered[half - (len(ordered) % 2 == 0) : half + 1])


def mean_of_ratios(ratios: Iterable[tuple[int, int]]) -> float | None:
    """Return the mean of some fractions, rounded once; None without any."""
    fractions = [Fraction(above, below) for above, below in ratios]
    return float(sum(fractions, Fraction()) / len(fractions)) if fractions else None


def exact_sum(values: Iterable[float]) -> float:
    """Return the sum of what the numbers stand for, rounded once: 0.3 for 0.1 and 0.2."""
    return sum(map(units_of, values)) / UNIT


def complement(share: float) -> float:
    """Return 1 - share as people reckon: 0.1 for 0.9, where floats give 0.09999999999999998."""
    return (UNIT - units_of(share)) / UNIT


def relative_position(zero: float, one: float, number: float) -> float:
    """Return where a number lies between two others: 0 at `zero`, 1 at `one`."""
    start = units_of(zero)
    return abs(units_of(number) - start) / abs(units_of(one) - start)
