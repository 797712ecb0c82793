"""Prediction-powered inference: a mean from few human labels and many scores of a judge that cannot bias it.

The judge's mean over the items without labels is corrected by how far the judge is off on those with labels,
and counts only as much as it is worth (A. N. Angelopoulos, J. C. Duchi, T. Zrnic, PPI++, 2023). How much that
is, is worked out for each label from the others (cross-fitting: T. Zrnic, E. J. Candes, 2024), so that few
labels do not make the judge look better than it is. Verdicts, where a formula for means promises too much,
have the intervals of `corrected_rate`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from dokimos.stats._corrected_rate import VerdictCounts, corrected_rate
from dokimos.stats._intervals import Interval, clopper_pearson_interval
from dokimos.stats._moments import sample_variance
from dokimos.stats._paired_estimates import constant_interval, paired_rate_interval
from dokimos.stats._skewed_mean import MeanSummary

FOLDS: Final = 5
_DUST: Final = 1e-24
LEAST_OF_A_KIND: Final = 5
"""With fewer labels of a kind (passed, failed, changed), the labels' own exact interval is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSample:
    """Items of one population, of which people labelled some that were picked at random."""

    labels: Sequence[float]
    """What people say of the labelled items."""
    judged: Sequence[float]
    """What the judge says of the same items, in the same order."""
    unlabelled: Sequence[float]
    """What the judge says of the other items."""


@dataclass(frozen=True, slots=True)
class PpiEstimate:
    """A mean of labels, estimated with the help of a judge."""

    value: float
    standard_error: float
    interval: Interval
    weight: float
    """How much the judge counts: 0 where its scores tell nothing about labels, 1 at most."""
    label_only: Interval | None = None
    """The exact interval of the labels alone, where they are verdicts; `interval` is never wider."""


def ppi_mean(sample: JudgedSample, *, confidence: float = 0.95, folds: int = FOLDS) -> PpiEstimate | None:
    """Estimate the mean label of all items; None for fewer than two items of either kind.

    Labels and scores lie in 0..1; a label that is a verdict is 0 or 1. The interval lies in 0..1 and has a
    width also where all labels are the same. Where people and judge give verdicts it is that of
    `corrected_rate`. Where only people do, it is Student's t with Satterthwaite's degrees of freedom, and
    Clopper and Pearson's of the labels alone where that is narrower or fewer than five are of a kind. Scores
    of both have Student's t.

    Args:
        sample: The labelled items, picked at random, and the others.
        confidence: How often the interval holds the true mean.
        folds: Parts of the labels for cross-fitting; 1 takes all at once, which promises too much for few.
    """
    if len(sample.labels) < 2 or len(sample.unlabelled) < 2:
        return None
    if not _are_verdicts(sample.labels):
        return _mean(sample, confidence, folds, (0.0, 1.0))
    if _are_verdicts([*sample.judged, *sample.unlabelled]):
        counts = VerdictCounts.of(sample.labels, sample.judged, sample.unlabelled)
        rate = corrected_rate(counts, confidence=confidence)
        assert rate is not None
        return PpiEstimate(rate.value, rate.standard_error, rate.interval, rate.weight, rate.label_only)
    passed, n = int(sum(sample.labels)), len(sample.labels)
    own = clopper_pearson_interval(passed, n, confidence=confidence)
    estimate = _mean(sample, confidence, folds, (0.0, 1.0))
    return _at_most(estimate, own, sample, min(passed, n - passed))


def ppi_paired_difference(
    baseline: JudgedSample, candidate: JudgedSample, *, confidence: float = 0.95, folds: int = FOLDS
) -> PpiEstimate | None:
    """Estimate the mean difference of labels, candidate minus baseline, where both have the same items.

    Items stand in the same order, and those labelled are the same on both sides. Where labels are verdicts,
    the interval is never wider than Tango's of the labels alone, and the same where fewer than five changed.
    """
    sides = zip(
        (candidate.labels, candidate.judged, candidate.unlabelled),
        (baseline.labels, baseline.judged, baseline.unlabelled),
        strict=True,
    )
    labels, judged, unlabelled = (
        [after - before for after, before in zip(*pair, strict=True)] for pair in sides
    )
    deltas = JudgedSample(labels=labels, judged=judged, unlabelled=unlabelled)
    if len(labels) < 2 or len(unlabelled) < 2:
        return None
    estimate = _mean(deltas, confidence, folds, (-1.0, 1.0))
    if not _are_verdicts([*baseline.labels, *candidate.labels]):
        return estimate
    worse, better = labels.count(-1.0), labels.count(1.0)
    own = paired_rate_interval(worse, better, len(labels), confidence=confidence)
    return _at_most(estimate, own, deltas, min(worse + better, len(labels) - worse - better))


def ppi_difference(
    baseline: JudgedSample, candidate: JudgedSample, *, confidence: float = 0.95, folds: int = FOLDS
) -> PpiEstimate | None:
    """Estimate the difference of the mean labels, candidate minus baseline, of two sets of items.

    The interval adds up how far either side's may be off (G. Y. Zou, A. Donner, 2008, MOVER). The weight is
    the smaller one of the two sides.
    """
    before = ppi_mean(baseline, confidence=confidence, folds=folds)
    after = ppi_mean(candidate, confidence=confidence, folds=folds)
    if before is None or after is None:
        return None
    value = after.value - before.value
    below = math.hypot(after.value - after.interval.low, before.interval.high - before.value)
    above = math.hypot(after.interval.high - after.value, before.value - before.interval.low)
    return PpiEstimate(
        value,
        math.hypot(before.standard_error, after.standard_error),
        Interval(max(-1.0, value - below), min(1.0, value + above)),
        min(before.weight, after.weight),
    )


def _are_verdicts(values: Iterable[float]) -> bool:
    return set(values) <= {0.0, 1.0}


def _mean(sample: JudgedSample, confidence: float, folds: int, within: tuple[float, float]) -> PpiEstimate:
    """Return the corrected mean with Student's t interval, widened by skewness, within the scores' range."""
    few, many = len(sample.labels), len(sample.unlabelled)
    weights = _weights(sample, min(folds, few))
    weight, centre = fmean(weights), fmean(sample.unlabelled)
    errors = [
        # Centred on the mean of the items without labels: the mean of these is then the estimate itself, and
        # where the weight is 0 it is that of the labels.
        label - own * (score - centre)
        for label, score, own in zip(sample.labels, sample.judged, weights, strict=True)
    ]
    of_judge = weight * weight * sample_variance(sample.unlabelled) / many
    of_labels = sample_variance(errors) / few
    total = of_judge + of_labels
    if total <= _DUST:  # no more than binary fractions put beside a mean
        interval = constant_interval(errors[0], few, within, confidence=confidence)
        return PpiEstimate(errors[0], 0.0, interval, weight)
    # Satterthwaite: the two variances are known from unlike numbers of items, mostly from the few labels.
    freedom = total**2 / (of_judge**2 / (many - 1) + of_labels**2 / (few - 1))
    mean = fmean(errors)
    summary = MeanSummary.of(mean, math.sqrt(total), [error - mean for error in errors], freedom)
    value = min(within[1], max(within[0], mean))
    return PpiEstimate(value, summary.error, summary.interval(confidence, within), weight)


def _at_most(estimate: PpiEstimate, own: Interval, sample: JudgedSample, fewest: int) -> PpiEstimate:
    """Return an estimate whose interval is the labels' own one where the judge does not make it narrower.

    With few labels of a kind it is the labels' own one too: how far they spread is then hardly known.
    """
    narrower = estimate.interval.high - estimate.interval.low < own.high - own.low
    if narrower and fewest >= LEAST_OF_A_KIND:
        return replace(estimate, label_only=own)
    value, error = fmean(sample.labels), math.sqrt(sample_variance(sample.labels) / len(sample.labels))
    return PpiEstimate(value, error, own, 0.0, own)


def _weights(sample: JudgedSample, folds: int) -> list[float]:
    """Return for each label the judge's weight, as the labels of the other folds have it."""
    spread = sample_variance([*sample.judged, *sample.unlabelled])
    # The 1 + n/N of PPI++: where N is small, its mean is uncertain too, and the judge counts less.
    shrink = 1 + len(sample.labels) / len(sample.unlabelled)
    if folds < 2:
        return [_best_weight(sample.labels, sample.judged, shrink * spread)] * len(sample.labels)
    of_fold = []
    for fold in range(folds):
        # Labelled items were picked at random, so every fifth is as good a fold as any, without a seed.
        labels = [label for index, label in enumerate(sample.labels) if index % folds != fold]
        judged = [score for index, score in enumerate(sample.judged) if index % folds != fold]
        of_fold.append(_best_weight(labels, judged, shrink * spread))
    return [of_fold[index % folds] for index in range(len(sample.labels))]


def _best_weight(labels: Sequence[float], judged: Sequence[float], spread: float) -> float:
    """Return the weight in 0..1 that makes the variance of the estimate smallest."""
    if spread <= _DUST:
        return 0.0
    label_mean, judged_mean = fmean(labels), fmean(judged)
    pairs = zip(labels, judged, strict=True)
    together = fmean((label - label_mean) * (score - judged_mean) for label, score in pairs)
    # A judge that contradicts people by chance, in few labels, is ignored and not turned around.
    return min(1.0, max(0.0, together / spread))
