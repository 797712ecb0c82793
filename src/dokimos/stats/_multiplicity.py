"""p-values of several tests, adjusted so that their number does not make false alarms."""

from __future__ import annotations

import math
from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values, in the given order, that bound the chance of any false alarm (S. Holm, 1979).

    They hold under any dependence of the tests.
    """
    adjusted, floor = [1.0] * len(p_values), 0.0
    for step, index in enumerate(_ascending(p_values)):
        # Step-down: where one hypothesis is not rejected, none with a larger p-value is. So values may only
        # rise.
        floor = max(floor, min(1.0, (len(p_values) - step) * p_values[index]))
        adjusted[index] = floor
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values, in the given order, that bound the share of false alarms among alarms.

    They hold for independent tests and those that move together (Y. Benjamini, Y. Hochberg, 1995). The chance
    of any false alarm is bounded only where nothing changed at all.
    """
    adjusted, ceiling = [1.0] * len(p_values), 1.0
    for rank, index in reversed(list(enumerate(_ascending(p_values), start=1))):
        # Step-up: a larger p-value that is rejected takes all smaller ones along. So, from the largest on,
        # values may only fall.
        ceiling = min(ceiling, len(p_values) / rank * p_values[index])
        adjusted[index] = ceiling
    return adjusted


def sidak_level(alpha: float, tests: int) -> float:
    """Return the level of each of several independent tests that makes `alpha` in all (Z. Šidák, 1967)."""
    return -math.expm1(math.log1p(-alpha) / tests)


def _ascending(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=p_values.__getitem__)
