"""Intervals and tests that stay valid however often one looks: a run may end as soon as they decide.

Somebody who bets against a hypothesis in a fair game does not get rich if it is true: whatever the bets and
whenever they stop, the chance that their wealth ever reaches 1/alpha is at most alpha (J. Ville, 1939). The
bets here are a fixed mixture of small and large ones (I. Waudby-Smith, A. Ramdas, Estimating Means of Bounded
Random Variables by Betting, 2024), so the wealth does not depend on the order of the values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dokimos.stats._intervals import Interval

BETS: Final = (0.03, 0.1, 0.3, 0.6, 0.95)
"""Shares of the wealth that the players of the mixture bet each time."""


def anytime_interval(
    values: Sequence[float],
    *,
    low: float = 0.0,
    high: float = 1.0,
    confidence: float = 0.95,
    weights: Sequence[float] | None = None,
    largest_weight: float | None = None,
) -> Interval:
    """Return an interval of the mean that holds it at all times at once, with at least the stated confidence.

    It holds the means against which no bet made rich enough. The values may be looked at after each new one,
    and collecting may end at any time for any reason. For that it is wider than an interval for a number of
    values fixed beforehand.

    Args:
        values: All so far, drawn from one population in random order, each in `low`..`high`.
        low: The smallest possible value.
        high: The largest possible value.
        confidence: Chance that all intervals of the sequence hold the mean.
        weights: One over the chance with which each value was sampled; the mean is then that of all, sampled
            or not. 1 each if None.
        largest_weight: The largest weight that can occur, known beforehand. Needed with weights; the further
            it is above the usual one, the wider the interval is.

    Raises:
        ValueError: There are not as many weights as values, one is not in 0..`largest_weight`, or
            `largest_weight` is missing.
    """
    if not values:
        return Interval(low, high)
    scale = high - low
    stakes = _stakes(len(values), weights, largest_weight)
    shares = Counter(((value - low) / scale, stake) for value, stake in zip(values, stakes, strict=True))
    mirrored = Counter(((high - value) / scale, stake) for value, stake in zip(values, stakes, strict=True))
    if not any(stakes):
        return Interval(low, high)
    # Each side has half of what may go wrong.
    needed = math.log(2 / (1 - confidence))
    return Interval(low + scale * _lower_limit(shares, needed), high - scale * _lower_limit(mirrored, needed))


def _stakes(n: int, weights: Sequence[float] | None, largest_weight: float | None) -> Sequence[float]:
    """Return each weight as a share of the largest."""
    if weights is None:
        return [1.0] * n
    if len(weights) != n:
        raise ValueError(f"There are {n} values and {len(weights)} weights.")
    # The largest one of the sample will not do: it would depend on what was sampled.
    if largest_weight is None or not 0 < largest_weight < math.inf:
        raise ValueError(f"With weights, largest_weight must be greater than 0, not {largest_weight}.")
    if not all(0 <= weight <= largest_weight for weight in weights):
        raise ValueError(f"Weights must be in 0..{largest_weight} (largest_weight).")
    return [weight / largest_weight for weight in weights]


class SequentialTest:
    """Tests paired differences as they come in, for as long as it takes: the null is that their mean is 0.

    `add` each difference, in random order of the items, and stop once `p` is low enough: the chance that it
    ever falls to alpha without a true difference is at most alpha.
    """

    def __init__(self, *, largest: float = 1.0) -> None:
        """Start without any difference; none may be larger than `largest`, either way."""
        self.p: float = 1.0
        self.n: int = 0
        self._largest = largest
        # Positive bets are on a rise, negative ones on a drop; together they start with 1.
        self._wealth = dict.fromkeys((*BETS, *(-bet for bet in BETS)), 1 / (2 * len(BETS)))

    def add(self, delta: float) -> float:
        """Take one more difference and return the p-value, the smallest so far."""
        share = delta / self._largest
        if abs(share) > 1:
            raise ValueError(
                f"A difference of {delta} is larger than the largest possible one, {self._largest}."
            )
        self.n += 1
        for bet in self._wealth:
            self._wealth[bet] *= 1 + bet * share
        self.p = min(self.p, 1 / max(1.0, math.fsum(self._wealth.values())))
        return self.p


def anytime_p(deltas: Iterable[float], *, largest: float = 1.0) -> float:
    """Return the p-value of a `SequentialTest` of all differences so far."""
    test = SequentialTest(largest=largest)
    for delta in deltas:
        test.add(delta)
    return test.p


def _lower_limit(shares: Mapping[tuple[float, float], int], needed: float) -> float:
    """Return the smallest mean at which betting that the true one is higher did not pay enough."""
    total = sum(stake * count for (_, stake), count in shares.items())
    mean = sum(share * stake * count for (share, stake), count in shares.items()) / total
    rejected, accepted = 0.0, mean
    # The mean of what was seen is never rejected: no bet against it pays.
    while accepted - rejected > 1e-9:
        middle = (rejected + accepted) / 2
        if _log_wealth(shares, middle) >= needed:
            rejected = middle
        else:
            accepted = middle
    return rejected


def _log_wealth(shares: Mapping[tuple[float, float], int], mean: float) -> float:
    """Return the logarithm of the mean wealth of the players who bet on values above `mean`."""
    players = [
        math.fsum(
            count * math.log1p(bet * stake * (share / mean - 1)) for (share, stake), count in shares.items()
        )
        for bet in BETS
    ]
    # Taken out first, so that no power overflows (log-sum-exp).
    richest = max(players)
    return richest + math.log(math.fsum(math.exp(wealth - richest) for wealth in players) / len(BETS))
