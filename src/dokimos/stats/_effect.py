"""How large a paired difference is, in units that do not depend on the metric or the number of items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev


def standardised_mean_difference(deltas: Sequence[float]) -> float | None:
    """Return the mean of paired differences over their standard deviation: Cohen's d_z (J. Cohen, 1988).

    None for fewer than two differences, or where all are the same.
    """
    if len(deltas) < 2 or (spread := stdev(deltas)) == 0:
        return None
    return fmean(deltas) / spread


def hedges_g(deltas: Sequence[float]) -> float | None:
    """Return the standardised mean difference without its bias in small samples (L. V. Hedges, 1981)."""
    difference, freedom = standardised_mean_difference(deltas), len(deltas) - 1
    if difference is None:
        return None
    # In logarithms, since the gamma function itself overflows from 172 on; with one degree of freedom the
    # correction is 0.
    log_ratio = math.lgamma(freedom / 2) - math.lgamma((freedom - 1) / 2) if freedom > 1 else -math.inf
    return difference * math.exp(log_ratio) / math.sqrt(freedom / 2)


def cohens_h(before: float, after: float) -> float:
    """Return the difference of two rates where it is as easy to see at all rates (J. Cohen, 1988)."""
    return 2 * (math.asin(math.sqrt(after)) - math.asin(math.sqrt(before)))


def discordant_odds_ratio(worse: int, better: int) -> float:
    """Return how many items got better for each that got worse, with half an item added to both.

    It is the conditional odds ratio of matched pairs (Q. McNemar, 1947; J. B. S. Haldane, 1956).
    """
    return (better + 0.5) / (worse + 0.5)


def rank_biserial(deltas: Sequence[float]) -> float | None:
    """Return the matched-pairs rank-biserial correlation: 1 where all differences are up, -1 for down.

    It is the sum of the ranks of the differences' sizes, with their signs, over that of all ranks
    (D. S. Kerby, 2014); zeros are left out and equal sizes share their ranks. None where nothing differs.
    """
    sizes = sorted(abs(delta) for delta in deltas if delta)
    if not sizes:
        return None
    # The later entry of an equal size wins: backwards that is its first rank, forwards its last.
    first = {size: rank for rank, size in reversed(list(enumerate(sizes, start=1)))}
    last = {size: rank for rank, size in enumerate(sizes, start=1)}
    signed = sum(math.copysign(first[abs(d)] + last[abs(d)], d) for d in deltas if d) / 2
    return signed / (len(sizes) * (len(sizes) + 1) / 2)
