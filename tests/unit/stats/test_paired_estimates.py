import random
from statistics import fmean

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, optimize, stats
from statsmodels.regression.linear_model import OLS

from dokimos.stats._intervals import (
    Interval,
    clopper_pearson_interval,
    mid_p_interval,
    wilson_interval,
)
from dokimos.stats._paired_estimates import (
    clustered_mean_estimate,
    mean_estimate,
    paired_estimate,
    paired_rate_interval,
    rate_interval_of_counts,
    sum_counts,
)

DRAW = random.Random(11)
Z_95 = stats.norm.ppf(0.975)


def clusters(seed, n=30):
    """Items of one to five repeats whose scores lie around a mean of their own."""
    draw = random.Random(seed)
    means = [draw.gauss(0.6, 0.2) for _ in range(n)]
    return [[draw.gauss(mean, 0.1) for _ in range(draw.randint(1, 5))] for mean in means]


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_interval_of_a_mean_is_that_of_scipy(confidence):
    half = [DRAW.gauss(0.5, 0.1) for _ in range(12)]
    values = [*half, *(1 - value for value in half)]  # without skewness
    oracle = stats.ttest_1samp(values, 0).confidence_interval(confidence)

    found = mean_estimate(values, confidence=confidence).interval

    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=1e-9)


def test_the_clustered_error_of_as_many_repeats_is_that_of_statsmodels():
    half = [(group * 3)[:3] for group in clusters(0)]
    groups = half + [[1.2 - value for value in group] for group in half]  # without skewness
    values = numpy.concatenate(groups)
    oracle = OLS(values, numpy.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": numpy.repeat(range(len(groups)), 3)}, use_t=True
    )

    found = clustered_mean_estimate(groups)

    assert found.value == pytest.approx(oracle.params[0], abs=1e-12)
    assert found.standard_error == pytest.approx(oracle.bse[0], abs=1e-12)
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(oracle.conf_int()[0]), abs=1e-9)


def bell_mccaffrey(groups):
    """Standard error and degrees of freedom by their definition, in matrices of all values."""
    values, n = numpy.concatenate(groups), sum(map(len, groups))
    label = numpy.repeat(range(len(groups)), [len(group) for group in groups])
    residual_maker = numpy.eye(n) - 1 / n
    columns = []
    for one in range(len(groups)):
        rows = numpy.flatnonzero(label == one)
        root = linalg.inv(linalg.sqrtm(residual_maker[numpy.ix_(rows, rows)]).real)
        columns.append(residual_maker[:, rows] @ root @ numpy.ones(len(rows)) / n)
    parts = numpy.array(columns) @ values
    spectrum = linalg.eigvalsh(numpy.array(columns) @ numpy.array(columns).T)
    return (parts @ parts) ** 0.5, spectrum.sum() ** 2 / (spectrum**2).sum()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [2, 5, 30])
def test_the_clustered_interval_is_that_of_the_definition(seed, n):
    groups = clusters(seed, n)
    error, freedom = bell_mccaffrey(groups)

    found = clustered_mean_estimate(groups)

    assert found.value == pytest.approx(fmean(numpy.concatenate(groups)), abs=1e-12)
    assert found.standard_error == pytest.approx(error, abs=1e-12)
    student = stats.t.ppf(0.975, freedom) * error
    if found.interval.high < 1:
        assert found.interval.high - found.value >= student - 1e-9
    assert found.interval.low == 0 or found.value - found.interval.low >= student - 1e-9


def test_unlike_numbers_of_repeats_leave_the_clustered_interval_its_coverage():
    draw = random.Random(5)
    covered = 0
    for _ in range(2_000):
        items = [draw.gauss(0, 1) for _ in range(8)]
        groups = [[draw.gauss(m, 0.3) for _ in range(draw.choice([1, 1, 2, 3, 6]))] for m in items]
        interval = clustered_mean_estimate(groups).interval
        covered += interval.low <= 0 <= interval.high
    assert 0.93 <= covered / 2_000 <= 0.97


def test_copies_of_a_score_tell_no_more_than_one():
    once = [[value] for value in (0.1, 0.9, 0.4, 0.7)]

    assert clustered_mean_estimate([group * 5 for group in once]).standard_error == pytest.approx(
        clustered_mean_estimate(once).standard_error
    )


def test_items_without_scores_are_no_clusters():
    assert clustered_mean_estimate([[], [0.2], [0.4, 0.6]]) == clustered_mean_estimate([[0.2], [0.4, 0.6]])


def test_a_paired_difference_is_that_of_scipys_paired_test():
    baseline, candidate = clusters(1), clusters(2)
    before, after = [fmean(group) for group in baseline], [fmean(group) for group in candidate]
    deltas = [now - then for now, then in zip(after, before, strict=True)]
    oracle = stats.ttest_rel(after, before).confidence_interval(0.95)

    found = paired_estimate(baseline, candidate)

    assert found.value == pytest.approx(fmean(deltas))
    assert found.standard_error == pytest.approx(stats.sem(deltas))
    # Wider than Student's on the side to which the differences are skewed, and only there.
    wider = (oracle.low - found.interval.low, found.interval.high - oracle.high)
    assert min(wider) == pytest.approx(0, abs=1e-9)
    assert (wider[1] > wider[0]) == (stats.skew(deltas) > 0)
    assert max(wider) < 0.2 * (oracle.high - oracle.low)


def test_too_few_items_have_no_interval():
    assert mean_estimate([0.5]) is None
    assert clustered_mean_estimate([[0.2, 0.4], []]) is None
    assert paired_estimate([[0.1]], [[0.2]]) is None


def likeliest_share(worse, better, n, change):
    """The chance that an item gets worse, from the likelihood under a given change, by brute force."""

    def loss(share):
        chances = [(worse, share), (better, share + change), (n - worse - better, 1 - 2 * share - change)]
        return -sum(count * numpy.log(max(chance, 1e-300)) for count, chance in chances if count)

    bounds = (max(0.0, -change), (1 - change) / 2)
    return optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x


@pytest.mark.parametrize(("worse", "better", "n"), [(8, 2, 50), (0, 5, 30), (1, 1, 12), (30, 10, 200)])
def test_the_ends_of_a_changed_rate_are_what_a_score_test_just_accepts(worse, better, n):
    interval = paired_rate_interval(worse, better, n)

    for change in (interval.low, interval.high):
        share = likeliest_share(worse, better, n, change)
        deviation = (n * (2 * share + change - change**2)) ** 0.5
        assert abs(better - worse - n * change) / deviation == pytest.approx(Z_95, abs=1e-3)


@given(st.integers(1, 60), st.data())
def test_a_changed_rate_lies_in_its_interval(n, data):
    worse = data.draw(st.integers(0, n))
    better = data.draw(st.integers(0, n - worse))

    interval = paired_rate_interval(worse, better, n)
    mirrored = paired_rate_interval(better, worse, n)

    assert -1 <= interval.low <= (better - worse) / n <= interval.high <= 1
    assert (mirrored.low, mirrored.high) == pytest.approx((-interval.high, -interval.low), abs=1e-9)


def test_items_that_all_stayed_still_leave_room_for_a_change():
    interval = paired_rate_interval(0, 0, 20)

    assert interval.low == pytest.approx(-interval.high)
    assert 0.1 < interval.high < 0.2


def test_without_items_any_change_is_possible():
    interval = paired_rate_interval(0, 0, 0)

    assert (interval.low, interval.high) == (-1.0, 1.0)


def test_verdicts_have_an_interval_that_is_never_certain():
    found = mean_estimate([1.0] * 20)

    assert found.interval == mid_p_interval(20, 20)
    assert 0.8 < found.interval.low < 0.9


def test_repeated_verdicts_that_all_pass_are_worth_their_items():
    found = clustered_mean_estimate([[1.0] * 3] * 20)

    assert found.interval == clopper_pearson_interval(20, 20)


def test_repeats_that_always_agree_are_worth_no_more_than_one():
    found = clustered_mean_estimate([[float(item % 4 > 0)] * 3 for item in range(40)])

    own = clopper_pearson_interval(30, 40)
    assert found.interval.low == pytest.approx(own.low, abs=0.02)
    assert found.interval.high == pytest.approx(own.high, abs=0.02)


@pytest.mark.parametrize("within", [(0.0, 1.0), (-1.0, 1.0)])
def test_values_that_are_all_the_same_leave_room_within_their_range(within):
    found = mean_estimate([0.4] * 10, within=within)

    unseen = clopper_pearson_interval(0, 10).high
    assert found.interval.low == pytest.approx(0.4 - unseen * (0.4 - within[0]))
    assert found.interval.high == pytest.approx(0.4 + unseen * 0.6)


def test_counts_of_items_with_one_verdict_each_have_wilsons_interval():
    counts = [(1, 1)] * 7 + [(0, 1)] * 3
    assert rate_interval_of_counts([*counts, (0, 0)]) == wilson_interval(7, 10)
    assert rate_interval_of_counts([]) == Interval(0.0, 1.0)


def test_several_verdicts_of_an_item_tell_less_than_as_many_items():
    clustered = rate_interval_of_counts([(6, 6)] * 4 + [(0, 6)] * 4)
    apart = rate_interval_of_counts([(1, 1)] * 24 + [(0, 1)] * 24)
    assert clustered.high - clustered.low > 2 * (apart.high - apart.low)
    assert rate_interval_of_counts([(3, 6)]) == wilson_interval(0.5, 1)


def test_counts_are_summed_by_item():
    assert sum_counts([("a", (1, 1)), ("b", (0, 1)), ("a", (0, 1))]) == {"a": (1, 2), "b": (0, 1)}
