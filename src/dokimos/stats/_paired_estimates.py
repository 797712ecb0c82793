"""Intervals for means and for paired differences, also where items are repeated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import NormalDist, fmean
from typing import Final

from dokimos.stats._intervals import (
    Interval,
    clopper_pearson_interval,
    mid_p_interval,
    wilson_interval,
)
from dokimos.stats._moments import sample_variance
from dokimos.stats._skewed_mean import MeanSummary, coverage_of_few
from dokimos.stats._student_t import t_quantile

_DUST: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its standard error and interval."""

    value: float
    standard_error: float
    interval: Interval
    coverage: float | None = None
    """How often such an interval holds the true value, about, where few values make that less than asked for;
    None where it holds as often."""


def mean_estimate(
    values: Sequence[float], *, confidence: float = 0.95, within: tuple[float, float] = (0.0, 1.0)
) -> Estimate | None:
    """Return the mean with its interval; None for fewer than two values.

    The interval is Student's t, wider on the side to which the values are skewed and held within their range
    (see `skewed_mean`), of verdicts (0 and 1) the mid-P one, which holds for few of them and near 0 and 1
    too. Equal values have an interval with a width, see `constant_interval`. With fewer than
    14 scores it may still hold the mean less often than asked for, which `coverage` tells.

    Args:
        values: The scores of different items.
        confidence: How often the interval holds the true mean.
        within: The range that the values could have; values outside it have an interval without bounds.

    Example:
        >>> estimate = mean_estimate([1.0, 1.0, 0.9, 1.0, 0.4, 1.0, 0.8, 1.0])
        >>> round(estimate.interval.low, 2), round(estimate.interval.high, 2), estimate.coverage
        (0.64, 0.99, 0.9)
    """
    n = len(values)
    if n < 2:
        return None
    centre = fmean(values)
    error = _clear_rounding(math.sqrt(sample_variance(values, centre) / n))
    # Only on a scale of 0..1: differences of -1..1 that happen to be 0 or 1 are not verdicts.
    if set(values) <= {0.0, 1.0} and within == (0.0, 1.0):
        return Estimate(centre, error, mid_p_interval(int(sum(values)), n, confidence=confidence))
    if error == 0:
        return Estimate(centre, 0.0, constant_interval(centre, n, within, confidence=confidence))
    summary = MeanSummary.of(centre, error, [value - centre for value in values], n - 1)
    return _estimate_skewed(summary, values, within, confidence)


def _clear_rounding(error: float) -> float:
    """Return 0.0 for equal values, whose mean differs from them by a rounding error."""
    return error if error > _DUST else 0.0


def _estimate_skewed(
    summary: MeanSummary, values: Sequence[float], within: tuple[float, float], confidence: float
) -> Estimate:
    # An evaluator may break the range that it states. Its interval must then not be cut off below its mean.
    is_bounded = within[0] <= min(values) and max(values) <= within[1]
    interval = summary.interval(confidence, within if is_bounded else None)
    return Estimate(summary.centre, summary.error, interval, coverage_of_few(summary.n, confidence))


def constant_interval(
    value: float, n: int, within: tuple[float, float], *, confidence: float = 0.95
) -> Interval:
    """Return the interval of a mean of which `n` observations were all `value`, in a known range.

    At most the share that Clopper and Pearson give for none in `n` can be anything else, at worst at either
    end of the range.
    """
    # A spread of 0 would make the interval a point, as if n equal scores ruled out any other.
    unseen = clopper_pearson_interval(0, n, confidence=confidence).high
    low, high = min(within[0], value), max(within[1], value)
    return Interval(value - unseen * (value - low), value + unseen * (high - value))


def clustered_mean_estimate(
    clusters: Sequence[Sequence[float]],
    *,
    confidence: float = 0.95,
    within: tuple[float, float] = (0.0, 1.0),
) -> Estimate | None:
    """Return the mean of all observations with an interval that knows which of them belong together.

    The repeats of an item are a cluster: they tell less than as many items would. The standard error is the
    cluster-robust one (K.-Y. Liang, S. L. Zeger, 1986), corrected for few clusters and for clusters of
    unlike size, which also take degrees of freedom from Student's t (R. M. Bell, D. F. McCaffrey, 2002);
    clusters of one size leave one for each but one. Like that of `mean_estimate`, the interval is wider on
    the side to which the clusters are skewed, held within the range of the scores, and tells its coverage
    where clusters are few. Verdicts (0 and 1) have an exact interval for as many observations as they are
    worth. None for fewer than two clusters.
    """
    full = [cluster for cluster in clusters if cluster]
    if len(full) < 2:
        return None
    sizes = [len(cluster) for cluster in full]
    n = sum(sizes)
    centre = math.fsum(map(math.fsum, full)) / n
    # A cluster draws the mean towards itself, by its share in it, and so hides how far off it is.
    deviations = [math.fsum(its) - len(its) * centre for its in full]
    squares = math.fsum(one**2 / (1 - size / n) for one, size in zip(deviations, sizes, strict=True))
    error, freedom = _clear_rounding(math.sqrt(squares) / n), _cluster_freedom(sizes, n)
    values = list(chain.from_iterable(full))
    if within == (0.0, 1.0) and set(values) <= {0.0, 1.0}:
        interval = _clustered_rate_interval(centre, error, freedom, (n, len(full)), confidence)
        return Estimate(centre, error, interval)
    if error == 0:
        return Estimate(centre, 0.0, constant_interval(centre, len(full), within, confidence=confidence))
    summary = MeanSummary.of(centre, error, deviations, freedom)
    return _estimate_skewed(summary, values, within, confidence)


def rate_interval_of_counts(counts: Iterable[tuple[int, int]], *, confidence: float = 0.95) -> Interval:
    """Return the interval of a rate from how many of how many passed, of each item.

    Where each item has one verdict, it is Wilson's. Several verdicts of an item tell less than as many items
    would (see `clustered_mean_estimate`), those of a single item no more than one.
    """
    known = [(passed, n) for passed, n in counts if n]
    total = sum(n for _, n in known)
    if total == len(known):
        return wilson_interval(sum(passed for passed, _ in known), total, confidence=confidence)
    clusters = [[1.0] * passed + [0.0] * (n - passed) for passed, n in known]
    estimate = clustered_mean_estimate(clusters, confidence=confidence)
    if estimate is not None:
        return estimate.interval
    [(passed, n)] = known
    return wilson_interval(passed / n, 1, confidence=confidence)


def sum_counts(counts: Iterable[tuple[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Return the sums of what passed, and of how many, of each item; see `rate_interval_of_counts`."""
    sums: dict[str, tuple[int, int]] = {}
    for item, (passed, n) in counts:
        before = sums.get(item, (0, 0))
        sums[item] = (before[0] + passed, before[1] + n)
    return sums


def _clustered_rate_interval(
    rate: float, error: float, freedom: float, sizes: tuple[int, int], confidence: float
) -> Interval:
    """Return Clopper and Pearson's interval for as many observations as these are worth.

    That is how many independent ones would have the error of the rate; fewer by the width that Student's t
    adds (E. L. Korn, B. I. Graubard, 1998). Where no error can be estimated, only each cluster counts.
    """
    observations, clusters = sizes
    if error == 0:
        return clopper_pearson_interval(rate * clusters, clusters, confidence=confidence)
    # Without the factor of t, few clusters would be trusted as if their error were known.
    tail = (1 + confidence) / 2
    shrink = t_quantile(tail, observations - 1) / t_quantile(tail, freedom)
    worth = min(observations, rate * (1 - rate) / error**2 * shrink**2)
    return clopper_pearson_interval(rate * worth, worth, confidence=confidence)


def _cluster_freedom(sizes: Sequence[int], n: int) -> float:
    """Return the degrees of freedom of the clusters' squares, by their mean and variance if all is noise."""
    pulls = [size * size / (n - size) for size in sizes]
    own = math.fsum(size * size - pull * pull for size, pull in zip(sizes, pulls, strict=True))
    return n * n / (own + math.fsum(pulls) ** 2)


def paired_estimate(
    baseline: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]], *, confidence: float = 0.95
) -> Estimate | None:
    """Return the mean difference, candidate minus baseline, of items in the same order, with its interval.

    An item's scores are those of its repeats, and every item counts the same: its difference is that of its
    means. Since items are the units, repeats nested in them are accounted for. The interval is that of
    `mean_estimate`. None for fewer than two items.
    """
    pairs = zip(baseline, candidate, strict=True)
    deltas = [fmean(after) - fmean(before) for before, after in pairs]
    return mean_estimate(deltas, confidence=confidence, within=(-1.0, 1.0))


def paired_rate_interval(worse: int, better: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Return the interval of the change of a pass rate, from the discordant pairs of `n` items.

    It is Tango's score interval: the changes that a score test of paired proportions does not reject
    (T. Tango, 1998). It stays inside -1..1 and keeps its width where no pair is discordant; without items it
    is -1..1.
    """
    if n <= 0:
        return Interval(-1.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    seen = (better - worse) / n
    # At the ends the score test has no variance, and bisection nothing to reject.
    low = -1.0 if worse == n else _score_limit(worse, better, n, z, (-1.0, seen))
    high = 1.0 if better == n else _score_limit(worse, better, n, z, (1.0, seen))
    return Interval(low, high)


def _score_limit(worse: int, better: int, n: int, z: float, between: tuple[float, float]) -> float:
    """Return by bisection the change between one that is rejected and one that is not where that turns."""
    rejected, accepted = between
    while (middle := (rejected + accepted) / 2) not in (rejected, accepted):
        distance = better - worse - n * middle
        if distance * distance > z * z * _score_variance(worse, better, n, middle):
            rejected = middle
        else:
            accepted = middle
    return accepted


def _score_variance(worse: int, better: int, n: int, change: float) -> float:
    """Return the variance of the count at a given change, with the likeliest share of worse items for it."""
    a, b, c = 2 * n, -better - worse + (2 * n - better + worse) * change, -worse * change * (1 - change)
    # The larger root: the smaller one is not a share. Rounding may put the discriminant below 0.
    share = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    return max(0.0, n * (2 * share + change * (1 - change)))
