"""The pass rate that people would give, from few of their verdicts and many of a judge's.

The items are split by the judge's verdict. In each part the labels say how many people pass, and all
verdicts say how large the part is (A. Tenenbein, 1970, double sampling). The interval is put together from
those of these three rates (G. Y. Zou, A. Donner, 2008, MOVER), so that it holds for few labels and rates near
0 and 1.

Of the items themselves, instead of all items that there could be, the judge's share is known, and the labels
are picked without putting back: that is post-stratification (W. G. Cochran, Sampling Techniques, 1977,
section 5A.9) with hypergeometric intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dokimos.stats._finite_rate import finite_interval, finite_mid_p_interval
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
        if not own:  # every item has a label
            return 0.0
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

    @property
    def labelled(self) -> int:
        """Items with a label."""
        return self.passed_both + self.passed_by_judge_only + self.passed_by_people_only + self.failed_both

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
    n = counts.labelled
    if n == 0:
        return None
    rate = passes / n
    own = CorrectedRate(
        value=rate,
        standard_error=math.sqrt(rate * (1 - rate) / n),
        interval=(interval := clopper_pearson_interval(passes, n, confidence=confidence)),
        label_only=interval,
        weight=0.0,
    )
    return _choose(_Parts.of(counts, confidence), own)


@dataclass(frozen=True, slots=True)
class LabelsApart:
    """Labels of items that were not picked at random, such as those that seemed the most informative.

    What they say is known, so it counts for these items and for no others.
    """

    count: int = 0
    """Items with such a label when one was picked at random, on average; picked were the other ones."""
    passed: int = 0
    """Those of them that people pass."""
    known_passed: int = 0
    """All items by now that people pass, picked at random or not. The estimate does not contradict that."""
    known_failed: int = 0


def corrected_finite_rate(
    counts: VerdictCounts, *, confidence: float = 0.95, apart: LabelsApart | None = None
) -> CorrectedRate | None:
    """Estimate how many of these very items people would pass; None without labels.

    Unlike `corrected_rate`, which is about all items of which these are a sample, it has no uncertainty left
    once every item has a label.

    Args:
        counts: Labelled items that were picked at random, and all items that they were picked from.
        confidence: How often the interval holds the true rate.
        apart: What is known of other items, which `counts` leaves out (`count_labels` splits them).

    Raises:
        ValueError: More items have labels than there are.

    Example:
        >>> counts = VerdictCounts(passed_both=36, passed_by_judge_only=3, passed_by_people_only=2,
        ...                        failed_both=9, judged_passed=72, judged=100)
        >>> estimate = corrected_finite_rate(counts)
        >>> round(estimate.value, 2), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
        (0.72, 0.66, 0.77)
    """
    passes, n = counts.passed_both + counts.passed_by_people_only, counts.labelled
    if n == 0:
        return None
    rate = passes / n
    own = CorrectedRate(
        value=rate,
        standard_error=math.sqrt(rate * (1 - rate) / n * _share_of_rest(n, counts.judged)),
        interval=(interval := finite_interval(passes, n, counts.judged, confidence=confidence)),
        label_only=interval,
        weight=0.0,
    )
    seen = Interval(passes / counts.judged, 1 - (n - passes) / counts.judged)
    chosen = _map_rates(
        _choose(_Parts.of_these_items(counts, confidence), own), lambda value: _clip(value, seen)
    )
    return chosen if apart is None else _add_apart(chosen, counts.judged, apart)


def _add_apart(picked: CorrectedRate, judged: int, apart: LabelsApart) -> CorrectedRate:
    """Return the rate of all items from that of those that could be picked."""
    n = judged + apart.count
    within = Interval(apart.known_passed / n, 1 - apart.known_failed / n)
    if within.low > within.high:
        raise ValueError(f"{apart.known_passed + apart.known_failed} labels of {n} items are not possible.")
    rate = _map_rates(picked, lambda value: _clip((apart.passed + judged * value) / n, within))
    return replace(rate, standard_error=picked.standard_error * judged / n)


def _map_rates(rate: CorrectedRate, change: Callable[[float], float]) -> CorrectedRate:
    interval, own = rate.interval, rate.label_only
    return replace(
        rate,
        value=change(rate.value),
        interval=Interval(change(interval.low), change(interval.high)),
        label_only=Interval(change(own.low), change(own.high)),
    )


def _clip(value: float, within: Interval) -> float:
    return min(within.high, max(within.low, value))


def _share_of_rest(n: int, population: int) -> float:
    """Return by how much the variance of a rate is smaller because nothing is picked twice."""
    return (population - n) / max(1, population - 1)


def _choose(parts: _Parts, own: CorrectedRate) -> CorrectedRate:
    interval, label_only = parts.interval(), own.interval
    # A judge that says little adds more uncertainty than it takes away. People's own labels then decide
    # alone.
    if interval.high - interval.low >= label_only.high - label_only.low:
        return own
    weight = min(1.0, max(0.0, parts.passed.rate - parts.failed.rate))
    return CorrectedRate(parts.value, parts.standard_error, interval, label_only, weight)


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

    @classmethod
    def of_these_items(cls, passed: int, n: int, population: int, confidence: float) -> _Rate:
        if population == 0:
            return cls(0.0, Interval(0.0, 0.0), 0.0)
        # Of a part without labels nothing is known but its size.
        rate = passed / n if n else 0.5
        own = finite_mid_p_interval(passed, n, population, confidence=confidence)
        # Half an item on either side: whole numbers of passes are added up here as if they were continuous.
        half = 0.5 / population if n < population else 0.0
        interval = Interval(own.low - half, own.high + half)
        variance = rate * (1 - rate) / n * _share_of_rest(n, population) if n else 0.25
        return cls(rate, interval, variance)


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

    @classmethod
    def of_these_items(cls, counts: VerdictCounts, confidence: float) -> _Parts:
        agreed, alone = counts.passed_both, counts.passed_by_people_only
        failed, share = counts.judged - counts.judged_passed, counts.judged_passed / counts.judged
        return cls(
            passed=_Rate.of_these_items(
                agreed, agreed + counts.passed_by_judge_only, counts.judged_passed, confidence
            ),
            failed=_Rate.of_these_items(alone, alone + counts.failed_both, failed, confidence),
            share=_Rate(share, Interval(share, share), 0.0),
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
