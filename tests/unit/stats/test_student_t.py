import pytest
from scipy import stats

from dokimos.stats._student_t import noncentral_t_cdf, t_cdf, t_quantile

FREEDOM = [1, 2, 3.5, 10, 200, 5_000]


@pytest.mark.parametrize("freedom", FREEDOM)
@pytest.mark.parametrize("t", [-40.0, -1.0, 0.0, 0.3, 2.1, 12.0])
def test_the_distribution_is_that_of_scipy(freedom, t):
    assert t_cdf(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("freedom", [*FREEDOM, 1e7])
@pytest.mark.parametrize("probability", [0.0005, 0.3, 0.5, 0.9, 0.975])
def test_quantiles_are_those_of_scipy(freedom, probability):
    expected = stats.t.ppf(probability, freedom)

    assert t_quantile(probability, freedom) == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("freedom", [4, 9, 30, 400, 5_000])
@pytest.mark.parametrize("shift", [0.0, 0.5, 2.8, 7.0])
@pytest.mark.parametrize("t", [-1.96, 0.0, 1.96, 5.0])
def test_the_shifted_distribution_is_that_of_scipy(freedom, shift, t):
    assert noncentral_t_cdf(t, freedom, shift) == pytest.approx(stats.nct.cdf(t, freedom, shift), abs=1e-8)


def test_few_degrees_of_freedom_cost_some_decimals():
    assert noncentral_t_cdf(12, 1, 0.5) == pytest.approx(stats.nct.cdf(12, 1, 0.5), abs=1e-5)


def test_everything_lies_below_infinity():
    assert t_cdf(float("inf"), 3) == 1.0
    assert t_cdf(float("-inf"), 3) == 0.0
