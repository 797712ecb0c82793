"""Pass rates of these very items, what they need, and labels that were not picked at random."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.stats._corrected_rate import (
    LabelsApart,
    VerdictCounts,
    corrected_finite_rate,
    corrected_rate,
)
from dokimos.stats._finite_rate import finite_interval
from dokimos.stats._label_counts import PickedLabel, count_labels
from dokimos.stats._labels_needed import labels_needed

COUNT = st.integers(0, 40)
COUNTS = VerdictCounts(36, 3, 2, 9, judged_passed=380, judged=500)


def width(estimate):
    return estimate.interval.high - estimate.interval.low


def test_of_these_items_the_rate_is_that_of_each_part_by_its_share():
    found = corrected_finite_rate(COUNTS)

    assert found.value == pytest.approx(0.76 * 36 / 39 + 0.24 * 2 / 11)
    assert found.label_only == finite_interval(38, 50, 500)
    assert width(found) < width(corrected_rate(COUNTS))


def test_a_run_whose_items_all_have_labels_has_no_uncertainty():
    found = corrected_finite_rate(VerdictCounts(60, 10, 5, 25, judged_passed=70, judged=100))

    assert found.value == found.interval.low == found.interval.high == 0.65
    assert found.narrowed_by == found.standard_error == 0.0


def test_without_random_labels_there_is_no_rate():
    assert corrected_finite_rate(VerdictCounts(0, 0, 0, 0, 5, 10)) is None


@given(COUNT, COUNT, COUNT, COUNT, COUNT, COUNT)
def test_the_interval_is_possible_and_never_wider_than_the_labels_own(
    both, judge_only, people_only, neither, more_passed, more_failed
):
    labelled = both + judge_only + people_only + neither
    counts = VerdictCounts(
        both,
        judge_only,
        people_only,
        neither,
        judged_passed=both + judge_only + more_passed,
        judged=labelled + more_passed + more_failed,
    )
    found = corrected_finite_rate(counts)
    if not labelled:
        assert found is None
        return

    known_passed, known_failed = both + people_only, judge_only + neither
    assert known_passed / counts.judged - 1e-12 <= found.interval.low <= found.value
    assert found.value <= found.interval.high <= 1 - known_failed / counts.judged + 1e-12
    assert width(found) <= found.label_only.high - found.label_only.low + 1e-12
    assert labelled == counts.judged or width(found) > 0


@pytest.mark.parametrize("times_items", [1.2, 10])
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("judge", [(1.0, 1.0), (0.9, 0.9), (0.5, 0.5)])
def test_twenty_labels_hold_the_rate(judge, rate, times_items):
    """A few points of the sweep of `make validity`."""
    draw, covered, times = random.Random(f"{judge} {rate} {times_items}"), 0, 300
    for _ in range(times):
        people = [draw.random() < rate for _ in range(round(20 * times_items))]
        judged = [one == (draw.random() < judge[0 if one else 1]) for one in people]
        picked = draw.sample(range(len(people)), 20)
        labels = [PickedLabel(people[at], judged[at], is_random=True) for at in picked]
        split = count_labels(labels, judged_passed=sum(judged), judged=len(judged))
        found = corrected_finite_rate(split.counts, apart=split.apart).interval
        covered += found.low - 1e-12 <= sum(people) / len(people) <= found.high + 1e-12
    assert covered / times >= 0.89  # 93 %, less three standard errors


def test_chosen_labels_count_for_their_items_only():
    chosen = [PickedLabel(passed=False, judge_passed=True, is_random=False)] * 30
    picked = [PickedLabel(passed=True, judge_passed=True, is_random=True)] * 20
    split = count_labels([*chosen, *picked], judged_passed=100, judged=100)

    assert split.counts == VerdictCounts(20, 0, 0, 0, judged_passed=70, judged=70)
    assert split.apart == LabelsApart(count=30, passed=0, known_passed=20, known_failed=30)
    found = corrected_finite_rate(split.counts, apart=split.apart)
    assert found.value == found.interval.high == 0.7
    assert 0.5 < found.interval.low < 0.7


def test_what_was_chosen_later_was_among_the_items_to_pick_from():
    chosen = [PickedLabel(passed=False, judge_passed=False, is_random=False)] * 30
    picked = [PickedLabel(passed=True, judge_passed=False, is_random=True)] * 20
    split = count_labels([*picked, *chosen], judged_passed=0, judged=100)

    assert (split.counts.judged, split.apart.count) == (100, 0)
    assert corrected_finite_rate(split.counts, apart=split.apart).interval.high == 0.7  # 30 fail for certain


def test_a_run_that_somebody_labelled_item_by_item_is_known():
    labels = [PickedLabel(passed=n < 6, judge_passed=True, is_random=n == 9) for n in range(10)]
    split = count_labels(labels, judged_passed=10, judged=10)
    found = corrected_finite_rate(split.counts, apart=split.apart)

    assert found.value == found.interval.low == found.interval.high == 0.6


@pytest.mark.parametrize("judged_passed", [2, 9])
def test_more_labels_than_items_are_refused(judged_passed):
    labels = [PickedLabel(passed=True, judge_passed=n % 2 == 0, is_random=True) for n in range(6)]
    with pytest.raises(ValueError, match="too many"):
        count_labels(labels, judged_passed=judged_passed, judged=10)


def test_known_labels_that_contradict_the_counts_are_refused():
    with pytest.raises(ValueError, match="not possible"):
        corrected_finite_rate(COUNTS, apart=LabelsApart(0, 0, 400, 200))


def test_more_labels_are_needed_for_a_narrower_interval():
    needed = [labels_needed(COUNTS, half) for half in (0.03, 0.05, 0.08, 0.2)]

    assert needed == sorted(needed, reverse=True)
    assert needed[-1] == 0
    assert needed[0] <= 450


def test_all_items_are_enough_for_these_but_not_for_others():
    assert labels_needed(COUNTS, 0.0001) == 450
    assert labels_needed(COUNTS, 0.0001, estimate=corrected_rate) is None


@pytest.mark.parametrize("right", [0.9, 0.98])
def test_with_the_labels_asked_for_the_interval_is_as_narrow_on_average(right):
    draw, widths = random.Random(5), []
    for _ in range(40):
        people = [draw.random() < 0.8 for _ in range(1000)]
        judged = [one if draw.random() < right else not one for one in people]
        order = draw.sample(range(1000), 1000)

        def counts_of(n, people=people, judged=judged, order=order):
            labels = [PickedLabel(people[at], judged[at], is_random=True) for at in order[:n]]
            return count_labels(labels, judged_passed=sum(judged), judged=1000).counts

        needed = labels_needed(counts_of(40), 0.05)
        widths.append(width(corrected_finite_rate(counts_of(40 + needed))) / 2)
    assert sum(widths) / len(widths) == pytest.approx(0.05, abs=0.006)


@pytest.mark.parametrize("half_width", [0.0, -0.1, float("nan")])
def test_a_half_width_must_be_positive(half_width):
    with pytest.raises(ValueError, match="positive"):
        labels_needed(COUNTS, half_width)


def test_before_the_first_label_nothing_is_known():
    with pytest.raises(ValueError, match="before the first"):
        labels_needed(VerdictCounts(0, 0, 0, 0, 5, 10), 0.05)
