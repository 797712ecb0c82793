"""What a paired comparison can see: power, the smallest drop that it detects, the items that it needs.

Two designs. For verdicts of one run on each side the test is McNemar's, and its power is exact. For scores,
and for verdicts of several repeats, the test is that of the mean difference; what decides is the spread of an
item's difference, of which repeats shrink the part that is noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean, variance
from typing import Final, Self

from dokimos.stats._intervals import beta_cdf
from dokimos.stats._search import find_fewest_items, find_smallest_effect
from dokimos.stats._student_t import noncentral_t_cdf, t_quantile

POWER: Final = 0.8
# Above it a normal approximation is within 0.006 of the exact value for shares of 5 to 95 %.
_EXACT_PAIRS: Final = 2_000
# Counts further from the mean than this (and 10) have about a billionth of the probability.
_SIGMAS: Final = 6
# A twelfth of a standard deviation between counts: the cost does not grow with the items.
_FINENESS: Final = 12
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What the difference of an item varies by, from item to item and from repeat to repeat."""

    items: float
    """Standard deviation of the true difference of an item around the mean one."""
    noise: float
    """Standard deviation of the difference of one repeat on each side around the item's true one."""

    @classmethod
    def of(
        cls, baseline: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]] | None = None
    ) -> Self | None:
        """Estimate the spread from the scores of past repeats of the same items in the same order.

        From one side alone the noise is that of two such sides, and every item is taken to change alike.
        Where no item was repeated, all of the spread counts as that of the items, so that planning does not
        hope for repeats to help. None where the scores cannot tell: too few items, or no repeats on one side.
        """
        if candidate is None:
            noise = _noise(baseline)
            return None if noise is None else cls(items=0.0, noise=math.sqrt(2 * noise))
        pairs = [(b, c) for b, c in zip(baseline, candidate, strict=True) if b and c]
        if len(pairs) < 2:
            return None
        # The two sides are estimated apart: a change may also make a system less steady.
        both = [(_noise([b for b, _ in pairs]) or 0.0), (_noise([c for _, c in pairs]) or 0.0)]
        means = variance(fmean(c) - fmean(b) for b, c in pairs)
        part = sum(fmean(1 / len(pair[side]) for pair in pairs) * both[side] for side in (0, 1))
        # By the method of moments: what the noise of the repeats does not explain is that of the items. By
        # chance it may explain more than there is.
        return cls(items=math.sqrt(max(0.0, means - part)), noise=math.sqrt(sum(both)))

    def of_mean(self, repeats: int) -> float:
        """Return the standard deviation of an item's difference between means of repeats."""
        return math.sqrt(self.items**2 + self.noise**2 / repeats)


def mcnemar_power(n: int, *, worse: float, better: float, alpha: float = 0.05) -> float:
    """Return the chance that McNemar's exact two-sided test of `n` items is significant (S. W. Duffy, 1984).

    Args:
        n: Items.
        worse: Chance that an item passes before and fails now.
        better: Chance that it fails before and passes now.
        alpha: The level of the test.
    """
    discordant = worse + better
    if discordant <= 0:
        return 0.0
    return sum(
        weight * _split_power(pairs, worse / discordant, alpha)
        for pairs, weight in _binomial_weights(n, discordant)
    )


def paired_power(n: int, effect: float, deviation: float, *, alpha: float = 0.05) -> float:
    """Return the chance that a two-sided test of a mean difference is significant.

    It is the power of the paired t test, by the noncentral t distribution (J. Cohen, 1988); the permutation
    test has about the same from 10 items on.

    Args:
        n: Items.
        effect: The true mean difference.
        deviation: Standard deviation of an item's difference, such as `Spread.of_mean(repeats)`.
        alpha: The level of the test.
    """
    if n < 2:
        return 0.0
    if deviation <= 0:
        return float(effect != 0)
    bound, shift = t_quantile(1 - alpha / 2, n - 1), abs(effect) / deviation * math.sqrt(n)
    return 1 - noncentral_t_cdf(bound, n - 1, shift) + noncentral_t_cdf(-bound, n - 1, shift)


def mcnemar_detectable_drop(
    n: int, *, flips: float = 0.0, alpha: float = 0.05, power: float = POWER
) -> float | None:
    """Return the smallest drop of the pass rate that McNemar's test of `n` items sees with `power`.

    `flips` is the share of items that change from fail to pass without a cause; as many change from pass to
    fail, and the drop comes on top. None where no drop can be seen.
    """

    def power_at(drop: float) -> float:
        return mcnemar_power(n, worse=flips + drop, better=flips, alpha=alpha)

    return find_smallest_effect(power_at, 1 - 2 * flips, power)


def detectable_effect(n: int, deviation: float, *, alpha: float = 0.05, power: float = POWER) -> float | None:
    """Return the smallest mean difference that `n` items show with `power`; None for fewer than two items."""
    if n < 2:
        return None
    if deviation <= 0:
        return 0.0
    most = 1.0
    while paired_power(n, most * deviation, deviation, alpha=alpha) < power:
        most *= 2
    effect_size = find_smallest_effect(
        lambda size: paired_power(n, size * deviation, deviation, alpha=alpha), most, power
    )
    return None if effect_size is None else effect_size * deviation


def mcnemar_items_needed(
    drop: float, *, flips: float = 0.0, alpha: float = 0.05, power: float = POWER
) -> int | None:
    """Return how many items McNemar's test needs to see a drop; None for more than a million."""
    return find_fewest_items(lambda n: mcnemar_power(n, worse=flips + drop, better=flips, alpha=alpha), power)


def items_needed(effect: float, deviation: float, *, alpha: float = 0.05, power: float = POWER) -> int | None:
    """Return how many items show a mean difference with `power`; None for more than a million."""
    return find_fewest_items(lambda n: paired_power(n, effect, deviation, alpha=alpha), power)


def _noise(items: Sequence[Sequence[float]]) -> float | None:
    """Return the variance of the repeats of an item around its mean, pooled; None without repeats."""
    repeated = [scores for scores in items if len(scores) > 1]
    if not repeated:
        return None
    squares = sum(variance(scores) * (len(scores) - 1) for scores in repeated)
    return squares / sum(len(scores) - 1 for scores in repeated)


def _binomial_weights(n: int, share: float) -> list[tuple[int, float]]:
    """Return the likely counts with their probabilities; where they are many, each stands for some."""
    if share >= 1 or share <= 0:
        return [(n if share >= 1 else 0, 1.0)]
    sigma = math.sqrt(n * share * (1 - share))
    reach = _SIGMAS * sigma + 10
    low, high = max(0, math.floor(n * share - reach)), min(n, math.ceil(n * share + reach))
    counts = range(low, high + 1, 1 + int(sigma / _FINENESS))
    weights = [math.exp(_log_probability(count, n, share)) for count in counts]
    total = sum(weights)
    # Counts that stand for their neighbours, or were cut off, do not add up to 1.
    return [(count, weight / total) for count, weight in zip(counts, weights, strict=True)]


def stratified_counts(n: int, share: float, draws: int) -> Iterator[int]:
    """Yield so many counts of a binomial distribution, each as often as it is likely, the fewest first.

    Simulations take them instead of random ones: they vary less, and more with `n` is always more.
    """
    weights = _binomial_weights(n, share)
    reached, index = weights[0][1], 0
    for draw in range(draws):
        while index < len(weights) - 1 and reached < (draw + 0.5) / draws:
            index += 1
            reached += weights[index][1]
        yield weights[index][0]


def _log_probability(count: int, n: int, share: float) -> float:
    ways = math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)
    return ways + count * math.log(share) + (n - count) * math.log1p(-share)


def _split_power(pairs: int, worse: float, alpha: float) -> float:
    """Return the chance that so many discordant pairs split far enough from half and half."""
    few = _critical_count(pairs, alpha)
    if few < 0:
        return 0.0
    return _binomial_cdf(few, pairs, worse) + _binomial_cdf(few, pairs, 1 - worse)


@lru_cache(maxsize=100_000)
def _critical_count(pairs: int, alpha: float) -> int:
    """Return the largest count on the rarer side that is significant; -1 where none is."""
    # The approximation only says where to start, a little above; the exact test decides.
    middle = pairs / 2 + _NORMAL.inv_cdf(alpha / 2) * math.sqrt(pairs) / 2
    few = min((pairs - 1) // 2, math.ceil(middle) + 1)
    while few >= 0 and 2 * _binomial_cdf(few, pairs, 0.5) > alpha:
        few -= 1
    return few


def _binomial_cdf(count: int, n: int, share: float) -> float:
    if n <= _EXACT_PAIRS:
        return beta_cdf(1 - share, n - count, count + 1)
    spread = math.sqrt(n * share * (1 - share))
    return _NORMAL.cdf((count + 0.5 - n * share) / spread) if spread else float(count >= n * share)
