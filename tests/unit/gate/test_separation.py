"""Many items that part exactly between the two sides are not chance, whatever another item varies by."""

from collections import Counter
from dataclasses import replace
from itertools import combinations, product
from math import comb

import pytest

from dokimos.comparison import Snapshot
from dokimos.gate import GateConfig, GateStatus
from dokimos.gate._decision import decide
from dokimos.gate._gate import build_verdict
from dokimos.gate._gate import decide_and_confirm as decide_with_reruns
from dokimos.gate._separation import separation_of

ITEMS = 20
FLIPS = (1.0, 0.0, 1.0)


def with_flaky(fallen, *, low=0.0, repeats=3):
    """Repeats of both sides: the last item flips, and the first ones fall in all repeats."""
    before = [{"A": [1.0] * (ITEMS - 1) + [FLIPS[run % 3]]} for run in range(repeats)]
    now = [{"A": [low] * fallen + run["A"][fallen:]} for run in before]
    return before, now


def decide_on(runs, before, now, **options):
    sides = (Snapshot.of(runs(side, noisy=["A"])) for side in (before, now))
    return decide(*sides, GateConfig(**options))


@pytest.mark.parametrize("fallen", [2, 3, 5])
def test_items_that_fall_together_are_not_hidden_by_one_flaky_item(runs, fallen):
    decision = decide_on(runs, *with_flaky(fallen))

    assert decision.is_failing
    assert [drop.key for drop in decision.drops] == [f"q-{place}" for place in range(fallen)]
    (sentence,) = (text for text in decision.warnings if text.startswith("A: "))
    assert f"A: {fallen} of the {fallen} items whose repeats could part between the two sides did" in sentence
    assert "Chance does that to 1 in 20 of them (p = " in sentence
    verdict = build_verdict(decision, GateConfig(), name="x")
    assert verdict.status is GateStatus.FAIL
    assert sentence in verdict.message


def test_one_item_that_falls_beside_a_flaky_one_may_be_chance(runs):
    decision = decide_on(runs, *with_flaky(1))

    assert not decision.is_failing
    assert [drop.key for drop in decision.explained] == ["q-0"]


def test_more_repeats_make_a_single_item_sure(runs):
    assert decide_on(runs, *with_flaky(1, repeats=6)).is_failing


def test_two_repeats_on_each_side_are_enough_where_many_items_fall(runs):
    decision = decide_on(runs, *with_flaky(5, repeats=2))

    assert decision.is_failing
    assert len(decision.drops) == 5


def test_falls_up_to_the_margin_are_none(runs):
    decision = decide_on(runs, *with_flaky(5, low=0.85))

    assert not decision.is_failing
    assert decision.drops == decision.explained == ()


def test_items_that_part_upwards_speak_against_those_that_fall(runs):
    before, now = with_flaky(2)
    for run in before:
        run["A"][3:15] = [0.0] * 12
    for run in now:
        run["A"][3:15] = [1.0] * 12

    assert not decide_on(runs, before, now).is_failing


@pytest.mark.parametrize(("low", "fails"), [(0.8, True), (0.9, False)])
def test_the_direction_and_the_range_of_scores_are_known(runs, low, fails):
    before, now = (_on_a_scale(runs(side)) for side in with_flaky(5, low=low))

    assert decide(before, now, GateConfig()).is_failing is fails
    assert not decide(now, before, GateConfig()).is_failing


def _on_a_scale(result):
    """A side whose scores are 5 where they were the worst, and 1 where they were the best."""
    side = Snapshot.of(result)
    facts = replace(side.evaluators["A"], score_range=(1.0, 5.0), lower_is_better=True, deterministic=False)
    items = [
        replace(item, scores={"A": tuple(5 - 4 * one for one in item.scores["A"])}) for item in side.items
    ]
    return replace(side, items=tuple(items), evaluators={"A": facts})


@pytest.mark.parametrize(("again", "fails"), [(0.0, True), (1.0, False)])
def test_what_is_run_again_has_to_show_the_drops_too(runs, result, again, fails):
    sides = [Snapshot.of(runs(side, noisy=["A"])) for side in with_flaky(5)]

    decision = decide_with_reruns(
        *sides, GateConfig(), rerun=lambda examples: result({"A": [again] * len(examples)})
    )

    assert decision.is_failing is fails
    assert len(decision.cleared) == (0 if fails else 5)


def test_its_level_is_shared_by_all_evaluators(runs):
    names = [f"E{number}" for number in range(20)]
    before, now = with_flaky(2)
    sides = [
        [{**dict.fromkeys(names, run["A"][-1:] * ITEMS), "A": run["A"]} for run in side]
        for side in (before, now)
    ]

    decision = decide(*(Snapshot.of(runs(side, noisy=["A", *names])) for side in sides), GateConfig())

    assert not decision.is_failing
    assert len(decision.explained) == 2


@pytest.mark.parametrize("scores", [(0.9, 0.8, 0.3, 0.1), (1.0, 1.0, 0.0, 0.0), (1.0, 0.9, 0.9, 0.0)])
def test_its_p_value_is_how_often_chance_alone_does_as_much(scores):
    """All ways to deal the repeats of four items out to the two sides: as likely, if nothing changed."""
    deals = list(combinations(range(4), 2))
    sides = [([scores[i] for i in deal], [scores[i] for i in range(4) if i not in deal]) for deal in deals]

    found = Counter(separation_of("A", items, 0.15).p_value for items in product(sides, repeat=4))

    total = sum(found.values())
    for p in found:
        share = sum(count for other, count in found.items() if other <= p * (1 + 1e-12)) / total
        assert share == pytest.approx(p)


def test_items_with_fewer_repeats_make_it_more_careful_never_less():
    items = [([1.0] * 3, [0.0] * 3)] * 3

    alone, mixed = separation_of("A", items, 0.15), separation_of("A", [*items, ([1.0] * 2, [0.0])], 0.15)

    assert alone.p_value == pytest.approx(1 / comb(6, 3) ** 3)
    assert (mixed.ways, mixed.able, mixed.parted) == (3, 4, 4)


def test_single_runs_say_nothing():
    assert separation_of("A", [([1.0], [0.0])] * 9, 0.15).p_value == 1.0
    assert separation_of("A", [], 0.15).p_value == 1.0
    assert separation_of("A", [([], [0.0, 0.0]), ([1.0, 1.0], [])], 0.15).able == 0
