"""What repeats of an unchanged system say about its gate."""

import random

import pytest

from dokimos.errors import ConfigurationError
from dokimos.gate import GateConfig
from dokimos.gate.noise import noise


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

    assert (alike.name, alike.unstable_items, alike.own_doing, alike.items) == ("Judge", 12, 12, 12)
    assert alike.deviation == pytest.approx(0.2 / 12**0.5, abs=0.03)


def test_verdicts_that_flip_are_counted(runs):
    assert noise(runs([{"A": [1, 1, 0, 0]}, {"A": [0, 1, 0, 0]}])).pass_flips == 0.25


def test_the_report_as_json_has_a_proposal(runs):
    tree = noise(noisy_runs(runs, 0.3)).tree()

    assert tree["proposed"]["severityMargin"] > 0.15
    assert [one["repeats"] for one in tree["guard2"]] == [1, 2]


def test_one_run_makes_no_noise_to_measure(result):
    with pytest.raises(ConfigurationError, match="two runs or more"):
        noise(result({"A": [1, 0]}))
