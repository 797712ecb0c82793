"""What repeats of an unchanged system say about its gate."""

import itertools
import random
from dataclasses import replace

import pytest

from dokimos.comparison._snapshot import Snapshot
from dokimos.errors import ConfigurationError
from dokimos.gate import GateConfig
from dokimos.gate._decision import Guard, decide
from dokimos.gate._noise_report import noise


def noisy_runs(runs, spread, *, count=4, items=12, seed=1, **options):
    draw = random.Random(seed)
    return runs(
        [{"Judge": [min(1.0, 0.7 + draw.uniform(0, spread)) for _ in range(items)]} for _ in range(count)],
        noisy=["Judge"],
        **options,
    )


def test_a_deterministic_system_makes_no_noise(runs):
    report = noise(runs([{"Match": [1, 0, 1, 1]}] * 4))

    assert report.guard1_rate == 0.0
    assert [one.fire_rate for one in report.guard2] == [0.0, 0.0]
    assert report.margin == 0.15
    assert report.repeats == 1
    assert report.pass_flips == 0.0


def test_small_noise_stays_below_the_margin_and_large_noise_does_not(runs):
    small, large = noise(noisy_runs(runs, 0.1)), noise(noisy_runs(runs, 0.3))

    assert small.guard2[0].fire_rate == 0.0
    assert large.guard2[0].fire_rate > 0.8
    assert small.guard1_rate <= 0.1
    assert large.guard1_rate <= 0.1


def test_the_proposed_margin_holds_alpha_on_fresh_runs(runs):
    proposed = noise(noisy_runs(runs, 0.25, count=6, items=30)).margin

    again = noise(
        noisy_runs(runs, 0.25, count=6, items=30, seed=2), config=GateConfig(severity_margin=proposed)
    )

    assert 0.15 < proposed < 0.30
    assert again.guard2[0].fire_rate <= 0.15


def test_more_repeats_need_a_smaller_margin(runs):
    report = noise(noisy_runs(runs, 0.25, count=8))

    margins = [one.margin for one in report.guard2]
    assert [one.repeats for one in report.guard2] == [1, 2, 3, 4]
    assert margins == sorted(margins, reverse=True)
    assert margins[3] < margins[0]
    assert report.repeats > 1


def test_running_again_to_confirm_fires_less(runs):
    report = noise(noisy_runs(runs, 0.3, count=5))

    assert report.confirmed_rate < report.guard2[0].fire_rate
    assert noise(noisy_runs(runs, 0.3, count=4)).confirmed_rate is None


def test_noise_of_the_evaluator_is_told_from_noise_of_the_answers(runs):
    alike = noise(noisy_runs(runs, 0.2)).evaluators[0]

    assert (alike.name, alike.unstable_items, alike.unstable_scorings, alike.items) == ("Judge", 12, 12, 12)
    assert alike.deviation == pytest.approx(0.2 / 12**0.5, abs=0.03)


def test_verdicts_that_flip_are_counted(runs):
    assert noise(runs([{"A": [1, 1, 0, 0]}, {"A": [0, 1, 0, 0]}])).pass_flips == 0.25


def test_the_report_as_json_has_a_proposal(runs):
    tree = noise(noisy_runs(runs, 0.3)).tree()

    assert tree["proposed"]["severityMargin"] > 0.15
    assert [one["repeats"] for one in tree["guard2"]] == [1, 2]


def result_of(joined, *several, evaluators=("Match",)):
    """A result of several runs of given items."""
    made = [joined(*items, evaluators=evaluators) for items in several]
    runs = tuple(replace(one.runs[0], index=index) for index, one in enumerate(made))
    return replace(made[0], runs=runs)


def test_an_error_makes_guard_2_fire_as_it_does_in_the_gate(joined, item):
    """One item of two runs, of which one errors: the other way round the baseline has no score."""
    scored = item(0, {"Match": 0.9})
    report = noise(result_of(joined, [scored], [item(0, {}, errors={"Match": "judge down"})]))

    assert report.guard2[0].fire_rate == report.guard2[0].error_rate == pytest.approx(0.5, abs=0.1)
    assert report.guard2[0].margin == 0.0
    assert (report.margin, report.errored) == (0.15, 1)


def test_an_error_of_the_task_counts_once_for_all_evaluators(joined, item):
    scored = item(0, {"Match": 0.9, "Other": 0.8})
    report = noise(
        result_of(joined, [scored], [item(0, {}, error="task down")], evaluators=("Match", "Other"))
    )

    assert report.guard2[0].error_rate == pytest.approx(0.5, abs=0.1)


def test_a_score_that_is_missing_without_an_error_is_no_drop(joined, item):
    report = noise(result_of(joined, [item(0, {"Match": 0.9})], [item(0, {})]))

    assert report.guard2[0].fire_rate == 0.0


def test_the_rates_are_those_of_the_gate_over_all_ways_to_deal_the_runs(joined, item):
    draw = random.Random(5)
    several = [
        [
            item(i, {}, errors={"Match": "judge down"})
            if draw.random() < 0.1
            else item(i, {"Match": draw.choice([0.6, 0.75, 0.9])})
            for i in range(3)
        ]
        for _ in range(3)
    ]
    fired = []
    for ways in itertools.product(itertools.permutations(range(3), 2), repeat=3):
        before, now = (joined(*(several[way[side]][i] for i, way in enumerate(ways))) for side in (0, 1))
        found = decide(Snapshot.of(before), Snapshot.of(now), GateConfig())
        fired.append(any(one.guard is Guard.SEVERITY for one in found.findings))

    report = noise(result_of(joined, *several))

    assert 0.2 < sum(fired) / len(fired) < 0.95
    assert report.guard2[0].fire_rate == pytest.approx(sum(fired) / len(fired), abs=0.06)


def test_a_drop_as_large_as_the_margin_needs_no_larger_one(runs):
    report = noise(runs([{"A": [0.9, 0.9]}, {"A": [0.75, 0.75]}]))

    assert report.guard2[0].fire_rate == 0.0
    assert (report.guard2[0].margin, report.margin, report.repeats) == (0.15, 0.15, 1)


def test_one_run_makes_no_noise_to_measure(result):
    with pytest.raises(ConfigurationError, match="at least two runs"):
        noise(result({"A": [1, 0]}))
