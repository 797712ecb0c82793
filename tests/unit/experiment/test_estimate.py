"""The range of a sum of many values, from a few of them."""

import random

import pytest

from dokimos.experiment._estimate import Range, scale_mean


def test_equal_values_give_a_range_without_width():
    assert scale_mean([2.0, 2.0, 2.0], 10) == Range(low=20, high=20)


def test_the_range_stays_within_what_was_seen():
    found = scale_mean([1.0, 5.0, 1.0], 10)
    assert found.low >= 10
    assert found.high <= 50


def test_one_value_stands_for_all_and_none_for_nothing():
    assert scale_mean([3.0], 4) == Range(low=12, high=12)
    assert scale_mean([], 4) is None


@pytest.mark.parametrize("count", [5, 20])
def test_about_nine_of_ten_ranges_hold_the_sum(count):
    draw = random.Random(7)
    held = 0
    for _ in range(400):
        found = scale_mean([draw.gauss(10, 2) for _ in range(count)], 1_000)
        held += found.low <= 10_000 <= found.high
    assert 0.86 <= held / 400 <= 0.95
