"""The minimum detectable change of a comparison, and how many items it takes to detect a smaller one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import stdev
from typing import Final, Self

from dokimos.comparison._config import ComparisonConfig
from dokimos.stats._multiplicity import sidak_level
from dokimos.stats._permutation import EXACT_ITEMS
from dokimos.stats._power import (
    detectable_effect,
    items_needed,
    mcnemar_detectable_drop,
    mcnemar_items_needed,
)
from dokimos.stats._search import find_smallest_effect
from dokimos.stats._uneven_power import UnevenDrop, uneven_power

AFFECTED_SHARE: Final = 0.1
"""Share of the items that an uneven drop falls on: a bug or a worse prompt hits some kinds of items."""
_MAX_FLIP_SHARE: Final = 0.49
"""Flips in both directions must leave room for a drop."""
_SIMULATIONS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonDesign:
    """How many items are compared, at which level, and how much an item varies without any change."""

    n: int
    alpha: float
    """The level of one test; in a family of tests less than that of the family."""
    flips: float | None = None
    """For verdicts: the share of items that flip each way by chance. None for scores."""
    deviation: float = 0.0
    """For scores: standard deviation of an item's change."""

    @classmethod
    def of(cls, deltas: Collection[float], *, alpha: float, tests: int = 1) -> Self:
        """Take the variation from the differences that were seen.

        Differences of whole scores, or all equal ones, are treated as verdicts: without variation, the
        drop that is hardest to detect is a few items that lose all of their score.
        """
        level = sidak_level(alpha, tests)
        if len(set(deltas)) < 2 or set(deltas) <= {-1.0, 0.0, 1.0}:
            return cls(n=len(deltas), alpha=level, flips=_chance_flips(list(deltas)))
        return cls(n=len(deltas), alpha=level, deviation=stdev(deltas))

    def detectable_drop(self, power: float) -> float | None:
        """Return the smallest mean drop that is detected with this power; None where a drop of 1 is not."""
        if self.flips is not None:
            return _detectable_share(self.n, self.flips, self.alpha, power)
        # Cached per number of items: the effect scales linearly with the deviation.
        unit = _unit_effect(self.n, self.alpha, power)
        return None if unit is None or unit * self.deviation > 1 else unit * self.deviation

    def uneven_detectable_drop(self, power: float) -> float | None:
        """Return the smallest mean drop that is detected where it falls on `AFFECTED_SHARE` of the items.

        A mean drop larger than that share falls on more of them. For verdicts it is the `detectable_drop`,
        which falls on the items that flip in any case.
        """
        if self.flips is not None:
            return self.detectable_drop(power)
        return _uneven_detectable(self.n, self.deviation, self.alpha, power)

    def items_needed(self, drop: float, power: float) -> int | None:
        """Return how many items detect a mean drop with this power; None for more than a million."""
        if self.flips is not None:
            return _items_needed_of_verdicts(drop, min(self.flips, (1 - drop) / 2), self.alpha, power)
        return items_needed(drop, self.deviation, alpha=self.alpha, power=power)


def find_smallest_p(items: int, tests: int, config: ComparisonConfig) -> float:
    """Return the adjusted p-value of a metric where all of its items change alike: none is smaller."""
    p = min(1.0, 2.0 ** (1 - items))
    if items > EXACT_ITEMS:
        # Random swaps cannot show a smaller p-value than one hit, the observed one, among all draws.
        p = max(p, 1 / (config.permutation_iterations + 1))
    # Westfall-Young leaves p-values as they are where all metrics change alike; Holm and Benjamini-Hochberg
    # multiply the smallest one by the number of tests.
    return min(1.0, p * tests) if config.correction in ("holm", "bh") else p


def find_fewest_significant_items(tests: int, config: ComparisonConfig) -> int | None:
    """Return how many items a change needs at least to be significant; None where no number is enough."""
    # With more items than these, the number of draws bounds the p-value instead.
    counts = range(2, EXACT_ITEMS + 1)
    return next((items for items in counts if find_smallest_p(items, tests, config) < config.alpha), None)


def _chance_flips(deltas: Sequence[float]) -> float:
    """Return the share of items that flip each way by chance.

    Chance flips items in both directions equally, so the rarer direction estimates it.
    """
    if not deltas:
        return 0.0
    worse, better = sum(delta < 0 for delta in deltas), sum(delta > 0 for delta in deltas)
    return min(worse, better, _MAX_FLIP_SHARE * len(deltas)) / len(deltas)


@lru_cache(1024)
def _detectable_share(n: int, flips: float, alpha: float, power: float) -> float | None:
    return mcnemar_detectable_drop(n, flips=flips, alpha=alpha, power=power)


@lru_cache(1024)
def _items_needed_of_verdicts(drop: float, flips: float, alpha: float, power: float) -> int | None:
    return mcnemar_items_needed(drop, flips=flips, alpha=alpha, power=power)


@lru_cache(1024)
def _uneven_detectable(n: int, deviation: float, alpha: float, power: float) -> float | None:
    def power_at(drop: float) -> float:
        uneven = UnevenDrop(mean=drop, affected=max(AFFECTED_SHARE, drop))
        return uneven_power(n, uneven, deviation, alpha=alpha, simulations=_SIMULATIONS)

    return find_smallest_effect(power_at, 1.0, power)


@lru_cache(1024)
def _unit_effect(n: int, alpha: float, power: float) -> float | None:
    """The detectable effect in standard deviations, which is all that depends on the number of items."""
    return detectable_effect(n, 1.0, alpha=alpha, power=power)
