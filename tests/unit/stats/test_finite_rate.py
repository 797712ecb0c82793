import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dokimos.stats._finite_rate import finite_interval, finite_mid_p_interval
from dokimos.stats._intervals import clopper_pearson_interval, mid_p_interval

TAIL = 0.025


@pytest.mark.parametrize(
    ("passed", "n", "population"), [(0, 5, 20), (5, 5, 20), (3, 20, 50), (18, 20, 400), (37, 50, 60)]
)
def test_the_ends_are_the_last_counts_that_are_not_too_unlikely(passed, n, population):
    found = finite_interval(passed, n, population)
    low, high = round(found.low * population), round(found.high * population)

    assert stats.hypergeom.cdf(passed, population, high, n) > TAIL
    assert high == population - (n - passed) or stats.hypergeom.cdf(passed, population, high + 1, n) <= TAIL
    assert stats.hypergeom.sf(passed - 1, population, low, n) > TAIL
    assert low == passed or stats.hypergeom.sf(passed - 1, population, low - 1, n) <= TAIL


@pytest.mark.parametrize(("passed", "n", "population"), [(3, 20, 50), (18, 20, 400), (37, 50, 60)])
def test_half_of_what_was_seen_lies_in_each_tail(passed, n, population):
    high = round(finite_mid_p_interval(passed, n, population).high * population)

    def mid_p(passes):
        return stats.hypergeom.cdf(passed, population, passes, n) - (
            stats.hypergeom.pmf(passed, population, passes, n) / 2
        )

    assert mid_p(high) > TAIL
    assert high == population - (n - passed) or mid_p(high + 1) <= TAIL


@pytest.mark.parametrize(("passed", "n"), [(0, 20), (7, 20), (480, 500)])
def test_of_a_million_items_it_is_the_binomial_interval(passed, n):
    exact, mid_p = finite_interval(passed, n, 1_000_000), finite_mid_p_interval(passed, n, 1_000_000)

    assert (exact.low, exact.high) == pytest.approx(
        (clopper_pearson_interval(passed, n).low, clopper_pearson_interval(passed, n).high), abs=1e-4
    )
    assert (mid_p.low, mid_p.high) == pytest.approx(
        (mid_p_interval(passed, n).low, mid_p_interval(passed, n).high), abs=1e-4
    )


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 200))
def test_it_holds_what_was_seen_and_mid_p_is_never_wider(passed, failed, others):
    n, population = passed + failed, passed + failed + max(others, 1)
    exact, mid_p = finite_interval(passed, n, population), finite_mid_p_interval(passed, n, population)

    assert 0 <= exact.low <= mid_p.low <= mid_p.high <= exact.high <= 1
    if n:
        assert exact.low <= passed / n <= exact.high


def test_once_all_were_looked_at_nothing_is_uncertain():
    assert finite_interval(7, 10, 10) == finite_mid_p_interval(7, 10, 10)
    assert (finite_interval(7, 10, 10).low, finite_interval(7, 10, 10).high) == (0.7, 0.7)


@pytest.mark.parametrize("counts", [(3, 2, 10), (-1, 2, 10), (1, 11, 10), (0, 0, 0)])
def test_counts_that_contradict_one_another_are_refused(counts):
    with pytest.raises(ValueError, match="not possible"):
        finite_interval(*counts)
