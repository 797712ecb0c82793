"""Whether more items part exactly between the two sides than chance explains.

What varies in one item says nothing of that: each item is held against its own repeats alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, TypeAlias

from dokimos._core.number_format import round_half_up
from dokimos.stats._intervals import beta_cdf

Sides: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""How good the repeats of one item are, before and now, in 0..1."""

PART_OF_ALPHA: Final = 0.2
"""What this test takes of alpha. Guard 1 and the drops that stand out leave that much in simulations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """How many items of an evaluator part exactly, with all repeats of the candidate below the baseline's."""

    evaluator: str
    parted: int
    able: int
    """Items whose repeats could be dealt out to the two sides so that they part by more than the margin."""
    ways: int
    """In how many ways repeats are dealt out, at the least: chance parts 1 item in so many."""

    @property
    def p_value(self) -> float:
        """How likely chance alone parts so many of those items or more, at most; exact for equal repeats.

        Under exchangeable repeats each of them parts this way with a chance of at most 1 in `ways`, whatever
        its scores are, so their number is at most binomial.
        """
        if not self.parted:
            return 1.0
        # The upper tail of a binomial distribution, as an incomplete beta function.
        return beta_cdf(1 / self.ways, self.parted, self.able - self.parted + 1)

    @property
    def sentence(self) -> str:
        return (
            f"{self.evaluator}: {self.parted} of the {self.able} items whose repeats could part between the "
            f"two sides did, with the candidate below. Chance does that to 1 in {self.ways:,} of them "
            f"(p = {self.p_value:.2g}), so these drops count whatever other items vary by."
        )


def separation_of(evaluator: str, items: Iterable[Sides], margin: float) -> Separation:
    """Count the items of an evaluator that part exactly; only those with several repeats on a side count."""
    parted, able, ways = 0, 0, 0
    for before, now in items:
        if len(before) + len(now) > 2 and before and now and _can_part(before, now, margin):
            able += 1
            # Only falls count; the same test upwards would find improvements.
            parted += max(now) < min(before)
            dealt = math.comb(len(before) + len(now), len(before))
            # The fewest ways of any item, which makes the p-value larger than it is: never too small.
            ways = min(ways, dealt) if ways else dealt
    return Separation(evaluator=evaluator, parted=parted, able=able, ways=max(ways, 1))


def _can_part(before: Sequence[float], now: Sequence[float], margin: float) -> bool:
    """Say whether the worst of all repeats lie below the others by more than the margin.

    That depends on the repeats alone, not on who has which, so counting only such items does not
    select by the result.
    """
    ranked = sorted((*before, *now))
    worst, best = ranked[: len(now)], ranked[len(now) :]
    return worst[-1] < best[0] and round_half_up(fmean(best) - fmean(worst)) > margin
