"""When a change is accepted, and that the levels hold for a whole search."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.optimizer._acceptance import Levels, decide, fewest_cases, one_sided_p


def cases(*improvements):
    return {f"case {number}": value for number, value in enumerate(improvements)}


def test_the_p_value_is_the_share_of_sign_flips_that_reach_the_mean():
    assert one_sided_p(cases(1.0, 1.0, 1.0, 1.0, 1.0)) == pytest.approx(1 / 32)
    assert one_sided_p(cases(0.1, 0.2, 0.3)) == pytest.approx(1 / 8)


def test_cases_that_do_not_differ_tell_nothing():
    assert one_sided_p(cases(1.0, 1.0, *[0.0] * 50)) == one_sided_p(cases(1.0, 1.0))


def test_what_is_worse_is_never_accepted():
    assert one_sided_p(cases(-1.0, -1.0, 0.5)) == 1.0
    assert not decide(cases(*[-0.1] * 40), level=0.5).accepted


def test_an_improvement_that_is_clear_and_large_enough_is_accepted():
    decision = decide(cases(*[0.2, 0.1] * 6), level=0.05, min_delta=0.1)

    assert decision.accepted
    assert decision.improvement == pytest.approx(0.15)
    assert decision.interval.low < 0.15 < decision.interval.high
    assert "is not chance" in decision.reason


def test_a_clear_improvement_that_is_too_small_is_not_accepted():
    decision = decide(cases(*[0.02] * 30), level=0.05, min_delta=0.05)

    assert decision.p < 0.001
    assert not decision.accepted
    assert "not more than 0.05" in decision.reason


def test_a_large_improvement_that_may_be_chance_is_not_accepted():
    decision = decide(cases(1.0, 1.0, -1.0, 1.0), level=0.05)

    assert not decision.accepted
    assert "may be chance" in decision.reason


def test_without_cases_nothing_is_accepted():
    assert not decide({}, level=0.5).accepted


@pytest.mark.parametrize("level", [0.5, 0.05, 0.025, 0.01])
def test_the_fewest_cases_are_those_that_can_just_be_enough(level):
    fewest = fewest_cases(level)

    assert one_sided_p(cases(*[1.0] * fewest), level=level) <= level
    assert fewest == 1 or one_sided_p(cases(*[1.0] * (fewest - 1)), level=level) > level


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_either_side_may_be_better_but_not_both(values):
    there, back = one_sided_p(cases(*values)), one_sided_p(cases(*[-value for value in values]))

    assert max(there, back) == 1.0
    assert min(there, back) > 0


def test_the_p_value_is_valid_where_nothing_is_better():
    draw = random.Random(1)
    count = 400
    for size in (8, 30):
        rejected = sum(
            one_sided_p(cases(*[draw.choice((-1, 1)) * draw.random() for _ in range(size)])) <= 0.05
            for _ in range(count)
        )
        assert rejected <= 0.05 * count + 2.6 * (count * 0.05 * 0.95) ** 0.5


def test_the_phases_of_a_cycle_share_its_level():
    assert Levels(0.05, 2).next == pytest.approx(0.025)
    assert Levels(0.05, 1).next == pytest.approx(0.05)


def test_what_was_accepted_hands_its_level_on_and_the_rest_is_spent():
    levels = Levels(0.05, 2)
    levels.carry_over()
    levels.end_cycle()

    assert levels.next == pytest.approx(0.0125)
    levels.end_cycle()
    assert levels.next == 0.0


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=6))
def test_the_levels_of_all_tests_that_accept_nothing_never_exceed_alpha(course):
    levels, spent = Levels(0.05, 2), 0.0
    for cycle in course:
        for accepts in cycle:
            if accepts:
                levels.carry_over()
            else:
                spent += levels.next
        levels.end_cycle()

    assert spent <= 0.05 + 1e-12
