import random
from itertools import pairwise, product

import pytest

from dokimos.stats import chance_alerts, chance_alerts_of_rate


def alerts_by_hand(values, window, threshold):
    means = [sum(values[end - window : end]) / window for end in range(window, len(values) + 1)]
    below = [False, *(mean < threshold for mean in means)]
    return sum(now and not before for before, now in pairwise(below))


@pytest.mark.parametrize("window", [1, 2, 3, 5])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.6, 1.0])
def test_the_rate_of_alerts_is_that_of_all_outcomes(window, threshold):
    n, rate = 9, 0.7
    expected = sum(
        rate ** sum(outcome) * (1 - rate) ** (n - sum(outcome)) * alerts_by_hand(outcome, window, threshold)
        for outcome in product((0, 1), repeat=n)
    )
    assert chance_alerts_of_rate(rate, n, window=window, threshold=threshold) == pytest.approx(expected)


def test_an_alert_above_is_one_of_the_opposite_below():
    rises = chance_alerts_of_rate(0.1, 5_000, window=100, threshold=0.16, alternative="greater")
    assert rises == pytest.approx(chance_alerts_of_rate(0.9, 5_000, window=100, threshold=0.84))


def test_verdicts_are_computed_and_scores_drawn():
    verdicts = [n % 10 != 0 for n in range(5_000)]
    exact = chance_alerts(verdicts, window=50, threshold=0.8)
    # A score that is not quite a verdict is drawn, and comes to the same.
    drawn = chance_alerts([*verdicts[:-1], 0.999], window=50, threshold=0.8, resamples=60)

    assert (exact.is_exact, exact.standard_error) == (True, 0.0)
    assert not drawn.is_exact
    assert abs(drawn.expected - exact.expected) < 4 * drawn.standard_error


def test_the_same_seed_draws_the_same():
    draw = random.Random(1)
    scores = [draw.random() for _ in range(500)]
    alerts = [
        chance_alerts(scores, window=20, threshold=0.4, resamples=10, seed=seed).expected
        for seed in (1, 1, 2)
    ]
    assert alerts[0] == alerts[1] != alerts[2]


def test_a_window_may_be_a_span_of_time():
    draw = random.Random(2)
    scores = [float(draw.random() < 0.8) for _ in range(1_000)]
    each = chance_alerts([*scores[:-1], 0.5], window=20, threshold=0.6, resamples=50)
    same = chance_alerts([*scores[:-1], 0.5], window=20, threshold=0.6, counts=[1] * 1_000, resamples=50)
    sparse = chance_alerts([*scores[:-1], 0.5], window=20, threshold=0.6, counts=[1, 0] * 1_000, resamples=50)

    assert each == same
    assert sparse.expected > each.expected  # ten values in a window vary more than twenty


def test_constant_scores_at_the_threshold_never_fire():
    assert chance_alerts([0.1] * 300, window=7, threshold=0.1, resamples=3).expected == 0
    assert chance_alerts([0.1] * 300, window=7, threshold=0.2, resamples=3).expected == 1  # once, for ever


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        ([], {}, "Without values"),
        ([1.0], {"window": 0}, "window must be 1 or more"),
        ([1.0], {"resamples": 0}, "resamples must be 1 or more"),
        ([1.0], {"counts": [2]}, "counts add up to 2"),
    ],
)
def test_settings_of_no_use_are_refused(values, settings, message):
    with pytest.raises(ValueError, match=message):
        chance_alerts(values, **{"window": 5, "threshold": 0.5, **settings})


@pytest.mark.parametrize(("rate", "window"), [(1.1, 5), (-0.1, 5), (0.5, 0)])
def test_a_rate_of_no_use_is_refused(rate, window):
    with pytest.raises(ValueError, match="must be"):
        chance_alerts_of_rate(rate, 10, window=window, threshold=0.5)


def test_fewer_verdicts_than_a_window_never_fire():
    assert chance_alerts_of_rate(0.5, 9, window=10, threshold=0.9) == 0.0
