"""The smallest number from which on a power is reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_MOST_ITEMS: Final = 1_000_000


def find_smallest_effect(power_at: Callable[[float], float], most: float, target: float) -> float | None:
    """Return the smallest effect up to `most` that has the target power, nearly; None without one."""
    if power_at(most) < target:
        return None
    low, high = 0.0, most
    # Finer than any simulated power is known.
    while high - low > 2e-4 * high:
        middle = (low + high) / 2
        if power_at(middle) < target:
            low = middle
        else:
            high = middle
    return high


def find_fewest_items(power_at: Callable[[int], float], target: float) -> int | None:
    """Return the smallest number that has the target power; None where a million are too few."""
    # Doubled first, so that a power that needs 30 items is not computed for a million.
    low, high = 1, 2
    while power_at(high) < target:
        low, high = high, high * 2
        if high > 2 * _MOST_ITEMS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if power_at(middle) < target:
            low = middle
        else:
            high = middle
    return high if high <= _MOST_ITEMS else None
