from __future__ import annotations

import pytest
from scipy import stats

from dokimos.stats._intervals import (
    Interval,
    beta_cdf,
    beta_quantile,
    clopper_pearson_interval,
    wilson_interval,
)

Z_95 = 1.959963984540054


@pytest.mark.parametrize(("passed", "n"), [(62, 100), (1, 7), (2.5, 4)])
def test_its_ends_are_the_rates_that_a_score_test_just_accepts(passed, n):
    interval = wilson_interval(passed, n)
    for rate in (interval.low, interval.high):
        distance = (passed / n - rate) / (rate * (1 - rate) / n) ** 0.5
        assert abs(distance) == pytest.approx(Z_95, abs=1e-9)
    assert interval.low < passed / n < interval.high


@pytest.mark.parametrize(("passed", "low", "high"), [(0, 0.0, 0.277533), (10, 0.722467, 1.0)])
def test_it_keeps_its_width_at_the_ends(passed, low, high):
    interval = wilson_interval(passed, 10)
    assert (interval.low, interval.high) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))


def test_nothing_seen_says_nothing():
    assert (wilson_interval(0, 0).low, wilson_interval(0, 0).high) == (0.0, 1.0)


def test_more_confidence_is_wider():
    narrow, wide = wilson_interval(5, 10), wilson_interval(5, 10, confidence=0.99)
    assert wide.low < narrow.low
    assert narrow.high < wide.high


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("passed", "n"), [(0, 5), (1, 7), (62, 100), (9, 10), (10, 10), (3_000, 10_000)])
def test_both_intervals_are_those_of_scipy(passed, n, confidence):
    oracle = stats.binomtest(passed, n)
    for ours, method in ((wilson_interval, "wilson"), (clopper_pearson_interval, "exact")):
        expected = oracle.proportion_ci(confidence, method=method)
        found = ours(passed, n, confidence=confidence)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("a", [0.5, 1, 3.7, 40, 2_000])
@pytest.mark.parametrize("b", [0.5, 2, 15.2, 900])
@pytest.mark.parametrize("probability", [0.001, 0.3, 0.5, 0.975])
def test_beta_quantiles_are_those_of_scipy(a, b, probability):
    assert beta_quantile(probability, a, b) == pytest.approx(stats.beta.ppf(probability, a, b), rel=1e-8)


@pytest.mark.parametrize("x", [0.0, 1e-9, 0.2, 0.5, 0.999, 1.0])
def test_the_incomplete_beta_function_is_that_of_scipy(x):
    assert beta_cdf(x, 2.5, 7) == pytest.approx(stats.beta.cdf(x, 2.5, 7), rel=1e-10)


def test_the_exact_interval_is_the_wider_one():
    exact, score = clopper_pearson_interval(3, 20), wilson_interval(3, 20)

    assert exact.high - exact.low > score.high - score.low


def test_the_exact_interval_of_nothing_is_everything():
    assert clopper_pearson_interval(0, 0) == Interval(0.0, 1.0)


@pytest.mark.parametrize("probability", [1e-12, 0.025, 0.5, 0.975])
@pytest.mark.parametrize(
    ("a", "b"), [(0.5, 0.5), (1, 20), (20, 1), (0.01, 3), (3, 0.01), (5_000, 12), (1e17, 1)]
)
def test_a_beta_quantile_is_where_the_distribution_function_reaches_its_probability(probability, a, b):
    found = beta_quantile(probability, a, b)

    assert 0 <= found <= 1
    assert found == pytest.approx(stats.beta.ppf(probability, a, b), rel=1e-9, abs=1e-200)
