"""The mean of observations that were sampled with known, unequal chances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Self

from dokimos.stats._intervals import Interval, mid_p_interval
from dokimos.stats._paired_estimates import Estimate, constant_interval, mean_estimate
from dokimos.stats._skewed_mean import MeanSummary, coverage_of_few

WeightedSums = tuple[int, float, float, float, float, float]
"""Count and sums of w, w x, w w, w w x and w w x x: all that a weighted mean and its error need."""
NO_SUMS: Final[WeightedSums] = (0, 0.0, 0.0, 0.0, 0.0, 0.0)
_DUST: Final = 1e-12


@dataclass(frozen=True, slots=True)
class WeightedEstimate:
    """A weighted mean with its interval, and how much of the whole was sampled."""

    value: float
    """The mean of all, sampled or not, in the units of the values."""
    standard_error: float
    interval: Interval
    n: int
    """How many observations were sampled and have a weight above 0."""
    effective_n: float
    """How many observations of one weight would say as much (L. Kish, 1965); at most `n`."""
    population: float
    """How many there are in all, sampled or not, estimated by the sum of the weights (D. G. Horvitz,
    D. J. Thompson, 1952)."""
    coverage: float | None = None
    """How often such an interval holds the true mean, about, where few observations make that less than
    asked for; None where it holds as often."""

    @property
    def sampled_share(self) -> float:
        """The share of all that was sampled, 0..1."""
        return min(1.0, self.n / self.population)


def weighted_mean_estimate(
    values: Sequence[float],
    weights: Sequence[float],
    *,
    confidence: float = 0.95,
    within: tuple[float, float] = (0.0, 1.0),
    finite: bool = False,
) -> WeightedEstimate | None:
    """Return the mean of all from a sample with known chances; None for fewer than two observations.

    The mean is the ratio of two Horvitz-Thompson sums (J. Hajek, 1971) and `standard_error` that of its
    linearised residuals (C.-E. Sarndal, B. Swensson, J. Wretman, Model Assisted Survey Sampling, 1992). Each
    observation must have been sampled by a chance of its own, independent of the others, as by a hash of the
    trace's id. Observations whose weights are within a factor of two are a class; the interval combines
    those of the classes (mid-P for verdicts, a skewed t for scores), so it also holds for few observations,
    and where all of a class pass. Values that depend on each other, such as those of one trace, are merged
    first, see `merge_trace`.

    Args:
        values: What was observed, one for each sampled trace.
        weights: One over the chance with which each was sampled. Observations with a weight of 0 do not
            count.
        confidence: How often the interval holds the true mean.
        within: The range that the values could have; it is widened to hold all of them.
        finite: Whether the mean is that of these very traces, such as yesterday's, sampled or not: if all
            were sampled, nothing is uncertain. Otherwise it is that of the application.

    Raises:
        ValueError: There are not as many weights as values, or a weight is negative, NaN or infinite, or
            below 1 where `finite`.

    Example:
        >>> estimate = weighted_mean_estimate([1, 1, 0, 1, 0, 1, 1, 1], [1, 1, 1, 1, 5, 5, 5, 5])
        >>> round(estimate.value, 2), estimate.population, round(estimate.sampled_share, 2)
        (0.75, 24.0, 0.33)
    """
    pairs = _valid_pairs(values, weights, finite)
    n = len(pairs)
    if n < 2:
        return None
    total = math.fsum(weight for _, weight in pairs)
    centre = math.fsum(value * weight for value, weight in pairs) / total
    effective = total * total / math.fsum(weight * weight for _, weight in pairs)
    classes = [_WeightClass.of(its, total, centre, finite) for its in _by_weight(pairs)]
    interval = _combine(classes, centre, confidence, within)
    is_sure = all(one.is_of_verdicts or not one.unsampled for one in classes)
    coverage = None if is_sure else coverage_of_few(int(effective), confidence)
    error = _standard_error(pairs, centre, total, finite)
    return WeightedEstimate(centre, error, interval, n, effective, total, coverage)


def _standard_error(pairs: Sequence[tuple[float, float]], centre: float, total: float, finite: bool) -> float:
    # Each pulls by its weight, less its own share in the mean, which it draws towards itself. A trace that
    # was certain to be sampled adds nothing to the uncertainty of a finite mean.
    squares = math.fsum(
        (weight * (value - centre)) ** 2 / (1 - weight / total) * (1 - 1 / weight if finite else 1.0)
        for value, weight in pairs
    )
    return math.sqrt(squares) / total


@dataclass(frozen=True, slots=True)
class _WeightClass:
    """Observations of about one weight, as a stratum of which the mean is made up."""

    values: Sequence[float]
    mean: float
    share: float
    """Its share in the mean of all."""
    worth: float
    """How many observations of one weight would say as much."""
    unsampled: float
    """The share of its variance that is open: below 1 where much of a finite number was sampled."""
    between: float
    """Variance of the mean of all since the size of the class is itself only known from the sample."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]], total: float, centre: float, finite: bool) -> Self:
        weight = math.fsum(weight for _, weight in pairs)
        squares = math.fsum(weight * weight for _, weight in pairs)
        mean = math.fsum(value * weight for value, weight in pairs) / weight
        unsampled = 1 - weight / squares if finite else 1.0
        between = squares * unsampled * ((mean - centre) / total) ** 2
        values = [value for value, _ in pairs]
        return cls(values, mean, weight / total, weight * weight / squares, unsampled, between)

    @property
    def is_of_verdicts(self) -> bool:
        return set(self.values) <= {0.0, 1.0}

    def interval(self, confidence: float, within: tuple[float, float]) -> Interval:
        """Return the interval of its own mean, as if it were of an endless number."""
        if within == (0.0, 1.0) and self.is_of_verdicts:
            return mid_p_interval(self.mean * self.worth, self.worth, confidence=confidence)
        estimate = mean_estimate(self.values, confidence=confidence, within=within)
        if estimate is None:
            return constant_interval(self.mean, 1, within, confidence=confidence)
        shift = self.mean - estimate.value
        return Interval(estimate.interval.low + shift, estimate.interval.high + shift)


def _by_weight(pairs: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Group observations whose weights are within a factor of two."""
    classes: dict[int, list[tuple[float, float]]] = {}
    for value, weight in pairs:
        classes.setdefault(math.frexp(weight)[1], []).append((value, weight))
    return list(classes.values())


def _combine(
    classes: Sequence[_WeightClass], centre: float, confidence: float, within: tuple[float, float]
) -> Interval:
    """Return the interval of a weighted mean of classes from the intervals of their own means.

    Each end is as far from the mean as the ends of the classes are together, by Pythagoras (MOVER: G. Y. Zou,
    A. Donner, 2008). So a class of few observations that all pass still has its uncertainty, which a standard
    error would not show.
    """
    bounds = (
        min(within[0], *(min(one.values) for one in classes)),
        max(within[1], *(max(one.values) for one in classes)),
    )
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    below = above = math.fsum(one.between for one in classes) * z * z
    for one in classes:
        its, scale = one.interval(confidence, bounds), one.share * one.share * one.unsampled
        below += scale * (one.mean - its.low) ** 2
        above += scale * (its.high - one.mean) ** 2
    return Interval(max(bounds[0], centre - math.sqrt(below)), min(bounds[1], centre + math.sqrt(above)))


def add_sums(sums: WeightedSums, value: float, weight: float) -> WeightedSums:
    """Return the sums with one more observation."""
    n, w, wx, ww, wwx, wwxx = sums
    square = weight * weight
    pull = square * value
    return (n + 1, w + weight, wx + weight * value, ww + square, wwx + pull, wwxx + pull * value)


def subtract_sums(sums: WeightedSums, earlier: WeightedSums) -> WeightedSums:
    """Return the sums of what came after `earlier`."""
    n, w, wx, ww, wwx, wwxx = (now - then for now, then in zip(sums, earlier, strict=True))
    return (int(n), w, wx, ww, wwx, wwxx)


def estimate_of_sums(
    sums: WeightedSums, within: tuple[float, float], *, confidence: float = 0.95
) -> Estimate | None:
    """Return the weighted mean and its t interval from sums; None for fewer than two observations."""
    n, w, wx, ww, wwx, wwxx = sums
    if n < 2 or w <= 0:
        return None
    centre = min(max(wx / w, within[0]), within[1])
    squares = max(0.0, wwxx - 2 * centre * wwx + centre * centre * ww)
    error = math.sqrt(squares * n / (n - 1)) / w
    # Sums lose digits where the mean is far from 0 for its spread: less than this is rounding.
    if error * n <= 1e-7 * (abs(within[0]) + abs(within[1])):
        return Estimate(centre, 0.0, constant_interval(centre, n, within, confidence=confidence))
    freedom = max(1.0, w * w / ww - 1) if ww else 1.0
    summary = MeanSummary(centre=centre, error=error, skewness=0.0, n=n, freedom=freedom)
    return Estimate(centre, error, summary.interval(confidence, within))


def _valid_pairs(
    values: Sequence[float], weights: Sequence[float], finite: bool
) -> list[tuple[float, float]]:
    if len(values) != len(weights):
        raise ValueError(f"There are {len(values)} values and {len(weights)} weights.")
    least = 1.0 if finite else 0.0
    for weight in weights:
        if weight != 0 and not least <= weight < math.inf:
            kind = "0, or 1 or more, and finite" if finite else "0 or more and finite"
            raise ValueError(f"A weight must be {kind}, not {weight}.")
    return [(float(value), float(weight)) for value, weight in zip(values, weights, strict=True) if weight]
