"""How a baseline period that was measured stands in for a mean that nobody knows.

If the mean were known, players would bet on one side of it. It is not; so some bet at each of several means
around that of the baseline, and there is an alarm once those at every one are rich enough: at a mean that the
baseline makes unlikely, less is needed. How unlikely is an e-value F(m) of the baseline: the capital of
players who bet that its mean is further on the other side (I. Waudby-Smith, A. Ramdas, 2024; each with the
variance seen so far). Players at m get richer the further m is away, F the opposite; so between two
neighbours the capital at the nearer one times F at the farther one is a lower bound of both at any mean
between them.

At the true mean, wherever it is, capital times F is then at least 1 at an alarm. Since F is 1 at most on
average, so is what players bring in for each false alarm, on average over baselines as well. Means so far
away that F is a million are not bet against: the true one is there for one baseline in a million at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from dokimos.stats._betting import SHARES
from dokimos.stats._change_players import Bar

# Standard errors of the baseline from its mean at which players bet. Few, since each costs time.
_DISTANCES: Final = (0.5, 2.0, 3.2, 4.4, 5.8)
# Bets that find a baseline so many standard errors off.
_BETS: Final = (1.0, 2.2, 4.5)
_KEPT: Final = 0.15
"""Capital that is not bet, so that F is at least that."""
_LARGEST_LOG: Final = 500.0
_NEAREST_TO_AN_END: Final = 1e-9
_FARTHEST: Final = 1 - 1e-9
_STRETCHED: Final = 1.3
_EXCLUDED: Final = 1e6
"""F of a mean that is taken to be impossible: it is true for one baseline in a million at most (J. Ville)."""


def baseline_bars(shares: Sequence[float], stakes: Sequence[float], *, tolerance: float) -> list[Bar]:
    """Return the bars for a side, from the observations of a baseline.

    Args:
        shares: The observations as shares of the range, as the side sees them; it bets on higher ones.
        stakes: Their weights over the largest possible one.
        tolerance: How much higher the mean may be than that of the baseline, as a share of the range.
    """
    total = math.fsum(stakes)
    mean = math.fsum(share * stake for share, stake in zip(shares, stakes, strict=True)) / total
    squares = math.fsum((stake * (share - mean)) ** 2 for share, stake in zip(shares, stakes, strict=True))
    # Equal values have no spread; one observation at the other end says how far the mean could still be.
    error = math.sqrt(squares + max(stakes) ** 2 * 0.25) / total
    stretch = 1.0
    while True:
        means = [min(_FARTHEST, max(_NEAREST_TO_AN_END, mean + far * stretch * error)) for far in _DISTANCES]
        last = _unlikelihood(means[-1], shares, stakes)
        if last >= _EXCLUDED or means[-1] == _FARTHEST:
            break
        # Few or very skewed values say less than a normal distribution would.
        stretch *= _STRETCHED
    factors = [_KEPT, *(_unlikelihood(m, shares, stakes) for m in means[:-1]), last]
    # A mean beyond the last is so unlikely that nobody has to bet against it. If not, it may be anywhere.
    if last < _EXCLUDED:
        means.append(1.0)
    return [Bar(min(1.0, m + tolerance), factor) for m, factor in zip(means, factors, strict=False)]


def _unlikelihood(m: float, shares: Sequence[float], stakes: Sequence[float]) -> float:
    """Return the e-value of the baseline against a mean of `m` or more."""
    logs = [0.0] * len(_BETS)
    root = math.sqrt(len(shares))
    # A bet may depend on what came before. Half of the range is what is assumed before anything came.
    count, total, squares = 1.0, 0.5 * max(stakes), 0.25 * max(stakes) ** 2
    for share, stake in zip(shares, stakes, strict=True):
        unit = (1 - m) / math.sqrt(squares / count) / root
        gain = stake * ((1 - share) / (1 - m) - 1)
        for place, bet in enumerate(_BETS):
            logs[place] += math.log1p(min(SHARES[0], bet * unit) * gain)
        pull = stake * share
        count, total = count + 1, total + pull
        squares += (pull - total / count) ** 2
    return _KEPT + (1 - _KEPT) * sum(math.exp(min(log, _LARGEST_LOG)) for log in logs) / len(logs)
