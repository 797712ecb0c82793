import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dokimos.stats._paired_estimates import clustered_mean_estimate, mean_estimate, paired_estimate
from dokimos.stats._skewed_mean import MeanSummary, coverage_of_few

SCORE = st.floats(0, 1).map(lambda value: round(value, 3))


def rarely_low(draw):
    """Most answers are perfect, one in seven is anything."""
    return draw.random() if draw.random() < 0.15 else 1.0


def high_on_a_grid(draw):
    return draw.choices([0.0, 0.25, 0.5, 0.75, 1.0], [0.02, 0.02, 0.04, 0.12, 0.8])[0]


SYSTEMS = {
    "skewed": (lambda draw: draw.betavariate(8, 1), 8 / 9),
    "rarely low": (rarely_low, 1 - 0.15 / 2),
    "grid": (high_on_a_grid, 0.005 + 0.02 + 0.09 + 0.8),
    "uniform": (lambda draw: draw.random(), 0.5),
}


def covered(make, truth, n, *, repeats=1, times=600):
    """How often the interval of n items holds the true mean, and how often Student's t does."""
    draw, found, of_t = random.Random(n), 0, 0
    for _ in range(times):
        items = [[make(draw)] * repeats for _ in range(n)]
        values = [item[0] for item in items]
        estimate = mean_estimate(values) if repeats == 1 else clustered_mean_estimate(items)
        found += estimate.interval.low <= truth <= estimate.interval.high
        half = stats.t.ppf(0.975, n - 1) * stats.sem(values)
        of_t += abs(fmean(values) - truth) <= half
    return found / times, of_t / times


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(("n", "repeats"), [(12, 1), (20, 1), (20, 3)])
def test_intervals_of_few_bounded_scores_hold_the_mean(name, n, repeats):
    ours, students = covered(*SYSTEMS[name], n, repeats=repeats)

    assert ours > 0.93
    assert ours >= students
    if name in ("rarely low", "grid"):
        assert students < 0.92


def test_a_skewed_interval_reaches_further_on_the_side_of_the_skew():
    scores = [1.0] * 7 + [0.9] * 3 + [0.2, 0.5]
    found = mean_estimate(scores).interval
    oracle = stats.ttest_1samp(scores, 0).confidence_interval()

    assert found.low < oracle.low - 0.02
    assert found.high == pytest.approx(min(1.0, oracle.high))


def test_the_range_of_the_scores_draws_the_interval_in():
    scores = [1.0] * 9 + [0.5]

    narrow, wide = (mean_estimate(scores, within=within).interval for within in ((0.0, 1.0), (-9.0, 9.0)))

    assert wide.low < narrow.low - 0.1


def test_scores_out_of_range_have_an_interval_without_bounds():
    found = mean_estimate([3.0, 4.0, 5.0, 9.0])

    assert found.interval.high > 9
    assert clustered_mean_estimate([[4.0, 5.0], [1.0, 2.0], [3.0]], within=(1.0, 5.0)).interval.low >= 1


def test_the_transform_has_this_inverse():
    summary = MeanSummary(centre=0.0, error=0.1, skewness=1.2, n=10, freedom=9)

    for bent in (-0.6, -0.1, 0.0, 0.3, 0.7):
        t = summary._unbent(bent)
        curve = 1.2 / 3
        assert t + curve * t**2 + curve**2 * t**3 / 3 + 1.2 / 60 == pytest.approx(bent)


@given(st.lists(SCORE, min_size=2, max_size=25))
def test_an_interval_holds_its_mean_and_lies_within_the_range(scores):
    found = mean_estimate(scores)

    assert 0 <= found.interval.low <= found.value + 1e-12
    assert found.value - 1e-12 <= found.interval.high <= 1
    assert found.interval.high - found.interval.low > 0


@given(st.lists(SCORE, min_size=2, max_size=15), st.lists(SCORE, min_size=15, max_size=15))
def test_a_change_and_its_reverse_have_mirrored_intervals(before, after):
    sides = [[one] for one in before], [[one] for one in after[: len(before)]]

    there, back = paired_estimate(*sides).interval, paired_estimate(*reversed(sides)).interval

    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-9)


@given(st.lists(SCORE, min_size=2, max_size=15))
def test_copies_of_scores_have_the_interval_of_one(scores):
    if set(scores) <= {0.0, 1.0}:
        return
    once, thrice = mean_estimate(scores), clustered_mean_estimate([[score] * 3 for score in scores])

    assert (once.interval.low, once.interval.high) == pytest.approx(
        (thrice.interval.low, thrice.interval.high), abs=1e-7
    )
    assert once.coverage == thrice.coverage


@pytest.mark.parametrize(
    ("n", "coverage"),
    [(2, 0.82), (5, 0.85), (6, 0.86), (8, 0.9), (10, 0.91), (12, 0.93), (14, None), (500, None)],
)
def test_the_coverage_of_few_is_told(n, coverage):
    assert coverage_of_few(n) == coverage
    assert coverage_of_few(n, 0.9) is None


def test_verdicts_and_constants_have_intervals_that_hold():
    assert mean_estimate([1.0] * 6 + [0.0]).coverage is None
    assert mean_estimate([0.4] * 6).coverage is None


@pytest.mark.parametrize("n", [3, 6, 7])
def test_scores_that_are_all_the_same_are_never_certain(n):
    # The mean of 0.4, 0.4, ... in binary is not always 0.4.
    for found in (mean_estimate([0.4] * n), clustered_mean_estimate([[0.4] * 3] * n)):
        assert found.standard_error == 0
        assert found.interval.high - found.interval.low > 0.3
