"""What repeated verdicts can see: the power of a paired comparison whose items pass by chance or for good."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from dokimos.stats._power import POWER, paired_power, stratified_counts
from dokimos.stats._search import find_fewest_items, find_smallest_effect

SIMULATIONS: Final = 2_000
_MANY_ITEMS: Final = 2_000
# Above it the exact sum of signs would hold long integers for each of thousands of simulated comparisons.
_MANY_CHANGES: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictDesign:
    """Verdicts of a system, and how many of them an item gets on each side."""

    rate: float
    """Pass rate before, 0..1."""
    noise_share: float = 0.0
    """Share of the variance of verdicts that is chance: 0 if an item's repeats all agree, 1 if they differ as
    much as those of other items."""
    repeats: int = 1
    affected: float = 0.0
    """Share of the items that a drop falls on; 1 if every item passes less often. Where that is more than so
    few items can take, it falls on as few as can, which then never pass any more."""

    def change_chances(self, drop: float) -> dict[int, float]:
        """Return the chances of each change of an item's passes, if the pass rate falls by `drop`.

        The chances of items to pass are beta distributed. Those of the items that are affected all fall to
        the same share of what they were.
        """
        # An item cannot lose more passes than it has.
        affected = max(self.affected, drop / self.rate)
        kept_share = max(0.0, 1 - drop / (affected * self.rate)) if affected else 1.0
        chances: defaultdict[int, float] = defaultdict(float)
        for before in range(self.repeats + 1):
            for unchanged in range(self.repeats + 1):
                both = self._chance_of_both(before, unchanged)
                chances[unchanged - before] += (1 - affected) * both
                for after in range(unchanged + 1):
                    thinned = (
                        math.comb(unchanged, after)
                        * kept_share**after
                        * (1 - kept_share) ** (unchanged - after)
                    )
                    chances[after - before] += affected * both * thinned
        return dict(chances)

    def _chance_of_both(self, before: int, after: int) -> float:
        """Return the chance of so many passes on each side of an item that did not change."""
        ways = math.comb(self.repeats, before) * math.comb(self.repeats, after)
        passes, verdicts = before + after, 2 * self.repeats
        return ways * self._chance(passes, verdicts) / math.comb(verdicts, passes)

    def _chance(self, passes: int, of: int) -> float:
        """Return the chance of so many passes of an item: the beta-binomial distribution."""
        if self.noise_share in (0.0, 1.0) or self.rate in (0.0, 1.0):
            return self._chance_without_spread(passes, of)
        # The share of chance is (a + b) / (a + b + 1) of the beta distribution, which gives a + b.
        strength = self.noise_share / (1 - self.noise_share)
        a, b = self.rate * strength, (1 - self.rate) * strength
        return math.comb(of, passes) * math.exp(_log_beta(a + passes, b + of - passes) - _log_beta(a, b))

    def _chance_without_spread(self, passes: int, of: int) -> float:
        if self.noise_share < 1.0:
            return {0: 1 - self.rate, of: self.rate}.get(passes, 0.0)
        return math.comb(of, passes) * self.rate**passes * (1 - self.rate) ** (of - passes)


def verdict_power(
    n: int,
    drop: float,
    design: VerdictDesign,
    *,
    alpha: float = 0.05,
    simulations: int = SIMULATIONS,
    seed: int = 42,
) -> float:
    """Return the chance that the sign-flip test of `n` items finds a drop of the pass rate.

    It is simulated, since with few items that change no formula is near; above 2,000 items it is that of
    the mean difference. For one repeat and no noise it is McNemar's test, of which `mcnemar_power` is exact.
    """
    if not 0 < drop <= design.rate:
        return 0.0
    chances = design.change_chances(drop)
    if n > _MANY_ITEMS:
        effect = -sum(change * chance for change, chance in chances.items())
        deviation = math.sqrt(sum(change**2 * chance for change, chance in chances.items()) - effect**2)
        return paired_power(n, effect, deviation, alpha=alpha)
    changes = {change: chance for change, chance in chances.items() if change and chance > 0}
    # The same draws for every drop and every n: the power is then smooth, and the bisections above it end
    # where it crosses the target and not where chance does.
    draw, sizes, weights = random.Random(seed), list(changes), list(changes.values())
    detections = 0
    for changed in stratified_counts(n, min(1.0, sum(weights)), simulations):
        detections += _significant_drop(Counter(draw.choices(sizes, weights, k=changed)), alpha)
    return detections / simulations


def detectable_verdict_drop(
    n: int, design: VerdictDesign, *, alpha: float = 0.05, power: float = POWER
) -> float | None:
    """Return the smallest drop of the pass rate that `n` items show with `power`; None where none is."""
    return find_smallest_effect(lambda drop: verdict_power(n, drop, design, alpha=alpha), design.rate, power)


def verdict_items_needed(
    drop: float, design: VerdictDesign, *, alpha: float = 0.05, power: float = POWER
) -> int | None:
    """Return how many items show a drop of the pass rate with `power`; None for more than a million."""
    return find_fewest_items(lambda n: verdict_power(n, drop, design, alpha=alpha), power)


def _significant_drop(sample: Mapping[int, int], alpha: float) -> bool:
    total = sum(change * count for change, count in sample.items())
    if total >= 0:  # also where nothing changed
        return False
    sizes = range(1, max(map(abs, sample)) + 1)
    counts = tuple(sample.get(size, 0) + sample.get(-size, 0) for size in sizes)
    return _sum_p(counts, -total) < alpha


@lru_cache(maxsize=100_000)
def _sum_p(counts: Sequence[int], total: int) -> float:
    """Return the chance that random signs of so many ones, twos... add up to `total` or more, either way."""
    sizes = list(enumerate(counts, start=1))
    if sum(counts) > _MANY_CHANGES:
        deviation = math.sqrt(sum(size * size * count for size, count in sizes))
        return 2 * NormalDist().cdf((1 - total) / deviation)  # sums lie two apart
    # No count of ways can reach 2 to this power, so none carries into the next.
    width = sum(counts) + 1
    ways = 1  # of each sum of what is turned, `width` bits each
    for size, count in sizes:
        for _ in range(count):
            ways += ways << size * width
    lacking = (sum(size * count for size, count in sizes) - total) // 2
    mask = (1 << width) - 1
    reached = sum(ways >> turned * width & mask for turned in range(lacking + 1))
    return 2 * reached / (1 << sum(counts))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
