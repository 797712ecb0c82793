import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.stats import WeightedValue, merge_trace, split_false_alarms, squash, unsquash


def test_a_trace_is_one_observation():
    assert merge_trace([1.0, 0.0]) == WeightedValue(0.5, 1.0)
    assert merge_trace([True, False, True, True], probability=0.5) == WeightedValue(0.75, 2.0)
    assert merge_trace([1.0, 0.0], probability=0.5, per="score") == WeightedValue(0.5, 4.0)


@pytest.mark.parametrize(
    ("values", "settings", "error", "message"),
    [
        ([], {}, ValueError, "without scores"),
        ([math.nan], {}, ValueError, "A score must be a finite"),
        (["1"], {}, TypeError, "A score must be a number"),
        ([1.0], {"probability": 0}, ValueError, "probability must be"),
        ([1.0], {"probability": 1.1}, ValueError, "probability must be"),
        ([1.0], {"per": "span"}, ValueError, "per must be"),
    ],
)
def test_a_trace_of_no_use_is_refused(values, settings, error, message):
    with pytest.raises(error, match=message):
        merge_trace(values, **settings)


@given(st.floats(0, 1e12), st.floats(1e-3, 1e6))
def test_squashing_keeps_the_order_and_comes_back(value, middle):
    share = squash(value, middle=middle)

    assert 0 <= share <= 1
    assert squash(value * 2, middle=middle) >= share
    if share < 0.999:
        assert unsquash(share, middle=middle) == pytest.approx(value, rel=1e-9)


def test_the_ends_of_squashing():
    assert (squash(0, middle=3), squash(3, middle=3), squash(math.inf, middle=3)) == (0.0, 0.5, 1.0)
    assert unsquash(1.0, middle=3) == math.inf


@pytest.mark.parametrize(("value", "middle"), [(-1, 1), (math.nan, 1), (1, 0), (1, math.inf), (1, math.nan)])
def test_what_cannot_be_squashed_is_refused(value, middle):
    with pytest.raises(ValueError, match="must be"):
        squash(value, middle=middle)


@pytest.mark.parametrize(("share", "middle"), [(-0.1, 1), (1.1, 1), (math.nan, 1), (0.5, 0)])
def test_what_cannot_be_unsquashed_is_refused(share, middle):
    with pytest.raises(ValueError, match="must be"):
        unsquash(share, middle=middle)


@given(st.floats(0.01, 100), st.lists(st.floats(0.1, 50), min_size=1, max_size=20))
def test_shares_of_false_alarms_add_up(per_year, weights):
    names = {str(place): weight for place, weight in enumerate(weights)}
    assert sum(split_false_alarms(per_year, names).values()) == pytest.approx(per_year)


def test_shares_of_no_use_are_refused():
    with pytest.raises(ValueError, match="tone must be greater than 0"):
        split_false_alarms(1.0, {"tone": 0})
    with pytest.raises(ValueError, match="per_year must be"):
        split_false_alarms(math.nan, {"tone": 1})
    assert split_false_alarms(1.0, {}) == {}
