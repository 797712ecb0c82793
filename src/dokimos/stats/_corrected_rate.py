"""The pass rate that people would give, from few of their verdicts and many of a judge's.

The items are split by the judge's verdict. In each part the labels say how many people pass, and all
verdicts say how large the part is (A. Tenenbein, 1970, double sampling). The interval is put together from
those of these three rates (G. Y. Zou, A. Donner, 2008, MOVER), so that it holds for few labels and rates near
0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dokimos.stats._intervals import Interval, clopper_pearson_interval, mid_p_interval, wilson_interval


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A pass rate with the judge's mistakes taken out of it."""

    value: float
    standard_error: float
    interval: Interval
    """Never wider than `label_only`."""
    label_only: Interval
    """What the labels say alone, by Clopper and Pearson."""
    weight: float
    """How much the judge counts: how many more people pass where it passes than where it fails, 0..1."""

    @property
    def narrowed_by(self) -> float:
        """The share of the labels' own interval that the judge saves, 0..1."""
        own = self.label_only.high - self.label_only.low
        return 1 - (self.interval.high - self.interval.low) / own


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """Labelled items by what the judge and people say of them, and all items by what the judge says."""

    passed_both: int
    passed_by_judge_only: int
    passed_by_people_only: int
    failed_both: int
    judged_passed: int
    """Items that the judge passes, with labels and without."""
    judged: int
    """All items."""

    @classmethod
    def of(
        cls, labels: Sequence[float], verdicts: Sequence[float], unlabelled: Sequence[float]
    ) -> VerdictCounts:
        """Count verdicts that are 0 or 1."""
        pairs = list(zip(labels, verdicts, strict=True))
        return cls(
            passed_both=pairs.count((1.0, 1.0)),
            passed_by_judge_only=pairs.count((0.0, 1.0)),
            passed_by_people_only=pairs.count((1.0, 0.0)),
            failed_both=pairs.count((0.0, 0.0)),
            judged_passed=int(sum(verdicts) + sum(unlabelled)),
            judged=len(verdicts) + len(unlabelled),
        )


def corrected_rate(counts: VerdictCounts, *, confidence: float = 0.95) -> CorrectedRate | None:
    """Estimate the share of all items that people would pass; None without labels.

    The labelled items must have been picked at random from all items.

    Example:
        >>> counts = VerdictCounts(passed_both=36, passed_by_judge_only=3, passed_by_people_only=2,
        ...                        failed_both=9, judged_passed=380, judged=500)
        >>> estimate = corrected_rate(counts)
        >>> round(estimate.value, 2), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
        (0.74, 0.65, 0.81)
    """
    passes = counts.passed_both + counts.passed_by_people_only
    n = passes + counts.passed_by_judge_only + counts.failed_both
    if n == 0:
        return None
    own = clopper_pearson_interval(passes, n, confidence=confidence)
    parts = _Parts.of(counts, confidence)
    interval = parts.interval()
    # A judge that says little adds more uncertainty than it takes away. People's own labels then decide
    # alone.
    if interval.high - interval.low >= own.high - own.low:
        rate = passes / n
        return CorrectedRate(rate, math.sqrt(rate * (1 - rate) / n), own, own, 0.0)
    weight = min(1.0, max(0.0, parts.passed.rate - parts.failed.rate))
    return CorrectedRate(parts.value, parts.standard_error, interval, own, weight)


@dataclass(frozen=True, slots=True)
class _Rate:
    """A rate with its interval and variance."""

    rate: float
    interval: Interval
    variance: float

    @classmethod
    def of(cls, passed: int, n: int, confidence: float) -> _Rate:
        rate = passed / n if n else 0.5  # nothing was seen: the middle of 0..1
        interval = mid_p_interval(passed, n, confidence=confidence)
        return cls(rate, interval, rate * (1 - rate) / n if n else 0.25)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The rates at which people pass what the judge passes and what it fails, and the judge's own."""

    passed: _Rate
    failed: _Rate
    share: _Rate

    @classmethod
    def of(cls, counts: VerdictCounts, confidence: float) -> _Parts:
        agreed, alone = counts.passed_both, counts.passed_by_people_only
        share = counts.judged_passed / counts.judged
        return cls(
            passed=_Rate.of(agreed, agreed + counts.passed_by_judge_only, confidence),
            failed=_Rate.of(alone, alone + counts.failed_both, confidence),
            share=_Rate(
                share,
                wilson_interval(counts.judged_passed, counts.judged, confidence=confidence),
                share * (1 - share) / counts.judged,
            ),
        )

    @property
    def value(self) -> float:
        share = self.share.rate
        return share * self.passed.rate + (1 - share) * self.failed.rate

    @property
    def standard_error(self) -> float:
        share, gain = self.share.rate, self.passed.rate - self.failed.rate
        variances = share**2 * self.passed.variance + (1 - share) ** 2 * self.failed.variance
        return math.sqrt(variances + gain**2 * self.share.variance)

    def interval(self) -> Interval:
        """Add up how far each of the three rates may be off, on either side, as independent errors do."""
        share, gain = self.share.rate, self.passed.rate - self.failed.rate
        below = [
            share * (self.passed.rate - self.passed.interval.low),
            (1 - share) * (self.failed.rate - self.failed.interval.low),
            # Where people pass more of what the judge fails, a larger share of passes makes the rate smaller:
            # the ends of its interval change places.
            gain * (share - (self.share.interval.low if gain > 0 else self.share.interval.high)),
        ]
        above = [
            share * (self.passed.interval.high - self.passed.rate),
            (1 - share) * (self.failed.interval.high - self.failed.rate),
            gain * ((self.share.interval.high if gain > 0 else self.share.interval.low) - share),
        ]
        value = self.value
        return Interval(max(0.0, value - math.hypot(*below)), min(1.0, value + math.hypot(*above)))
