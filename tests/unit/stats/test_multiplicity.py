import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from dokimos.stats._multiplicity import benjamini_hochberg, holm, sidak_level

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("ours", "method"), [(holm, "holm"), (benjamini_hochberg, "fdr_bh")])
def test_adjusted_p_values_are_those_of_statsmodels(seed, ours, method):
    draw = random.Random(seed)
    p_values = [round(draw.random() ** 3, 2) for _ in range(20)]

    assert ours(p_values) == pytest.approx(list(multipletests(p_values, method=method)[1]), abs=1e-12)


@given(P_VALUES)
def test_adjusting_never_lowers_a_p_value_and_keeps_the_order(p_values):
    for adjusted in (holm(p_values), benjamini_hochberg(p_values)):
        assert all(p - 1e-12 <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
        ranked = sorted(zip(p_values, adjusted, strict=True))
        assert [a for _, a in ranked] == sorted(adjusted)


def test_one_test_needs_no_adjustment():
    assert holm([0.03]) == benjamini_hochberg([0.03]) == [0.03]


def test_nothing_to_adjust_is_nothing():
    assert holm([]) == benjamini_hochberg([]) == []


@pytest.mark.parametrize("tests", [1, 4, 50])
def test_independent_tests_at_the_sidak_level_make_alpha_in_all(tests):
    assert 1 - (1 - sidak_level(0.05, tests)) ** tests == pytest.approx(0.05)
