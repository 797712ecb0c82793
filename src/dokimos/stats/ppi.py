"""Prediction-powered inference: a mean from few human labels and many scores of a judge that cannot bias it.

The judge's mean over the items without labels is corrected by how far the judge is off on those with labels,
and counts only as much as it is worth (A. N. Angelopoulos, J. C. Duchi, T. Zrnic, PPI++, 2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from dokimos.stats.intervals import Interval
from dokimos.stats.paired import Estimate, t_estimate


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


def ppi_mean(sample: JudgedSample, *, confidence: float = 0.95) -> PpiEstimate | None:
    """Estimate the mean label of all items; None for fewer than two items of either kind.

    The interval is that of Student's t with Satterthwaite's degrees of freedom, which few labels need.
    """
    parts = _parts(sample)
    return None if parts is None else _combined([parts], parts.value, confidence)


def ppi_paired_difference(
    baseline: JudgedSample, candidate: JudgedSample, *, confidence: float = 0.95
) -> PpiEstimate | None:
    """Estimate the mean difference of labels, candidate minus baseline, where both have the same items.

    Items stand in the same order, and those labelled are the same on both sides.
    """
    sides = zip(
        (candidate.labels, candidate.judged, candidate.unlabelled),
        (baseline.labels, baseline.judged, baseline.unlabelled),
        strict=True,
    )
    labels, judged, unlabelled = (
        [after - before for after, before in zip(*pair, strict=True)] for pair in sides
    )
    return ppi_mean(JudgedSample(labels=labels, judged=judged, unlabelled=unlabelled), confidence=confidence)


def ppi_difference(
    baseline: JudgedSample, candidate: JudgedSample, *, confidence: float = 0.95
) -> PpiEstimate | None:
    """Estimate the difference of the mean labels, candidate minus baseline, of two sets of items.

    The weight is the smaller one of the two sides.
    """
    before, after = _parts(baseline), _parts(candidate)
    if before is None or after is None:
        return None
    return _combined([before, after], after.value - before.value, confidence)


@dataclass(frozen=True, slots=True)
class _Parts:
    """An estimate with the variances that add up to its own, and the degrees of freedom of each."""

    value: float
    weight: float
    variances: tuple[tuple[float, int], ...]


def _parts(sample: JudgedSample) -> _Parts | None:
    few, many = len(sample.labels), len(sample.unlabelled)
    if few < 2 or many < 2:
        return None
    weight = _best_weight(sample)
    errors = [label - weight * score for label, score in zip(sample.labels, sample.judged, strict=True)]
    value = weight * fmean(sample.unlabelled) + fmean(errors)
    of_judge = weight * weight * variance(sample.unlabelled) / many
    return _Parts(value, weight, ((of_judge, many - 1), (variance(errors) / few, few - 1)))


def _best_weight(sample: JudgedSample) -> float:
    """Return the weight in 0..1 that makes the variance of the estimate smallest."""
    few, many = len(sample.labels), len(sample.unlabelled)
    spread = variance([*sample.judged, *sample.unlabelled])
    if spread == 0:
        return 0.0
    label_mean, judged_mean = fmean(sample.labels), fmean(sample.judged)
    pairs = zip(sample.labels, sample.judged, strict=True)
    together = fmean((label - label_mean) * (score - judged_mean) for label, score in pairs)
    return min(1.0, max(0.0, together / ((1 + few / many) * spread)))


def _combined(sides: Sequence[_Parts], value: float, confidence: float) -> PpiEstimate:
    parts = [part for side in sides for part in side.variances]
    total = math.fsum(part for part, _ in parts)
    freedom = total**2 / math.fsum(part**2 / df for part, df in parts) if total else 1.0
    found: Estimate = t_estimate(value, math.sqrt(total), freedom, confidence)
    weight = min(side.weight for side in sides)
    return PpiEstimate(found.value, found.standard_error, found.interval, weight)
