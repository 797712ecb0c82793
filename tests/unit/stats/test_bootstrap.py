import random
from itertools import product
from math import ceil
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dokimos.stats._bootstrap import bootstrap_interval, bootstrap_mean_interval, percentile

DRAW = random.Random(3)
SAMPLE = [DRAW.gauss(10, 2) for _ in range(80)]


def test_it_agrees_with_scipy_apart_from_chance():
    oracle = stats.bootstrap(
        (SAMPLE,), lambda x, axis: x.mean(axis=axis), method="percentile", n_resamples=20_000, rng=1
    ).confidence_interval

    interval = bootstrap_interval(SAMPLE, fmean, resamples=4_000)

    assert (interval.low, interval.high) == pytest.approx((oracle.low, oracle.high), abs=0.06)


def test_the_seed_decides_the_interval():
    assert bootstrap_interval(SAMPLE, fmean, resamples=200, seed=1) == bootstrap_interval(
        SAMPLE, fmean, resamples=200, seed=1
    )
    assert bootstrap_interval(SAMPLE, fmean, resamples=200, seed=1) != bootstrap_interval(
        SAMPLE, fmean, resamples=200, seed=2
    )


def test_it_covers_the_truth_about_as_often_as_it_says():
    draw = random.Random(5)
    samples = [[draw.gauss(0, 1) for _ in range(40)] for _ in range(150)]

    covered = sum(
        interval.low <= 0 <= interval.high
        for interval in (bootstrap_interval(sample, fmean, resamples=300) for sample in samples)
    )

    assert 0.87 <= covered / 150 <= 0.99


def test_one_observation_has_no_interval():
    assert bootstrap_interval([1.0], fmean) is None


def test_resamples_without_a_value_are_left_out():
    interval = bootstrap_interval([0, 1] * 5, lambda s: fmean(s) if len(set(s)) > 1 else None, resamples=200)

    assert 0 < interval.low < interval.high < 1


def test_a_statistic_that_is_mostly_undefined_has_no_interval():
    assert bootstrap_interval([1, 2, 3], lambda sample: None) is None


@pytest.mark.parametrize(("share", "value"), [(0, 1.0), (0.25, 1.75), (0.5, 2.5), (1, 4.0)])
def test_percentiles_are_interpolated(share, value):
    assert percentile([1.0, 2.0, 3.0, 4.0], share) == pytest.approx(value)


def test_the_mean_of_few_values_is_resampled():
    few = SAMPLE[:15]

    assert bootstrap_mean_interval(few, resamples=500, seed=9) == bootstrap_interval(
        few, fmean, resamples=500, seed=9
    )


@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize("shape", ["skewed", "rare"])
def test_the_mean_of_many_values_has_the_interval_that_resampling_approaches(shape, confidence):
    draw = random.Random(7)
    if shape == "skewed":
        values = [draw.expovariate(1) for _ in range(150)]
    else:
        values = draw.choices([-1.0, 0.5, 0.0], weights=[1, 2, 17], k=300)
    oracle = stats.bootstrap(
        (values,),
        lambda x, axis: x.mean(axis=axis),
        method="percentile",
        n_resamples=40_000,
        confidence_level=confidence,
        batch=2_000,
        rng=1,
    ).confidence_interval

    found = bootstrap_mean_interval(values, confidence=confidence)

    width, half_step = oracle.high - oracle.low, 0.25 / 300 if shape == "rare" else 0.0
    near = 0.012 * width + half_step
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=near)


def test_values_that_are_all_the_same_have_an_interval_without_width():
    found = bootstrap_mean_interval([0.25] * 200)

    assert (found.low, found.high) == (0.25, 0.25)


def test_a_single_value_has_no_interval_of_its_mean():
    assert bootstrap_mean_interval([0.5]) is None


@pytest.mark.parametrize(
    "values", [[0.0, 0.0, 1.0, -1.0, 0.0], [0.25, 0.5, 0.35, 0.8, 0.8], [1 / 3, 0.0, 2 / 3, 1, 0]]
)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_all_resamples_of_values_on_a_grid_are_counted(values, confidence):
    sums = sorted(sum(resample) for resample in product(values, repeat=5))
    tail = (1 - confidence) / 2
    low, high = (sums[ceil(share * 5**5) - 1] / 5 for share in (tail, 1 - tail))

    found = bootstrap_mean_interval(values, confidence=confidence)

    assert (found.low, found.high) == pytest.approx((low, high))


def test_verdicts_have_the_quantiles_of_the_binomial_distribution():
    found = bootstrap_mean_interval([1.0] * 7 + [0.0] * 93)

    assert [100 * found.low, 100 * found.high] == pytest.approx(
        list(stats.binom.ppf([0.025, 0.975], 100, 0.07))
    )


@given(st.lists(st.integers(-100, 100).map(lambda hundredths: hundredths / 100), min_size=2, max_size=30))
def test_the_interval_of_a_mean_lies_within_the_values(values):
    found = bootstrap_mean_interval(values, resamples=200)

    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9
