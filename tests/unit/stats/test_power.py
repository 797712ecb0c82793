import random
from statistics import fmean

import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from dokimos.stats._mcnemar import mcnemar_p
from dokimos.stats._multiplicity import sidak_level
from dokimos.stats._power import (
    Spread,
    detectable_effect,
    items_needed,
    mcnemar_detectable_drop,
    mcnemar_items_needed,
    mcnemar_power,
    paired_power,
)


def enumerated_power(n, worse, better, alpha=0.05):
    """The chance of every split of the items that is significant."""
    return sum(
        stats.multinomial.pmf([down, up, n - down - up], n, [worse, better, 1 - worse - better])
        for down in range(n + 1)
        for up in range(n + 1 - down)
        if mcnemar_p(down, up) <= alpha
    )


@pytest.mark.parametrize(
    ("n", "worse", "better"), [(12, 0.5, 0.1), (30, 0.25, 0.05), (40, 0.1, 0.1), (20, 0.4, 0.0)]
)
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_mcnemars_power_is_the_chance_of_a_significant_split(n, worse, better, alpha):
    expected = enumerated_power(n, worse, better, alpha)

    assert mcnemar_power(n, worse=worse, better=better, alpha=alpha) == pytest.approx(expected, abs=1e-9)


def test_large_numbers_of_items_are_as_the_normal_distribution_says():
    n, worse, better = 20_000, 0.106, 0.1
    shift = (n * (worse - better) - 1) / (n * (worse + better)) ** 0.5  # corrected for continuity

    power = mcnemar_power(n, worse=worse, better=better)

    assert power == pytest.approx(stats.norm.sf(1.96 - shift), abs=0.002)


@pytest.mark.parametrize(("n", "worse", "power"), [(5, 1.0, 0.0), (6, 1.0, 1.0), (50, 0.0, 0.0)])
def test_six_items_are_the_fewest_that_can_fail(n, worse, power):
    assert mcnemar_power(n, worse=worse, better=0.0) == power


@pytest.mark.parametrize(("n", "effect"), [(5, 1.0), (20, 0.5), (100, 0.2), (800, 0.1)])
def test_the_power_for_a_mean_is_that_of_statsmodels(n, effect):
    oracle = TTestPower().power(effect, n, 0.05)

    assert paired_power(n, 0.3 * effect, 0.3) == pytest.approx(oracle, abs=1e-7)
    assert paired_power(n, -0.3 * effect, 0.3) == pytest.approx(oracle, abs=1e-7)


def test_what_is_needed_is_what_statsmodels_says():
    oracle = TTestPower()

    assert items_needed(0.05, 0.25) == pytest.approx(oracle.solve_power(0.2, None, 0.05, 0.8), abs=1)
    assert detectable_effect(64, 0.25) / 0.25 == pytest.approx(
        oracle.solve_power(None, 64, 0.05, 0.8), rel=1e-4
    )


@pytest.mark.parametrize("flips", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("n", [30, 200, 3_000])
def test_the_detectable_drop_is_where_power_begins(n, flips):
    drop = mcnemar_detectable_drop(n, flips=flips)

    assert mcnemar_power(n, worse=flips + drop, better=flips) == pytest.approx(0.8, abs=4e-3)


def test_the_items_needed_are_where_power_begins():
    n = mcnemar_items_needed(0.1, flips=0.05)

    assert mcnemar_power(n - 1, worse=0.15, better=0.05) < 0.8 <= mcnemar_power(n, worse=0.15, better=0.05)


def test_more_items_see_smaller_drops_and_noise_hides_them():
    drops = [mcnemar_detectable_drop(n, flips=0.05) for n in (50, 100, 400)]

    assert drops == sorted(drops, reverse=True)
    assert mcnemar_detectable_drop(100) < mcnemar_detectable_drop(100, flips=0.1)


def test_what_cannot_be_seen_is_none():
    assert mcnemar_detectable_drop(5) is None
    assert detectable_effect(1, 0.2) is None
    assert items_needed(1e-5, 1.0) is None
    assert mcnemar_items_needed(1e-4, flips=0.2) is None


def test_without_spread_any_effect_is_seen():
    assert paired_power(10, 0.01, 0.0) == 1.0
    assert paired_power(10, 0.0, 0.0) == 0.0
    assert paired_power(1, 0.5, 0.1) == 0.0
    assert detectable_effect(10, 0.0) == 0.0


def test_a_family_needs_more_items():
    assert items_needed(0.1, 0.3, alpha=sidak_level(0.05, 10)) > items_needed(0.1, 0.3)


def test_repeats_shrink_the_noise_and_not_the_spread_of_the_items():
    spread = Spread(items=0.1, noise=0.3)

    assert spread.of_mean(1) == pytest.approx(0.1**0.5)
    assert spread.of_mean(9) == pytest.approx(0.02**0.5)


def scores(seed, items, repeats, spread, noise, drop=0.0):
    """Both sides of items whose true difference has a spread, and whose scores have noise."""
    draw = random.Random(seed)
    baseline, candidate = [], []
    for _ in range(items):
        base, change = draw.gauss(0.6, 0.2), draw.gauss(-drop, spread)
        baseline.append([draw.gauss(base, noise) for _ in range(repeats)])
        candidate.append([draw.gauss(base + change, noise) for _ in range(repeats)])
    return baseline, candidate


def test_past_repeats_tell_spread_and_noise():
    found = Spread.of(*scores(1, 2_000, 4, spread=0.15, noise=0.1))

    assert found.items == pytest.approx(0.15, abs=0.01)
    assert found.noise == pytest.approx(0.1 * 2**0.5, abs=0.005)


def test_one_side_tells_the_noise_of_two():
    found = Spread.of(scores(2, 2_000, 3, spread=0.0, noise=0.1)[0])

    assert (found.items, found.noise) == (0.0, pytest.approx(0.1 * 2**0.5, abs=0.005))


def test_without_repeats_all_spread_is_that_of_the_items():
    found = Spread.of(*scores(3, 2_000, 1, spread=0.15, noise=0.1))

    assert (found.items, found.noise) == (pytest.approx((0.15**2 + 2 * 0.1**2) ** 0.5, abs=0.01), 0.0)


@pytest.mark.parametrize("sides", [([[0.1], [0.2]],), ([[0.1]], [[0.2]]), ([[0.1], []], [[0.2], [0.3]])])
def test_too_few_scores_tell_no_spread(sides):
    assert Spread.of(*sides) is None


def test_power_is_what_a_simulation_finds():
    draw = random.Random(5)
    spread = Spread(items=0.1, noise=0.2)
    predicted = paired_power(40, 0.06, spread.of_mean(3))

    found = 0
    for _ in range(1_000):
        deltas = [draw.gauss(-0.06, 0.1) + fmean(draw.gauss(0, 0.2) for _ in range(3)) for _ in range(40)]
        found += stats.ttest_1samp(deltas, 0).pvalue < 0.05

    assert found / 1_000 == pytest.approx(predicted, abs=0.045)
