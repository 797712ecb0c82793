import math
import random
from statistics import NormalDist

import pytest

from dokimos.stats._permutation import sign_flip_test
from dokimos.stats._power import mcnemar_power, paired_power
from dokimos.stats._verdict_power import (
    VerdictDesign,
    _sum_p,
    detectable_verdict_drop,
    verdict_items_needed,
    verdict_power,
)


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("noise_share", [0.0, 0.3, 1.0])
def test_the_chances_of_a_change_add_up_to_the_drop(repeats, noise_share):
    chances = VerdictDesign(rate=0.8, noise_share=noise_share, repeats=repeats).change_chances(0.1)

    assert sum(chances.values()) == pytest.approx(1.0)
    assert sum(change * chance for change, chance in chances.items()) == pytest.approx(-0.1 * repeats)


def test_the_chances_of_a_change_are_those_of_a_simulation():
    draw = random.Random(1)
    design, strength = VerdictDesign(rate=0.7, noise_share=0.4, repeats=2), 0.4 / 0.6
    counted = dict.fromkeys(range(-2, 3), 0)
    for _ in range(20_000):
        chance = draw.betavariate(0.7 * strength, 0.3 * strength)
        now = 0.0 if draw.random() < 0.1 / 0.7 else chance
        counted[sum(draw.random() < now for _ in "ab") - sum(draw.random() < chance for _ in "ab")] += 1

    found = design.change_chances(0.1)

    assert [counted[change] / 20_000 for change in found] == pytest.approx(list(found.values()), abs=0.012)


def test_half_of_the_variance_being_chance_means_that():
    design = VerdictDesign(rate=0.8, noise_share=0.5)

    # Without a drop, two verdicts of an item differ as often as its noise says.
    assert design.change_chances(0.0)[1] == pytest.approx(0.5 * 0.8 * 0.2)


@pytest.mark.parametrize(("counts", "total"), [((8,), 6), ((3, 2, 1), 6), ((0, 4, 3), 11), ((5, 0, 5), 14)])
def test_the_p_value_of_counts_is_that_of_the_test(counts, total):
    sizes = [size for size, count in enumerate(counts, start=1) for _ in range(count)]
    signs = next(
        signs
        for pattern in range(2 ** len(sizes))
        if sum(signs := [s if pattern >> i & 1 else -s for i, s in enumerate(sizes)]) == total
    )

    assert _sum_p(counts, total) == pytest.approx(sign_flip_test({str(i): s for i, s in enumerate(signs)}).p)


def test_many_changes_are_nearly_normal():
    exact, near = _sum_p((20, 20, 20), 34), 2 * NormalDist().cdf(-33 / 280**0.5)

    assert exact == pytest.approx(near, rel=0.02)
    assert _sum_p((22, 20, 20), 34) == 2 * NormalDist().cdf(-33 / 282**0.5)


def test_one_repeat_without_noise_is_mcnemars_test():
    design = VerdictDesign(rate=0.9)

    found = verdict_power(80, 0.1, design, simulations=4_000)

    assert found == pytest.approx(mcnemar_power(80, worse=0.1, better=0.0), abs=0.025)


def test_one_repeat_with_noise_is_mcnemars_test_of_what_flips():
    design = VerdictDesign(rate=0.8, noise_share=0.4)
    chances = design.change_chances(0.1)

    found = verdict_power(100, 0.1, design, simulations=4_000)

    assert found == pytest.approx(mcnemar_power(100, worse=chances[-1], better=chances[1]), abs=0.025)


def test_many_items_are_as_the_mean_difference_says():
    design = VerdictDesign(rate=0.8, noise_share=0.4, repeats=3)
    chances = design.change_chances(0.02)
    deviation = math.sqrt(sum(c * c * p for c, p in chances.items()) - 0.06**2)

    assert verdict_power(3_000, 0.02, design) == pytest.approx(paired_power(3_000, 0.06, deviation))
    assert verdict_power(2_000, 0.02, design) == pytest.approx(paired_power(2_000, 0.06, deviation), abs=0.04)


def test_repeats_help_against_chance_and_not_against_what_is_fixed():
    def power(noise_share, repeats):
        return verdict_power(60, 0.1, VerdictDesign(rate=0.8, noise_share=noise_share, repeats=repeats))

    assert power(0.5, 5) > power(0.5, 1) + 0.15
    assert power(0.0, 5) == pytest.approx(power(0.0, 1), abs=0.04)


def test_the_detectable_drop_and_the_items_needed_are_where_power_begins():
    design = VerdictDesign(rate=0.85, noise_share=0.3, repeats=3)

    drop, n = detectable_verdict_drop(80, design), verdict_items_needed(0.15, design)

    assert verdict_power(80, drop, design) == pytest.approx(0.8, abs=0.02)
    assert verdict_power(n, 0.15, design) == pytest.approx(0.8, abs=0.03)


def test_what_cannot_be_seen_is_none():
    assert detectable_verdict_drop(4, VerdictDesign(rate=0.9)) is None
    assert verdict_power(50, 0.0, VerdictDesign(rate=0.9)) == 0.0
    assert verdict_power(50, 0.95, VerdictDesign(rate=0.9)) == 0.0


def test_everything_passing_leaves_only_the_drop():
    assert VerdictDesign(rate=1.0, noise_share=0.3, repeats=2).change_chances(0.25) == {
        0: 0.75, -2: 0.25, -1: 0.0, 1: 0.0, 2: 0.0,
    }  # fmt: skip
