"""Planning: what a data set can see before it is run."""

import math
import random
from dataclasses import replace

import pytest

from dokimos import compare_runs
from dokimos.comparison import ComparisonConfig
from dokimos.comparison._diff import PASS_RATE, Change
from dokimos.comparison._planning import Assumption, assumptions_of, plan
from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot, Snapshot
from dokimos.errors import ConfigurationError
from dokimos.stats._mcnemar import mcnemar_p


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


JUDGE = Assumption(name="Judge", mean=0.8, deviation=0.15, noise_share=0.15, measured=True, verdicts=False)


def compared_as_worse(n, repeats, size, fallen, *, times=150):
    """In how many comparisons a judge's scores are called worse where so many items fall by `size`."""
    draw, noise, found = random.Random(n + repeats), JUDGE.deviation * math.sqrt(JUDGE.noise_share), 0
    for seed in range(times):
        before, after = [], []
        for item in range(n):
            quality = draw.gauss(0.6, 0.1)
            before.append(tuple(quality + draw.gauss(0, noise) for _ in range(repeats)))
            drop = size if item < fallen else 0.0
            after.append(tuple(quality - drop + draw.gauss(0, noise) for _ in range(repeats)))
        config = ComparisonConfig(seed=seed, permutation_iterations=999)
        change = compare_runs(side(before), side(after), config=config).evaluator("Judge")
        found += change.change is Change.REGRESSED
    return found / times


def side(scores):
    items = tuple(ItemSnapshot(index=i, scores={"Judge": its}) for i, its in enumerate(scores))
    return Snapshot(items=items, evaluators={"Judge": EvaluatorFacts(name="Judge")}, runs=len(scores[0]))


def test_a_plan_that_hopes_for_an_even_drop_misses_an_uneven_one():
    # A tenth of 40 items falls by 0.30, with 3 runs: an even plan promises more than twice what is found.
    found = compared_as_worse(40, 3, 0.3, 4)

    assert JUDGE.power(40, 0.03, 3, 0.05, even=True) > 0.8
    assert found < 0.45
    assert JUDGE.power(40, 0.03, 3, 0.05) == pytest.approx(found, abs=0.12)


@pytest.mark.parametrize("repeats", [1, 3])
def test_the_items_that_a_plan_asks_for_find_an_uneven_drop(repeats):
    needed = plan([JUDGE], items=None, drop=0.03, repeats=[repeats]).rows[0].items_needed

    found = compared_as_worse(needed, repeats, 0.3, round(needed / 10))

    assert found > 0.75


def test_an_even_drop_needs_fewer_items_than_an_uneven_one():
    for row in plan([JUDGE], items=60, drop=0.03).rows:
        assert row.even_items_needed < row.items_needed
        assert row.even_detectable_drop < row.detectable_drop


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("verdicts", [False, True])
def test_more_repeats_never_need_more_items(noise, verdicts):
    one = replace(JUDGE, noise_share=noise, verdicts=verdicts)
    rows = plan([one], items=50, drop=0.06, repeats=[1, 2, 3, 5]).rows

    for column in ("items_needed", "even_items_needed", "detectable_drop", "even_detectable_drop"):
        values = [getattr(row, column) for row in rows if getattr(row, column) is not None]
        assert values == sorted(values, reverse=True)
        assert values


def test_fewer_than_six_items_show_nothing():
    # Six items that all fall are the fewest whose p-value, 1/32, is below 5 %.
    quiet = replace(JUDGE, noise_share=0.0)

    assert quiet.power(5, 0.2, 3, 0.05, even=True) == 0.0
    assert quiet.power(6, 0.2, 3, 0.05, even=True) == 1.0
    assert plan([quiet], items=5).rows[0].even_detectable_drop is None


def test_a_score_can_fall_no_further_than_its_room():
    low = replace(JUDGE, mean=0.04)
    kept_low = replace(low, lower_is_better=True)

    assert low.power(1000, 0.05, 1, 0.05) == 0.0
    assert kept_low.power(1000, 0.05, 1, 0.05) > 0.9
    # A drop of 0.2 of a mean of 0.25 cannot fall on a tenth of the items: four of five have to take it.
    assert replace(JUDGE, mean=0.25).power(40, 0.2, 1, 0.05) > JUDGE.power(40, 0.2, 1, 0.05)


def test_items_are_advised_before_repeats():
    planned = plan([JUDGE], items=None, drop=0.03)

    assert planned.items_needed(1) < 3 * planned.items_needed(3)
    assert f"{planned.items_needed(1)} items with 1 run" in planned.advice
    assert "items are worth more than repeats" in planned.advice


def test_repeats_are_advised_for_items_that_cannot_become_more():
    needed = plan([JUDGE], items=None, drop=0.03)
    at_hand = (needed.items_needed(1) + needed.items_needed(3)) // 2

    planned = plan([JUDGE], items=at_hand, drop=0.03, repeats=[1, 3])

    assert f"{at_hand} items show the drop with 3 runs" in planned.advice
    assert "Items are worth more than repeats" in planned.advice
    assert "do not show" in plan([JUDGE], items=20, drop=0.03).advice


def test_the_plan_of_several_metrics_is_that_of_the_worst():
    noisy = replace(JUDGE, name="Noisy", noise_share=0.9)
    planned = plan([JUDGE, noisy], items=None, drop=0.03, repeats=[1])

    assert planned.items_needed(1) == planned.rows_of("Noisy")[0].items_needed
    assert "a larger one" in plan([replace(JUDGE, mean=0.01)], items=None, drop=0.03).advice


@pytest.mark.parametrize("share", [0, -0.1, 1.5, "half", True, float("nan")])
def test_a_share_of_affected_items_that_is_none_is_refused(share):
    with pytest.raises(ConfigurationError, match="affected"):
        replace(JUDGE, affected=share)


def test_a_pass_rate_below_the_drop_cannot_drop_by_it():
    assert Assumption.of_verdicts(0.04, 0.2).power(1000, 0.05, 1, 0.05) == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"drop": 0},
        {"power": 1},
        {"alpha": 2},
        {"items": 0},
        {"repeats": (0,)},
        {"repeats": ()},
        {"metrics": 0},
    ],
)
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        plan([Assumption.of_verdicts(0.8, 0.2)], **{"items": 10, **wrong})


def test_nothing_to_plan_for_is_refused():
    with pytest.raises(ConfigurationError, match="nothing to plan"):
        plan([], items=10)


def test_one_item_is_spoken_of_as_one():
    assert "1 item does not show the drop" in plan([Assumption.of_verdicts(0.8, 0.2)], items=1).advice
