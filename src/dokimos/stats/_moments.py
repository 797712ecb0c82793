"""Moments of samples, fast enough for simulations: `statistics.variance` adds fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean


def sample_variance(values: Sequence[float], centre: float | None = None) -> float:
    """Return the variance of at least two values, with n - 1 below; `centre` is their mean where known."""
    mean = fmean(values) if centre is None else centre
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
