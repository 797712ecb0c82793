"""The power of a comparison of scores where a drop falls on some of the items, and not on all alike.

The test is that of random sign flips. A few items that fall far move the mean as much as many that fall a
little, but they also make the differences vary more, and they can be too few for any test. So no formula for
the mean of alike differences is near: the test is simulated. Only what it looks at is drawn (how many items
fall, the sums and the sums of squares of both kinds of items), so that the cost does not grow with the items.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Final, NamedTuple

from dokimos.stats._power import stratified_counts

SIMULATIONS: Final = 1_000
# Up to here all counts of signs are gone through: the sums of few equal drops are too coarse for a curve.
_FEW_FALLEN: Final = 16
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenDrop:
    """A drop of a mean score, and the items that take it."""

    mean: float
    """How much the mean over all items falls."""
    affected: float
    """The share of the items that fall, all by the same; 1 if every item does."""

    @property
    def size(self) -> float:
        """How far each of the items falls that do."""
        return self.mean / self.affected


def uneven_power(
    n: int,
    drop: UnevenDrop,
    deviation: float,
    *,
    alpha: float = 0.05,
    simulations: int = SIMULATIONS,
    seed: int = 42,
) -> float:
    """Return the chance that the two-sided sign-flip test of `n` items finds the drop.

    Each item is affected with the same chance, so their number varies. The simulated draws are the same for
    every design, so that the power is smooth.

    Args:
        n: Items.
        drop: The drop, and how many items take it.
        deviation: Standard deviation of an item's difference without any change: the noise.
        alpha: The level of the test.
        simulations: Comparisons that are drawn.
        seed: Of the draws.

    Example:
        >>> alike = uneven_power(40, UnevenDrop(mean=0.03, affected=1.0), 0.066)
        >>> uneven = uneven_power(40, UnevenDrop(mean=0.03, affected=0.1), 0.066)
        >>> alike > 0.75 and uneven < 0.6
        True
    """
    # The smallest p-value that n sign flips can give, both ways.
    if 2.0 ** (1 - n) >= alpha or drop.mean <= 0:
        return 0.0
    detections, noise_to_size = 0, deviation / drop.size
    counts = stratified_counts(n, min(1.0, drop.affected), simulations)
    for fallen, noise in zip(counts, _draws(simulations, seed), strict=True):
        detections += _is_found(_Sample.of(n, fallen, noise_to_size, noise), alpha)
    return detections / simulations


class _Noise(NamedTuple):
    """Standard normal numbers of one simulated comparison: of the sums and the sums of squares."""

    fallen: float
    others: float
    fallen_square: float
    others_square: float


@lru_cache(maxsize=4)
def _draws(simulations: int, seed: int) -> tuple[_Noise, ...]:
    draw = random.Random(seed)
    columns = [_sample_strata(draw, simulations) for _ in range(4)]
    return tuple(_Noise(*row) for row in zip(*columns, strict=True))


def _sample_strata(draw: random.Random, count: int) -> list[float]:
    """Return the quantiles of the normal distribution in random order."""
    # Stratified instead of drawn: 1,000 comparisons then vary as little as many more would.
    values = [_NORMAL.inv_cdf((index + 0.5) / count) for index in range(count)]
    draw.shuffle(values)
    return values


class _Sample(NamedTuple):
    """What the test sees of one simulated comparison."""

    n: int
    fallen: int
    mean: float
    """The mean difference of the items that fell."""
    within: float
    """Sum of the squares around it."""
    others: float
    """Sum of the differences of the other items."""
    squares: float
    """Sum of their squares."""

    @classmethod
    def of(cls, n: int, fallen: int, deviation: float, noise: _Noise) -> _Sample:
        """Draw a comparison whose affected items fall by 1."""
        rest, square = n - fallen, deviation * deviation
        mean = deviation * noise.fallen / math.sqrt(fallen) - 1 if fallen else 0.0
        within = square * _chi_square(fallen - 1, noise.fallen_square)
        # The sum of squares around zero is that of the mean and that around the mean, which are independent.
        of_others = noise.others**2 + _chi_square(rest - 1, noise.others_square) if rest else 0.0
        return cls(n, fallen, mean, within, deviation * noise.others * math.sqrt(rest), square * of_others)

    @property
    def total(self) -> float:
        return self.fallen * self.mean + self.others


def _chi_square(freedom: int, z: float) -> float:
    """Return the quantile of a chi-squared variable, by E. B. Wilson and M. M. Hilferty (1931)."""
    if freedom < 1:
        return 0.0
    part = 2 / (9 * freedom)
    return freedom * max(0.0, 1 - part + z * math.sqrt(part)) ** 3


def _is_found(sample: _Sample, alpha: float) -> bool:
    if sample.total >= 0:
        return False
    p = _p_of_few(sample) if sample.fallen <= _FEW_FALLEN else _p_of_many(sample)
    return max(p, 2.0 ** (1 - sample.n)) < alpha


def _p_of_few(sample: _Sample) -> float:
    """Return the p-value over all sign flips of the items that fell; the others' are taken to be normal."""
    fallen, goal, p = sample.fallen, -sample.total, 0.0
    for unflipped in range(fallen + 1):
        # What the noise of the items that fell adds is nothing where all of them have the same sign.
        mixed = 4 * unflipped * (fallen - unflipped) / (fallen * (fallen - 1)) if fallen > 1 else 0.0
        spread = math.sqrt(sample.squares + mixed * sample.within)
        missing = goal - abs(sample.mean) * (2 * unflipped - fallen)
        tail = _upper(missing / spread) if spread > 1e-12 else float(missing <= 1e-12)
        p += math.comb(fallen, unflipped) * tail
    return p / 2.0 ** (fallen - 1)


def _p_of_many(sample: _Sample) -> float:
    """Return the p-value of the normal distribution, bent by the kurtosis of sums of random signs."""
    fallen, mean, rest = sample.fallen, sample.mean, sample.n - sample.fallen
    square = fallen * mean**2 + sample.within + sample.squares
    fourth = fallen * mean**4 + 6 * mean**2 * sample.within + 3 * sample.within**2 / fallen
    fourth += 3 * sample.squares**2 / rest if rest else 0.0
    z = -sample.total / math.sqrt(square)
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    # The Edgeworth term of kurtosis: random signs have no skewness and a fourth cumulant of -2.
    bent = -2 * fourth / square**2 / 24 * (z**3 - 3 * z) * density
    return 2 * max(0.0, _upper(z) + bent)


def _upper(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2
