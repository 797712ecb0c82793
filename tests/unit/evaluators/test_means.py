import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.evaluators.means import exact_mean

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
