"""McNemar's exact test: did as many items get worse as got better?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dokimos.stats._intervals import beta_cdf

# Whole numbers take 5 ms for 1,000 pairs and 5 s for 10,000; beta_cdf takes 0.1 ms and agrees to 12 digits.
_EXACT_PAIRS: Final = 1_000


@dataclass(frozen=True, slots=True)
class McNemarTest:
    """The outcome of McNemar's exact test, with the discordant pairs that decide it."""

    p: float
    worse: int
    """Items that passed before and fail now."""
    better: int
    """Items that failed before and pass now."""


def mcnemar_test(baseline: Sequence[bool], candidate: Sequence[bool]) -> McNemarTest:
    """Compare the verdicts on the same items in the same order (Q. McNemar, 1947)."""
    pairs = list(zip(baseline, candidate, strict=True))
    worse = sum(before and not now for before, now in pairs)
    better = sum(now and not before for before, now in pairs)
    return McNemarTest(mcnemar_p(worse, better), worse, better)


def mcnemar_p(worse: int, better: int) -> float:
    """Return the exact two-sided p-value of the discordant pairs: each is as likely either way by chance.

    It is the binomial test of `worse` in `worse + better` at 1/2; 1.0 without discordant pairs. The smallest
    significant one-way count at 5 % is 6 (p = 0.03125).
    """
    fewer, pairs = min(worse, better), worse + better
    # Doubling one tail counts the middle twice, which would be more than 1.
    if fewer * 2 == pairs:
        return 1.0
    if pairs <= _EXACT_PAIRS:
        return sum(math.comb(pairs, k) for k in range(fewer + 1)) / (1 << (pairs - 1))
    return 2 * beta_cdf(0.5, pairs - fewer, fewer + 1)
