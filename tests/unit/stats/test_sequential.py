import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.stats._paired_estimates import mean_estimate
from dokimos.stats._sequential import BETS, SequentialTest, anytime_interval, anytime_p

SCORES = st.lists(st.integers(0, 10).map(lambda tenths: tenths / 10), max_size=40)


def verdicts(seed, n, rate=0.8):
    draw = random.Random(seed)
    return [float(draw.random() < rate) for _ in range(n)]


def stop_of(deltas, alpha=0.05):
    """After how many differences the test ends; None where it never does."""
    test = SequentialTest()
    return next((test.n for delta in deltas if test.add(delta) <= alpha), None)


def changes(draw, n, worse, better):
    return draw.choices([-1, 1, 0], weights=[worse, better, 1 - worse - better], k=n)


def test_the_wealth_of_a_game_that_was_played_by_hand():
    wealth = fmean((1 + bet) * (1 - bet) ** 6 for size in BETS for bet in (size, -size))

    assert anytime_p([1, -1, -1, -1, -1, -1, -1]) == pytest.approx(1 / wealth)
    assert anytime_p([1, -1]) == 1.0


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=4))
def test_the_game_is_fair(history):
    """Whatever happened, the next difference is worth nothing on average if there is no true one."""
    ups, downs = SequentialTest(), SequentialTest()
    for test, last in ((ups, 1.0), (downs, -1.0)):
        for delta in [*history, last]:
            test.add(delta)
    before = SequentialTest()
    for delta in history:
        before.add(delta)

    assert (sum(ups._wealth.values()) + sum(downs._wealth.values())) / 2 == pytest.approx(
        sum(before._wealth.values())
    )


def test_looking_all_the_time_raises_few_false_alarms():
    draw = random.Random(3)

    alarms = sum(stop_of(changes(draw, 200, 0.1, 0.1)) is not None for _ in range(300))

    assert alarms <= 24  # 15 are allowed at 5 %; more than 24 would have a chance of 1 %


def test_a_drop_ends_the_run_early():
    draw = random.Random(4)

    stops = [stop_of(changes(draw, 400, 0.15, 0.05)) or 400 for _ in range(60)]

    assert fmean(stops) < 0.7 * 400


def test_p_never_rises():
    test = SequentialTest()

    seen = [test.add(delta) for delta in [-1] * 12 + [1] * 12]

    assert seen == sorted(seen, reverse=True)
    assert test.n == 24


def test_a_difference_out_of_bounds_is_refused():
    with pytest.raises(ValueError, match="larger than the largest possible one"):
        SequentialTest(largest=0.5).add(-0.6)


def test_differences_count_by_their_share_of_the_largest():
    assert anytime_p([-0.5] * 9, largest=0.5) == anytime_p([-1] * 9)


def test_nothing_seen_is_not_significant():
    assert anytime_p([]) == 1.0
    assert anytime_interval([], low=-1, high=2).low == -1


@given(SCORES)
def test_the_interval_holds_the_mean_that_was_seen(values):
    interval = anytime_interval(values)

    assert 0 <= interval.low <= interval.high <= 1
    assert not values or interval.low - 1e-9 <= fmean(values) <= interval.high + 1e-9


@given(SCORES.filter(bool), st.randoms())
def test_the_order_of_the_values_does_not_matter(values, draw):
    turned = draw.sample(values, len(values))

    first, second = anytime_interval(values), anytime_interval(turned)

    assert (first.low, first.high) == pytest.approx((second.low, second.high), abs=1e-8)


def test_values_that_differ_by_rounding_alone_all_count():
    plain, rounded = anytime_interval([0.3] * 200), anytime_interval([0.3] * 199 + [0.1 + 0.2])

    assert (rounded.low, rounded.high) == pytest.approx((plain.low, plain.high), abs=1e-6)


def test_it_narrows_and_stays_wider_than_an_interval_for_one_look():
    widths = []
    for n in (20, 100, 1_000):
        interval, once = anytime_interval(verdicts(1, n)), mean_estimate(verdicts(1, n)).interval
        widths.append(interval.high - interval.low)
        assert 1 < widths[-1] / (once.high - once.low) < 2.2

    assert widths == sorted(widths, reverse=True)


def test_its_ends_are_means_that_a_bet_just_rejects():
    values = verdicts(2, 60)
    low = anytime_interval(values).low
    passed = sum(values)

    wealth = fmean((1 + bet * (1 / low - 1)) ** passed * (1 - bet) ** (60 - passed) for bet in BETS)

    assert wealth == pytest.approx(2 / 0.05, rel=1e-4)


def test_other_bounds_stretch_the_interval():
    values = verdicts(5, 50)
    plain, wide = anytime_interval(values), anytime_interval([4 * v - 2 for v in values], low=-2, high=2)

    assert (wide.low, wide.high) == pytest.approx((4 * plain.low - 2, 4 * plain.high - 2), abs=1e-6)


def test_all_intervals_of_a_sequence_hold_the_mean_together():
    missed = 0
    for seed in range(60):
        values = verdicts(seed, 150)
        looks = (anytime_interval(values[:n]) for n in range(10, 151, 10))
        missed += not all(look.low <= 0.8 <= look.high for look in looks)

    assert missed <= 6


def test_equal_weights_change_nothing():
    values = [0.2, 0.9, 1.0, 0.7] * 20
    weighted = anytime_interval(values, weights=[4.0] * 80, largest_weight=4.0)
    assert weighted == anytime_interval(values)


def test_a_weighted_interval_holds_the_mean_of_all_at_all_times():
    """Long traces pass at 70 %, are a fifth and all sampled; the others pass at 95 %, sampled by a fifth."""
    draw, missed = random.Random(6), 0
    for _ in range(60):
        values, weights = [], []
        while len(values) < 150:
            is_long = draw.random() < 0.2
            if is_long or draw.random() < 0.2:
                values.append(float(draw.random() < (0.7 if is_long else 0.95)))
                weights.append(1.0 if is_long else 5.0)
        looks = (
            anytime_interval(values[:n], weights=weights[:n], largest_weight=5.0) for n in range(10, 151, 20)
        )
        missed += any(not look.low <= 0.9 <= look.high for look in looks)
    assert missed <= 7  # 3 are allowed at 5 %


@pytest.mark.parametrize(
    ("weights", "largest", "message"),
    [
        ([1.0], 1.0, "2 values and 1 weights"),
        ([1.0, 1.0], None, "largest_weight must be"),
        ([1.0, 3.0], 2.0, "Weights must be"),
        ([1.0, math.nan], 2.0, "Weights must be"),
    ],
)
def test_weights_of_no_use_are_refused(weights, largest, message):
    with pytest.raises(ValueError, match=message):
        anytime_interval([0.0, 1.0], weights=weights, largest_weight=largest)


def test_weights_of_nothing_say_nothing():
    whole = anytime_interval([0.0, 1.0], weights=[0.0, 0.0], largest_weight=2.0)
    assert (whole.low, whole.high) == (0.0, 1.0)
