import math
import random

import pytest

from dokimos.stats._permutation import sign_flip_test
from dokimos.stats._power import paired_power
from dokimos.stats._uneven_power import UnevenDrop, uneven_power


def found_share(n, drop, deviation, *, times=300):
    """In how many simulated comparisons the sign-flip test finds the drop."""
    draw, found = random.Random(n), 0
    for seed in range(times):
        changes = {}
        for item in range(n):
            fall = drop.size if draw.random() < drop.affected else 0.0
            changes[str(item)] = round(1e6 * (draw.gauss(0, deviation) - fall))
        test = sign_flip_test(changes, iterations=999, seed=seed)
        found += test.p < 0.05 and sum(changes.values()) < 0
    return found / times


@pytest.mark.parametrize(
    ("n", "mean", "affected", "deviation"),
    [
        (40, 0.03, 1.0, 0.066),
        (40, 0.03, 0.1, 0.066),
        (40, 0.03, 0.1, 0.02),
        (40, 0.03, 0.1, 0.0),
        (12, 0.1, 0.2, 0.1),
        (8, 0.1, 1.0, 0.08),
        (60, 0.05, 0.2, 0.1),
        (150, 0.03, 0.05, 0.1),
    ],
)
def test_the_power_is_that_of_the_test_itself(n, mean, affected, deviation):
    drop = UnevenDrop(mean=mean, affected=affected)

    assert uneven_power(n, drop, deviation) == pytest.approx(found_share(n, drop, deviation), abs=0.07)


def test_of_many_items_it_is_that_of_the_mean_difference():
    drop = UnevenDrop(mean=0.01, affected=0.3)
    deviation = math.hypot(0.2, drop.size * math.sqrt(0.3 * 0.7))

    assert uneven_power(2_000, drop, 0.2) == pytest.approx(paired_power(2_000, 0.01, deviation), abs=0.02)


def test_the_fewer_items_take_a_drop_the_harder_it_is_to_see():
    powers = [
        uneven_power(60, UnevenDrop(mean=0.03, affected=share), 0.08) for share in (1.0, 0.5, 0.1, 0.05)
    ]

    assert powers == sorted(powers, reverse=True)
    assert powers[0] > powers[-1] + 0.4


def test_five_items_that_fall_alone_are_too_few():
    # Six one-way changes have p = 1/32, five 1/16; that six of 60 fall is less likely than not with 8 %.
    assert uneven_power(5, UnevenDrop(mean=0.3, affected=1.0), 0.0) == 0.0
    assert uneven_power(6, UnevenDrop(mean=0.3, affected=1.0), 0.0) == 1.0
    chance = sum(math.comb(60, k) * 0.08**k * 0.92 ** (60 - k) for k in range(6, 61))
    assert uneven_power(60, UnevenDrop(mean=0.02, affected=0.08), 0.0) == pytest.approx(chance, abs=0.01)


def test_the_power_depends_on_the_seed_only_a_little():
    drop = UnevenDrop(mean=0.03, affected=0.1)

    found = {uneven_power(80, drop, 0.08, seed=seed) for seed in range(5)}

    assert max(found) - min(found) < 0.04
    assert uneven_power(80, drop, 0.08) == uneven_power(80, drop, 0.08)
