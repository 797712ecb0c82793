import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.means import (
    UNIT,
    complement,
    exact_mean,
    exact_median,
    exact_sum,
    relative_position,
    units_of,
)

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([0.7] * 3, 0.7),
        ([0.6, 0.8, 1.0], 0.8),
        ([0.9] * 9, 0.9),
        ([1 / 3, 2 / 3], 0.5),
        ([2 / 3] * 7, 2 / 3),
        ([1, 0], 0.5),
        ([0.123456789012], 0.123456789012),
    ],
)
def test_the_mean_is_that_of_what_the_numbers_stand_for(values, mean):
    assert exact_mean(values) == mean


def test_weights_count():
    assert exact_mean([1.0, 0.4, 0.4], [0.1, 0.2, 0.1]) == 0.55


@given(SCORES)
def test_the_mean_lies_between_the_least_and_the_greatest(values):
    assert min(values) <= exact_mean(values) <= max(values)


@given(SCORES)
def test_equal_weights_are_no_weights(values):
    assert exact_mean(values, [0.3] * len(values)) == exact_mean(values)


@pytest.mark.parametrize(
    "number", [0.7, 1e-9, 5e-324, 2.2250738585072014e-308, 123456.789, 1e22, -0.5, -1e-7]
)
def test_a_number_stands_for_its_shortest_spelling(number):
    assert units_of(number) == Fraction(repr(number)) * UNIT


def test_a_whole_number_may_be_larger_than_any_float():
    assert units_of(10**400) == 10**400 * UNIT


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_there_is_no_mean_of_what_is_not_finite(number):
    with pytest.raises(ValueError, match="There is no mean"):
        exact_mean([0.5, number])


@given(st.integers(1, 5000).flatmap(lambda below: st.tuples(st.integers(0, below), st.just(below))))
def test_a_quotient_of_counts_is_taken_for_the_fraction(terms):
    count, total = terms
    assert exact_mean([count / total, (total - count) / total]) == 0.5


@pytest.mark.parametrize(("share", "rest"), [(0.9, 0.1), (0.7, 0.3), (1 / 3, 2 / 3), (0.0, 1.0), (1.0, 0.0)])
def test_the_complement_has_no_dust(share, rest):
    assert complement(share) == rest


@pytest.mark.parametrize(
    ("zero", "one", "number", "place"),
    [(1, 10, 7.3, 0.7), (0, 1, 0.7, 0.7), (5, 1, 5, 0.0), (5, 1, 2.2, 0.7), (-1.0, 1.0, 0.4, 0.7)],
)
def test_the_place_on_a_scale_has_no_dust(zero, one, number, place):
    assert relative_position(zero, one, number) == place


def test_amounts_are_added_as_people_add_them():
    assert exact_sum([0.1, 0.2]) == 0.3


def test_the_median_of_an_even_number_is_the_exact_mean_of_two():
    assert exact_median([0.2, 0.9, 0.0, 0.1]) == 0.15
    assert exact_median([0.2, 0.1, 0.9]) == 0.2
    assert exact_median([0.3]) == 0.3
