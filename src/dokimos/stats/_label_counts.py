"""Labels of a run, split into those that chance picked and those that somebody chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dokimos.stats._corrected_rate import LabelsApart, VerdictCounts


@dataclass(frozen=True, slots=True)
class PickedLabel:
    """What people and the judge say of an item, and how it came to be labelled."""

    passed: bool
    """Whether people pass it."""
    judge_passed: bool
    is_random: bool
    """Whether chance picked it among all items without a label."""


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """What `corrected_finite_rate` takes."""

    counts: VerdictCounts
    """Of the labels that chance picked."""
    apart: LabelsApart


def count_labels(labels: Sequence[PickedLabel], *, judged_passed: int, judged: int) -> LabelCounts:
    """Count the labels of a run, so that those that somebody chose do not bias its corrected rate.

    Chance picks among the items that have no label yet. What was chosen before is therefore no longer among
    them: each random label speaks for the others, and how many these are is averaged over the random labels
    (D. Raj, 1956, who estimates from each draw what is left, and adds what is known).

    Args:
        labels: In the order in which they were given, one of each item.
        judged_passed: How many of all items the judge passes.
        judged: All items.

    Raises:
        ValueError: There are more labels than items, or more of those that the judge passes.

    Example:
        >>> chosen = [PickedLabel(passed=False, judge_passed=True, is_random=False)] * 10
        >>> picked = [PickedLabel(passed=True, judge_passed=True, is_random=True)] * 20
        >>> split = count_labels([*chosen, *picked], judged_passed=80, judged=100)
        >>> split.counts.judged, split.apart.count, split.apart.passed
        (90, 10, 0)
    """
    _check(labels, judged_passed, judged)
    tally = {(passed, judge): 0 for passed in (True, False) for judge in (True, False)}
    # Of those chosen so far: how many, by judge, and how many people pass. And the sums of these over the
    # random labels.
    before, before_passed, sums = [0, 0], 0, [0, 0, 0]
    for label in labels:
        if label.is_random:
            tally[label.passed, label.judge_passed] += 1
            sums = [sums[0] + before[0], sums[1] + before[1], sums[2] + before_passed]
        else:
            before[label.judge_passed] += 1
            before_passed += label.passed
    random = max(1, sum(tally.values()))
    failed_apart, passed_apart = round(sums[0] / random), round(sums[1] / random)
    counts = VerdictCounts(
        passed_both=tally[True, True],
        passed_by_judge_only=tally[False, True],
        passed_by_people_only=tally[True, False],
        failed_both=tally[False, False],
        judged_passed=judged_passed - passed_apart,
        judged=judged - passed_apart - failed_apart,
    )
    known = sum(label.passed for label in labels)
    apart = LabelsApart(passed_apart + failed_apart, round(sums[2] / random), known, len(labels) - known)
    return LabelCounts(counts, apart)


def _check(labels: Sequence[PickedLabel], judged_passed: int, judged: int) -> None:
    of_passed = sum(label.judge_passed for label in labels)
    if of_passed > judged_passed or len(labels) - of_passed > judged - judged_passed:
        raise ValueError(
            f"{len(labels)} labels, {of_passed} of them of items that the judge passes, are too many for "
            f"{judged} items of which it passes {judged_passed}."
        )
