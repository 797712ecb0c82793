"""Planning: what a data set can see before it is run."""

import random

import pytest

from dokimos.comparison.diff import PASS_RATE
from dokimos.comparison.planning import Assumption, assumptions_of, plan
from dokimos.errors import ConfigurationError
from dokimos.stats.mcnemar import mcnemar_p


def test_more_items_see_smaller_drops():
    one = Assumption.of_verdicts(0.8, 0.2)

    drops = [plan([one], items=n, repeats=[1]).rows[0].detectable_drop for n in (50, 200, 1000)]

    assert drops == sorted(drops, reverse=True)
    assert drops[2] < 0.06 < drops[0]


def test_the_items_needed_see_the_drop_and_fewer_do_not():
    one = Assumption.of_verdicts(0.8, 0.2)
    needed = plan([one], items=None, drop=0.1, repeats=[1]).rows[0].items_needed

    assert plan([one], items=needed, repeats=[1]).rows[0].detectable_drop <= 0.1
    assert plan([one], items=needed * 3 // 4, repeats=[1]).rows[0].detectable_drop > 0.1


def test_the_planned_power_is_what_a_simulation_finds():
    one, n, drop = Assumption.of_verdicts(0.8, 0.3), 150, 0.1
    predicted = one.power(n, drop, 1, 0.05)
    draw = random.Random(7)
    flips = 0.3 * 0.8 * 0.2
    found = 0
    for _ in range(1500):
        worse = better = 0
        for _ in range(n):
            chance = draw.random()
            worse += chance < flips + drop
            better += flips + drop <= chance < 2 * flips + drop
        found += mcnemar_p(worse, better) < 0.05

    assert predicted == pytest.approx(found / 1500, abs=0.03)


def test_repeats_help_against_noise_only():
    noisy, stable = (Assumption.of_verdicts(0.8, share) for share in (0.9, 0.0))

    def needed(one):
        return [row.items_needed for row in plan([one], items=None, drop=0.1, repeats=[1, 3]).rows]

    assert needed(noisy)[1] < 0.6 * needed(noisy)[0]
    assert needed(stable)[1] == pytest.approx(needed(stable)[0], rel=0.1)


def test_the_noise_of_past_repeats_is_measured(runs):
    draw = random.Random(3)
    chances = [draw.betavariate(4, 1) for _ in range(400)]
    past = runs([{"A": [float(draw.random() < p) for p in chances]} for _ in range(3)])

    found = {one.name: one for one in assumptions_of(past)}

    assert found[PASS_RATE].measured
    # beta(4, 1): the share of the variance inside items is E[p(1-p)] / (mean (1 - mean)) = 5/6.
    assert found[PASS_RATE].noise_share == pytest.approx(5 / 6, abs=0.06)
    assert found["A"].verdicts


def test_without_repeats_the_noise_is_assumed_and_the_plan_says_so(result):
    found = assumptions_of(result({"Judge": [0.9, 0.5, 0.7, 0.8] * 5}), noise_share=0.4)
    planned = plan(found, items=20)

    assert [one.measured for one in found] == [False, False]
    assert found[1].noise_share == 0.4
    assert not found[1].verdicts
    assert any("an assumption" in note for note in planned.notes)


def test_metrics_share_alpha():
    one = Assumption.of_verdicts(0.8, 0.2)

    alone, shared = (plan([one], items=100, metrics=m, repeats=[1]) for m in (1, 10))

    assert shared.level < alone.level == pytest.approx(0.05)
    assert shared.rows[0].detectable_drop > alone.rows[0].detectable_drop


def test_a_pass_rate_below_the_drop_cannot_drop_by_it():
    assert Assumption.of_verdicts(0.04, 0.2).power(1000, 0.05, 1, 0.05) == 0.0


@pytest.mark.parametrize("wrong", [{"drop": 0}, {"power": 1}, {"alpha": 2}, {"items": 0}])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        plan([Assumption.of_verdicts(0.8, 0.2)], **{"items": 10, **wrong})


def test_nothing_to_plan_for_is_refused():
    with pytest.raises(ConfigurationError, match="nothing to plan"):
        plan([], items=10)
