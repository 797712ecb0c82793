import json
import random
from pathlib import Path
from statistics import fmean, pvariance

import pytest
from scipy import stats

from dokimos.stats.paired import mean_estimate
from dokimos.stats.ppi import JudgedSample, ppi_difference, ppi_mean, ppi_paired_difference

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "ppi_golden.json").read_text())
Z_95 = stats.norm.ppf(0.975)


def sample_of(row):
    return JudgedSample(labels=row["labels"], judged=row["judged"], unlabelled=row["unlabelled"])


def judged(seed, few, many, *, rate=0.7, bias=0.1, noise=0.1):
    """Labels, and a judge who follows them with a bias."""
    draw = random.Random(seed)
    labels = [float(draw.random() < rate) for _ in range(few + many)]
    scores = [0.7 * label + bias + draw.gauss(0, noise) for label in labels]
    return JudgedSample(labels=labels[:few], judged=scores[:few], unlabelled=scores[few:])


@pytest.mark.parametrize("row", GOLDEN["cases"], ids=lambda row: f"{len(row['labels'])} labels")
def test_estimate_weight_and_error_are_those_of_ppi_python(row):
    found = ppi_mean(sample_of(row))
    errors = [y - found.weight * f for y, f in zip(row["labels"], row["judged"], strict=True)]
    of_judge = found.weight**2 * pvariance(row["unlabelled"]) / len(row["unlabelled"])
    error = (of_judge + pvariance(errors) / len(errors)) ** 0.5  # the package divides by n, not n - 1

    assert found.value == pytest.approx(row["expected"]["value"], abs=1e-12)
    assert found.value - Z_95 * error == pytest.approx(row["expected"]["low"], abs=1e-12)
    assert found.value + Z_95 * error == pytest.approx(row["expected"]["high"], abs=1e-12)
    assert found.standard_error == pytest.approx(error, rel=1 / len(row["labels"]))
    assert found.interval.high - found.value > Z_95 * error


def test_a_good_judge_is_worth_many_labels():
    sample = judged(1, 50, 2_000, noise=0.05)

    found, alone = ppi_mean(sample), mean_estimate(sample.labels)

    assert found.standard_error < alone.standard_error / 2
    assert found.weight > 0.9


def test_a_judge_who_guesses_does_no_harm():
    draw = random.Random(2)
    sample = judged(2, 50, 2_000)
    guesses = JudgedSample(
        labels=sample.labels,
        judged=[draw.random() for _ in range(50)],
        unlabelled=[draw.random() for _ in range(2_000)],
    )

    found, alone = ppi_mean(guesses), mean_estimate(sample.labels)

    assert found.weight < 0.2
    assert found.standard_error == pytest.approx(alone.standard_error, rel=0.03)


def test_a_bias_of_the_judge_does_not_move_the_estimate():
    plain, biased = judged(3, 60, 500, bias=0.0), judged(3, 60, 500, bias=0.25)

    assert fmean(biased.unlabelled) - fmean(plain.unlabelled) == pytest.approx(0.25)
    assert ppi_mean(biased).value == pytest.approx(ppi_mean(plain).value)


def test_a_judge_who_says_the_same_of_all_is_left_out():
    sample = JudgedSample(labels=[0.0, 1.0, 1.0], judged=[0.5] * 3, unlabelled=[0.5] * 9)

    found = ppi_mean(sample)

    assert (found.weight, found.value) == (0.0, pytest.approx(2 / 3))
    assert found.interval.low == pytest.approx(mean_estimate(sample.labels).interval.low)


def test_a_paired_difference_is_the_mean_of_the_differences():
    before, after = judged(4, 40, 300, rate=0.8), judged(5, 40, 300, rate=0.6)
    deltas = JudgedSample(
        labels=[b - a for a, b in zip(before.labels, after.labels, strict=True)],
        judged=[b - a for a, b in zip(before.judged, after.judged, strict=True)],
        unlabelled=[b - a for a, b in zip(before.unlabelled, after.unlabelled, strict=True)],
    )

    assert ppi_paired_difference(before, after) == ppi_mean(deltas)


def test_errors_of_two_sets_of_items_add_up():
    before, after = judged(6, 40, 300, rate=0.8), judged(7, 50, 200, rate=0.6)
    first, second = ppi_mean(before), ppi_mean(after)

    found = ppi_difference(before, after)

    assert found.value == pytest.approx(second.value - first.value)
    assert found.standard_error == pytest.approx((first.standard_error**2 + second.standard_error**2) ** 0.5)
    assert found.interval.low < -0.2 < found.interval.high


@pytest.mark.parametrize(("few", "many"), [(1, 50), (50, 1), (0, 0)])
def test_too_few_items_have_no_estimate(few, many):
    sample = judged(8, few, many)

    assert ppi_mean(sample) is None
    assert ppi_difference(sample, judged(9, 10, 10)) is None


def test_labels_without_a_difference_have_no_error():
    found = ppi_mean(JudgedSample(labels=[1.0] * 4, judged=[0.9] * 4, unlabelled=[0.9] * 9))

    assert (found.value, found.standard_error) == (1.0, 0.0)
