"""The interval of a mean of few scores, which are bounded and mostly skewed.

Student's t promises too much for them: many scores of 1 and a few low ones make the mean and the spread move
together, and 95 % intervals of 8 to 20 items hold the mean in 85 to 92 %. So t is widened on the side to
which the sample is skewed (P. Hall, 1992), but no further than half an observation more at either end of the
range of the scores would widen it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Final, Self

from dokimos.stats._intervals import Interval
from dokimos.stats._student_t import t_quantile

_PSEUDO: Final = 0.5
# The coefficients that Hall derives for a studentised mean.
_A: Final = 1 / 3
_B: Final = 1 / 6
# Below this skewness the inverse is 0 / 0; its limit is the plain t interval.
_STRAIGHT: Final = 1e-9
SIMULATED_CONFIDENCE: Final = 0.95
COVERAGES: Final = ((2, 0.82), (3, 0.82), (5, 0.85), (8, 0.90), (12, 0.93), (14, 0.94))
"""How often intervals of so many scores that promise 95 % hold the mean: that of the worse half of the
distributions that `benchmarks/validity` simulates."""
# One point less than promised is not worth a warning.
REPORTED_BELOW: Final = 0.94


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSummary:
    """What an interval of a mean is made of."""

    centre: float
    error: float
    """Its standard error."""
    skewness: float
    """Of the observations, or of the clusters' deviations."""
    n: int
    """Observations, or clusters of them."""
    freedom: float
    """Degrees of freedom of the standard error."""

    @classmethod
    def of(cls, centre: float, error: float, deviations: Sequence[float], freedom: float) -> Self:
        """Take the skewness from the deviations of the observations, or of the clusters' sums."""
        n = len(deviations)
        spread = math.sqrt(math.fsum(one * one for one in deviations) / (n - 1))
        skewness = fmean((one / spread) ** 3 for one in deviations) if spread else 0.0
        return cls(centre=centre, error=error, skewness=skewness, n=n, freedom=freedom)

    def interval(self, confidence: float, within: tuple[float, float] | None) -> Interval:
        """Return the interval; `within` is the range of the scores, None where it is not known."""
        root = math.sqrt(self.n)
        reach = t_quantile((1 + confidence) / 2, self.freedom)
        straight = Interval(self.centre - self.error * reach, self.centre + self.error * reach)
        low = self.centre - self.error * root * self._unbent(reach / root)
        high = self.centre - self.error * root * self._unbent(-reach / root)
        if within is not None:
            drawn_in = self._with_pseudo_observations(confidence, within)
            # The cubic inverse runs off for few, very skewed scores. What one more observation at the ends
            # could do is as far as it may go.
            low, high = max(low, drawn_in.low), min(high, drawn_in.high)
        # Only ever wider than t: skewness estimated from few scores is too uncertain to take anything away.
        wide = Interval(min(low, straight.low), max(high, straight.high))
        return wide if within is None else Interval(max(wide.low, within[0]), min(wide.high, within[1]))

    def _unbent(self, bent: float) -> float:
        """Return the studentised mean, over the root of n, whose transform without skewness is `bent`.

        The transform is the cubic one of P. Hall (On the removal of skewness by transformation, 1992), which
        is monotone and has this inverse.
        """
        curve = _A * self.skewness
        shifted = bent - _B * self.skewness / self.n
        return (math.cbrt(1 + 3 * curve * shifted) - 1) / curve if abs(curve) > _STRAIGHT else shifted

    def _with_pseudo_observations(self, confidence: float, within: tuple[float, float]) -> Interval:
        low, high = within
        n = self.n + 2 * _PSEUDO
        centre = (self.n * self.centre + _PSEUDO * (low + high)) / n
        squares = (self.n - 1) * self.n * self.error**2 + self.n * (self.centre - centre) ** 2
        squares += _PSEUDO * ((low - centre) ** 2 + (high - centre) ** 2)
        error = math.sqrt(squares / (n - 1) / n)
        half = t_quantile((1 + confidence) / 2, self.freedom + 2 * _PSEUDO) * error
        return Interval(centre - half, centre + half)


def coverage_of_few(n: int, confidence: float = SIMULATED_CONFIDENCE) -> float | None:
    """Return how often an interval of `n` scores holds the mean, about; None where as often as promised.

    It is known for 95 % intervals only, which were simulated.
    """
    if confidence != SIMULATED_CONFIDENCE or n >= COVERAGES[-1][0]:
        return None
    for (fewer, low), (more, high) in pairwise(COVERAGES):
        if n < more:
            share = max(0.0, (n - fewer) / (more - fewer))
            # Rounded down; 1e-9 makes up for binary fractions: 100 * 0.29 is a little less than 29.
            covered = math.floor(100 * (low + share * (high - low)) + 1e-9) / 100
            return covered if covered < REPORTED_BELOW else None
    return None
