"""How many labels a corrected pass rate needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dokimos.stats._corrected_rate import CorrectedRate, VerdictCounts, corrected_finite_rate

RateEstimate = Callable[[VerdictCounts], CorrectedRate | None]


def labels_needed(
    counts: VerdictCounts, half_width: float, *, estimate: RateEstimate = corrected_finite_rate
) -> int | None:
    """Return how many more labels bring the interval to plus or minus `half_width`, as things look now.

    It assumes that people go on to pass as many of what the judge passes, and of what it fails, as they did;
    these rates are uncertain, so the answer is right on average and may be off for few labels.

    Args:
        counts: What is labelled so far, picked at random; at least one item.
        half_width: Half of the interval's width, such as 0.05 for plus or minus five points.
        estimate: Whose interval it is: `corrected_finite_rate` or `corrected_rate`.

    Returns:
        0 where that is reached already; None where not even a label of every item reaches it, which can be
        the case with `corrected_rate` only.

    Raises:
        ValueError: Nothing is labelled, or the half width is not positive.

    Example:
        >>> counts = VerdictCounts(passed_both=36, passed_by_judge_only=3, passed_by_people_only=2,
        ...                        failed_both=9, judged_passed=380, judged=500)
        >>> 70 < labels_needed(counts, 0.05) < 110
        True
    """
    if counts.labelled == 0:
        raise ValueError("How many labels are needed is not known before the first one.")
    if not half_width > 0:
        raise ValueError(f"half_width must be positive, not {half_width!r}.")
    if _half_width(counts, estimate) <= half_width:
        return 0
    low, high = counts.labelled, counts.judged
    if _half_width(_with_labels(counts, high), estimate) > half_width:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _half_width(_with_labels(counts, middle), estimate) <= half_width:
            high = middle
        else:
            low = middle
    return high - counts.labelled


def _half_width(counts: VerdictCounts, estimate: RateEstimate) -> float:
    found = estimate(counts)
    assert found is not None
    return (found.interval.high - found.interval.low) / 2


def _with_labels(counts: VerdictCounts, labels: int) -> VerdictCounts:
    """Return the counts to expect of so many labels."""
    failed = counts.judged - counts.judged_passed
    of_passed = round(labels * counts.judged_passed / counts.judged)
    of_failed = min(failed, labels - of_passed)
    of_passed = labels - of_failed
    passed_both = _predict_passes(counts.passed_both, counts.passed_by_judge_only, of_passed)
    passed_alone = _predict_passes(counts.passed_by_people_only, counts.failed_both, of_failed)
    return replace(
        counts,
        passed_both=passed_both,
        passed_by_judge_only=of_passed - passed_both,
        passed_by_people_only=passed_alone,
        failed_both=of_failed - passed_alone,
    )


def _predict_passes(passed: int, failed: int, labels: int) -> int:
    # That all were alike so far does not make the next ones so. Half an item on either side (H. Jeffreys)
    # would be the expected rate, and at that rate the interval is wider than it is on average, since the
    # width is concave in the rate: a quarter brings it to what was asked for (`benchmarks/validity`).
    return round(labels * (passed + _PRIOR) / (passed + failed + 2 * _PRIOR))


_PRIOR: Final = 0.25
