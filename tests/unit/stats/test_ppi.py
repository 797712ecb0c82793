import json
import random
from pathlib import Path
from statistics import fmean, pvariance, variance

import pytest
from scipy import stats

from dokimos.stats._intervals import clopper_pearson_interval
from dokimos.stats._paired_estimates import mean_estimate, paired_rate_interval
from dokimos.stats._ppi import JudgedSample, ppi_difference, ppi_mean, ppi_paired_difference

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "ppi_golden.json").read_text())
Z_95 = stats.norm.ppf(0.975)


def as_score(value):
    """Verdicts as scores, so that they are treated like any mean; weights stay the same."""
    return 0.1 + 0.8 * value


def sample_of(row):
    return JudgedSample(
        labels=list(map(as_score, row["labels"])),
        judged=list(map(as_score, row["judged"])),
        unlabelled=list(map(as_score, row["unlabelled"])),
    )


def judged(seed, few, many, *, rate=0.7, bias=0.1, noise=0.1):
    """Labels, and a judge who follows them with a bias."""
    draw = random.Random(seed)
    labels = [float(draw.random() < rate) for _ in range(few + many)]
    scores = [0.7 * label + bias + draw.gauss(0, noise) for label in labels]
    return JudgedSample(labels=labels[:few], judged=scores[:few], unlabelled=scores[few:])


@pytest.mark.parametrize("row", GOLDEN["cases"], ids=lambda row: f"{len(row['labels'])} labels")
def test_estimate_weight_and_error_are_those_of_ppi_python(row):
    sample, expected = sample_of(row), row["expected"]
    found = ppi_mean(sample, folds=1)
    errors = [y - found.weight * f for y, f in zip(sample.labels, sample.judged, strict=True)]
    of_judge = found.weight**2 * pvariance(sample.unlabelled) / len(sample.unlabelled)
    error = (of_judge + pvariance(errors) / len(errors)) ** 0.5  # the package divides by n, not n - 1

    assert found.value == pytest.approx(as_score(expected["value"]), abs=1e-12)
    assert found.value - Z_95 * error == pytest.approx(as_score(expected["low"]), abs=1e-12)
    assert found.value + Z_95 * error == pytest.approx(as_score(expected["high"]), abs=1e-12)
    assert found.standard_error == pytest.approx(error, rel=1 / len(sample.labels))
    assert found.interval.high - found.value > Z_95 * error


def test_the_weight_of_each_label_comes_from_the_others():
    sample = JudgedSample(
        labels=[0.2, 0.9, 0.4, 0.7], judged=[0.1, 0.8, 0.5, 0.6], unlabelled=[0.3, 0.6, 0.5]
    )

    def weight(places):
        labels, judged = [sample.labels[at] for at in places], [sample.judged[at] for at in places]
        together = fmean(
            (y - fmean(labels)) * (f - fmean(judged)) for y, f in zip(labels, judged, strict=True)
        )
        spread = variance([*sample.judged, *sample.unlabelled])
        return min(1.0, together / ((1 + 4 / 3) * spread))

    others = [weight([at for at in range(4) if at != own]) for own in range(4)]

    assert ppi_mean(sample).weight == pytest.approx(fmean(others))


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
    sample = JudgedSample(labels=[0.1, 0.8, 0.9], judged=[0.5] * 3, unlabelled=[0.5] * 9)

    found = ppi_mean(sample)

    assert (found.weight, found.value) == (0.0, pytest.approx(0.6))
    assert found.interval.high == min(1.0, mean_estimate(sample.labels).interval.high)


def test_a_paired_difference_is_the_mean_of_the_differences():
    before = JudgedSample(labels=[0.9, 0.8, 0.7], judged=[0.9, 0.9, 0.6], unlabelled=[0.8, 0.7, 0.9])
    after = JudgedSample(labels=[0.5, 0.7, 0.5], judged=[0.4, 0.8, 0.5], unlabelled=[0.5, 0.6, 0.7])

    found = ppi_paired_difference(before, after)

    assert found.value == pytest.approx(-(0.4 + 0.1 + 0.2) / 3, abs=0.1)
    assert -1 <= found.interval.low < found.value < found.interval.high


def test_few_changes_of_verdicts_have_the_interval_of_the_labels():
    same = JudgedSample(labels=[1.0] * 20, judged=[0.9] * 20, unlabelled=[0.8, 0.9] * 50)

    found = ppi_paired_difference(same, same)

    own = paired_rate_interval(0, 0, 20)
    assert (found.value, found.interval) == (0.0, own)
    assert own.low < -0.1


def test_two_sets_of_items_add_up():
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


def verdicts(seed, few, many, *, rate, agreement=0.9):
    draw = random.Random(seed)
    labels = [float(draw.random() < rate) for _ in range(few + many)]
    judged = [label if draw.random() < agreement else 1 - label for label in labels]
    return JudgedSample(labels=labels[:few], judged=judged[:few], unlabelled=judged[few:])


@pytest.mark.parametrize("judge", [0.0, 0.9, 1.0])
def test_labels_that_all_pass_leave_room_for_failures(judge):
    found = ppi_mean(JudgedSample(labels=[1.0] * 20, judged=[judge] * 20, unlabelled=[judge] * 200))

    assert found.value == 1.0
    assert 0.8 < found.interval.low < 0.9
    assert found.interval.high == 1.0


def test_scores_that_are_all_the_same_leave_room_too():
    found = ppi_mean(JudgedSample(labels=[0.8] * 20, judged=[0.8] * 20, unlabelled=[0.8] * 200))

    assert found.interval.low < 0.7
    assert 0.8 < found.interval.high <= 1.0


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("few", [2, 20, 100])
def test_the_interval_of_verdicts_is_within_the_rates_there_are_and_never_wider_than_the_labels_own(
    few, rate
):
    for seed in range(20):
        sample = verdicts(seed, few, 200, rate=rate)
        found = ppi_mean(sample)
        scored = ppi_mean(
            JudgedSample(labels=sample.labels, judged=sample.judged, unlabelled=[0.5, 0.7] * 99)
        )
        own = clopper_pearson_interval(sum(sample.labels), few)

        for each in (found, scored):
            assert each.label_only == own
            assert 0 <= each.interval.low <= each.value <= each.interval.high <= 1
            assert each.interval.high - each.interval.low <= own.high - own.low


def test_a_judge_that_agrees_on_nine_of_ten_saves_a_fifth_of_the_width():
    narrowed = []
    for seed in range(40):
        found = ppi_mean(verdicts(seed, 50, 450, rate=0.7))
        own = found.label_only
        narrowed.append(1 - (found.interval.high - found.interval.low) / (own.high - own.low))

    assert fmean(narrowed) > 0.2


def test_scores_of_labels_that_are_all_the_same_are_never_certain():
    # Six times 0.4 has a mean beside 0.4 in binary, and so a spread of 1e-17.
    sample = JudgedSample(labels=[0.4] * 6, judged=[0.5] * 6, unlabelled=[0.5] * 40)

    found = ppi_mean(sample)

    assert found.interval.high - found.interval.low > 0.3


def test_a_skewed_judge_widens_the_interval_on_its_side():
    draw = random.Random(4)
    labels = [1.0 - 0.9 * (draw.random() < 0.1) * draw.random() for _ in range(60)]
    judged = [draw.random() for _ in range(500)]

    found = ppi_mean(JudgedSample(labels=labels, judged=judged[:60], unlabelled=judged[60:]))

    assert found.value - found.interval.low > 1.2 * (found.interval.high - found.value)
    assert 0 <= found.interval.low < found.interval.high <= 1
