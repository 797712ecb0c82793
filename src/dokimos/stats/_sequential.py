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
    values: Sequence[float], *, low: float = 0.0, high: float = 1.0, confidence: float = 0.95
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
    """
    if not values:
        return Interval(low, high)
    scale = high - low
    shares = Counter((value - low) / scale for value in values)
    mirrored = Counter((high - value) / scale for value in values)
    # Each side has half of what may go wrong.
    needed = math.log(2 / (1 - confidence))
    return Interval(low + scale * _lower_limit(shares, needed), high - scale * _lower_limit(mirrored, needed))


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


def _lower_limit(shares: Mapping[float, int], needed: float) -> float:
    """Return the smallest mean at which betting that the true one is higher did not pay enough."""
    n = sum(shares.values())
    rejected, accepted = 0.0, sum(share * count for share, count in shares.items()) / n
    # The mean of what was seen is never rejected: no bet against it pays.
    while accepted - rejected > 1e-9:
        middle = (rejected + accepted) / 2
        if _log_wealth(shares, middle) >= needed:
            rejected = middle
        else:
            accepted = middle
    return rejected


def _log_wealth(shares: Mapping[float, int], mean: float) -> float:
    """Return the logarithm of the mean wealth of the players who bet on values above `mean`."""
    players = [
        math.fsum(count * math.log1p(bet * (share / mean - 1)) for share, count in shares.items())
        for bet in BETS
    ]
    # Taken out first, so that no power overflows (log-sum-exp).
    richest = max(players)
    return richest + math.log(math.fsum(math.exp(wealth - richest) for wealth in players) / len(BETS))
