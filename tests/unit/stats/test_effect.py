import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_effectsize

from dokimos.stats._effect import (
    cohens_h,
    discordant_odds_ratio,
    hedges_g,
    rank_biserial,
    standardised_mean_difference,
)

DRAW = random.Random(4)
DELTAS = [round(DRAW.gauss(-0.05, 0.2), 1) for _ in range(40)]


def test_the_standardised_difference_is_the_t_statistic_over_the_root_of_n():
    oracle = stats.ttest_1samp(DELTAS, 0).statistic / len(DELTAS) ** 0.5

    assert standardised_mean_difference(DELTAS) == pytest.approx(oracle)


def test_few_differences_are_corrected_by_the_usual_factor():
    d, freedom = standardised_mean_difference(DELTAS), len(DELTAS) - 1

    assert hedges_g(DELTAS) == pytest.approx(d * (1 - 3 / (4 * freedom - 1)), rel=1e-4)


@pytest.mark.parametrize("deltas", [[], [0.3], [0.2, 0.2]])
def test_a_difference_without_spread_has_no_standard(deltas):
    assert standardised_mean_difference(deltas) is None
    assert hedges_g(deltas) is None


def test_two_differences_are_too_few_to_correct():
    assert hedges_g([0.1, 0.3]) == 0.0


@pytest.mark.parametrize(("before", "after"), [(0.9, 0.8), (0.5, 0.6), (0.0, 1.0)])
def test_the_distance_of_rates_is_that_of_statsmodels(before, after):
    assert cohens_h(before, after) == pytest.approx(proportion_effectsize(after, before))


def test_the_rank_correlation_is_what_wilcoxons_ranks_give():
    kept = [delta for delta in DELTAS if delta]
    ranks = stats.rankdata([abs(delta) for delta in kept])
    up = sum(rank for rank, delta in zip(ranks, kept, strict=True) if delta > 0)
    total = sum(ranks)

    assert rank_biserial(DELTAS) == pytest.approx((up - (total - up)) / total)


@given(st.lists(st.integers(-5, 5), max_size=30))
def test_the_rank_correlation_turns_with_the_direction(deltas):
    found, turned = rank_biserial(deltas), rank_biserial([-delta for delta in deltas])

    assert (found is None) == (not any(deltas))
    assert found is None or (-1 <= found <= 1 and turned == pytest.approx(-found))


def test_all_differences_down_is_minus_one():
    assert rank_biserial([-1, -3, 0, -3]) == -1.0


def test_as_many_worse_as_better_are_even_odds():
    assert discordant_odds_ratio(4, 4) == 1.0
    assert discordant_odds_ratio(7, 2) == pytest.approx(1 / 3)
