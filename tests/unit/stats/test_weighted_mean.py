import math
import random
from statistics import fmean

import pytest

from dokimos.stats import mean_estimate, weighted_mean_estimate
from dokimos.stats._weighted_mean import NO_SUMS, add_sums, estimate_of_sums, subtract_sums


def sampled(draw, n, *, finite=False):
    """Sample about n traces: all long ones, which fail more, and a fifth of the others."""
    population = []
    for _ in range(round(n / 0.36)):
        is_long = draw.random() < 0.2
        population.append((float(draw.random() < (0.7 if is_long else 0.95)), 1.0 if is_long else 5.0))
    taken = [(value, weight) for value, weight in population if draw.random() < 1 / weight]
    truth = fmean(value for value, _ in population) if finite else 0.9
    return taken, truth


def test_the_mean_is_that_of_all():
    estimate = weighted_mean_estimate([0.0, 1.0, 1.0], [4.0, 1.0, 1.0])

    assert estimate.value == pytest.approx(1 / 3)
    assert estimate.population == 6.0
    assert estimate.sampled_share == 0.5
    assert estimate.n == 3
    assert estimate.effective_n == 2.0


def test_equal_weights_are_the_plain_mean():
    values = [0.2, 0.9, 1.0, 0.7, 0.8, 1.0, 0.4, 0.6, 0.9, 1.0]
    plain, weighted = mean_estimate(values), weighted_mean_estimate(values, [3.0] * 10)

    assert weighted.value == pytest.approx(plain.value)
    assert weighted.standard_error == pytest.approx(plain.standard_error)
    assert weighted.interval.low == pytest.approx(plain.interval.low)
    assert weighted.interval.high == pytest.approx(plain.interval.high)
    assert weighted.coverage == plain.coverage


def test_of_a_finite_number_that_was_sampled_whole_nothing_is_uncertain():
    estimate = weighted_mean_estimate([0.0, 1.0, 1.0, 0.5], [1.0] * 4, finite=True)

    assert estimate.interval.low == estimate.interval.high == estimate.value == 0.625
    assert (estimate.standard_error, estimate.sampled_share, estimate.coverage) == (0.0, 1.0, None)


def test_the_more_of_a_finite_number_was_sampled_the_surer_it_is():
    values = [0.0, 1.0] * 20
    widths = [
        interval.high - interval.low
        for weight in (1.25, 2.0, 10.0)
        for interval in [weighted_mean_estimate(values, [weight] * 40, finite=True).interval]
    ]
    assert widths == sorted(widths)
    assert widths[-1] < 2 * weighted_mean_estimate(values, [10.0] * 40).standard_error * 2.1


def test_a_few_heavy_traces_that_all_pass_are_still_uncertain():
    light = [0.0, 1.0] * 50
    estimate = weighted_mean_estimate([*light, 1.0, 1.0, 1.0], [*[1.0] * 100, 100.0, 100.0, 100.0])

    assert estimate.interval.low < 0.6  # the standard error alone would say 0.8
    assert estimate.value > 0.85


@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize("n", [40, 300])
def test_the_interval_holds_the_mean_as_often_as_it_says(n, finite):
    draw, covered = random.Random(n), 0
    for _ in range(400):
        taken, truth = sampled(draw, n, finite=finite)
        found = weighted_mean_estimate(*zip(*taken, strict=True), finite=finite).interval
        covered += found.low <= truth <= found.high

    assert 0.92 <= covered / 400 <= 0.985


def test_observations_without_weight_do_not_count():
    plain = weighted_mean_estimate([0.0, 1.0, 1.0], [2.0, 2.0, 2.0])
    assert weighted_mean_estimate([0.0, 1.0, 0.5, 1.0], [2.0, 2.0, 0.0, 2.0]) == plain
    assert weighted_mean_estimate([1.0, 0.5], [1.0, 0.0]) is None


def test_values_beyond_their_range_widen_it():
    estimate = weighted_mean_estimate([0.0, 3.0, 1.0, 2.0], [1.0, 2.0, 4.0, 1.0])
    assert estimate.interval.low < estimate.value < estimate.interval.high <= 3.0


@pytest.mark.parametrize(
    ("weights", "finite", "message"),
    [
        ([1.0], False, "2 values and 1 weights"),
        ([1.0, -1.0], False, "0 or more"),
        ([1.0, math.nan], False, "0 or more"),
        ([1.0, math.inf], False, "finite"),
        ([1.0, 0.5], True, "1 or more"),
    ],
)
def test_weights_of_no_use_are_refused(weights, finite, message):
    with pytest.raises(ValueError, match=message):
        weighted_mean_estimate([0.0, 1.0], weights, finite=finite)


def test_sums_tell_the_mean_of_what_came_after():
    draw, sums = random.Random(5), NO_SUMS
    for _ in range(1_000):
        sums = add_sums(sums, draw.random(), 1.0)
    earlier = sums
    values, weights = [draw.random() for _ in range(200)], [draw.choice([0.2, 1.0]) for _ in range(200)]
    for value, weight in zip(values, weights, strict=True):
        sums = add_sums(sums, value, weight)
    later = estimate_of_sums(subtract_sums(sums, earlier), (0.0, 1.0))
    direct = weighted_mean_estimate(values, [5 * weight for weight in weights])

    assert later.value == pytest.approx(direct.value)
    assert later.standard_error == pytest.approx(direct.standard_error, rel=0.01)
    assert estimate_of_sums(add_sums(NO_SUMS, 0.5, 1.0), (0.0, 1.0)) is None
