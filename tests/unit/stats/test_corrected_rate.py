import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dokimos.stats._corrected_rate import VerdictCounts, corrected_rate
from dokimos.stats._intervals import clopper_pearson_interval, mid_p_interval

COUNT = st.integers(0, 60)


@pytest.mark.parametrize(("passed", "n"), [(0, 5), (5, 5), (1, 20), (19, 20), (37, 50), (150, 200)])
def test_half_of_what_was_seen_lies_in_each_tail(passed, n):
    found = mid_p_interval(passed, n)

    if passed:
        assert stats.binom.sf(passed, n, found.low) + stats.binom.pmf(
            passed, n, found.low
        ) / 2 == pytest.approx(0.025, abs=1e-9)
    if passed < n:
        assert stats.binom.cdf(passed, n, found.high) - stats.binom.pmf(
            passed, n, found.high
        ) / 2 == pytest.approx(0.025, abs=1e-9)
    assert (found.low == 0, found.high == 1) == (passed == 0, passed == n)


def test_the_rate_is_that_of_each_part_by_its_share():
    counts = VerdictCounts(
        passed_both=36,
        passed_by_judge_only=4,
        passed_by_people_only=2,
        failed_both=8,
        judged_passed=350,
        judged=500,
    )

    found = corrected_rate(counts)

    assert found.value == pytest.approx(0.7 * 36 / 40 + 0.3 * 2 / 10)
    assert found.weight == pytest.approx(36 / 40 - 2 / 10)
    assert found.label_only == clopper_pearson_interval(38, 50)
    assert found.narrowed_by > 0.1


def test_a_judge_that_knows_nothing_leaves_the_labels_own_rate():
    counts = VerdictCounts(
        passed_both=10,
        passed_by_judge_only=10,
        passed_by_people_only=10,
        failed_both=10,
        judged_passed=200,
        judged=400,
    )

    found = corrected_rate(counts)

    assert (found.value, found.weight) == (0.5, 0.0)
    assert found.narrowed_by < 0.1


def test_without_labels_there_is_no_rate():
    assert corrected_rate(VerdictCounts(0, 0, 0, 0, 5, 10)) is None


def test_verdicts_are_counted_by_who_passes():
    counts = VerdictCounts.of([1, 1, 0, 0, 1], [1, 0, 1, 0, 1], [1, 1, 0])

    assert counts == VerdictCounts(2, 1, 1, 1, judged_passed=5, judged=8)


@given(COUNT, COUNT, COUNT, COUNT, COUNT, COUNT)
def test_the_interval_is_never_certain_or_out_of_range_or_wider_than_the_labels_own(
    both, judge_only, people_only, neither, more_passed, more_failed
):
    labelled = both + judge_only + people_only + neither
    passed = both + judge_only + more_passed
    counts = VerdictCounts(
        both, judge_only, people_only, neither, passed, labelled + more_passed + more_failed
    )
    found = corrected_rate(counts)

    if labelled == 0:
        assert found is None
        return
    low, high = found.interval.low, found.interval.high
    assert 0 <= low <= found.value <= high <= 1
    assert 0 < high - low <= found.label_only.high - found.label_only.low
