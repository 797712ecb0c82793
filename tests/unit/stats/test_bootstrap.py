import random
from statistics import fmean

import pytest
from scipy import stats

from dokimos.stats.bootstrap import bootstrap_interval, percentile

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
