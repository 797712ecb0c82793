"""Comparing evaluators with people."""

import asyncio
import random
from dataclasses import dataclass, replace

import numpy
import pytest
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.proportion import proportion_confint

from dokimos._core.example import Example
from dokimos._core.results import Score
from dokimos.errors import ConfigurationError, DatasetError, EvaluationError
from dokimos.evaluators import Calibration, LabelledVerdict
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._calibration import calibrate, calibrate_async
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.stats._corrected_rate import VerdictCounts, corrected_rate


@dataclass(frozen=True, kw_only=True)
class ReadsScore(Evaluator):
    """Takes the output for the score; an output that is not a number is an error."""

    threshold: float | None = 0.5

    def score(self, case):
        return Score(float(case.actual_output), f"It says {case.actual_output}.")


@dataclass(frozen=True, kw_only=True)
class ReadsBadness(ReadsScore):
    lower_is_better = True


@dataclass(frozen=True, kw_only=True)
class AsksForScore(JudgedEvaluator):
    threshold: float | None = 0.5

    async def judge_case(self, case, *, sample):
        return Score(float((await self.lm.complete(case.actual_output)).text), "")


def row(score, label, **given):
    return Example({"input": "?"}, actual_outputs={"output": str(score)}, metadata={"label": label}, **given)


def table(kept, missed, let_through, caught):
    """Rows by what people and judge say."""
    return [
        *[row(0.9, True)] * kept,
        *[row(0.1, True)] * missed,
        *[row(0.8, False)] * let_through,
        *[row(0.2, False)] * caught,
    ]


def test_the_confusion_matrix_counts_all_four_kinds():
    confusion = calibrate(ReadsScore(), table(20, 5, 3, 12)).confusion

    assert (confusion.passes_kept, confusion.passes_missed) == (20, 5)
    assert (confusion.fails_missed, confusion.fails_caught) == (3, 12)


def test_the_figures_are_those_of_statsmodels():
    found = calibrate(ReadsScore(), table(20, 5, 3, 12))

    assert found.n == 40
    assert found.agreement.value == 32 / 40
    oracle = proportion_confint(32, 40, method="wilson")
    assert (found.agreement.interval.low, found.agreement.interval.high) == pytest.approx(oracle)
    kappa = cohens_kappa(numpy.array([[20, 5], [3, 12]]), return_results=False)
    assert found.kappa.value == pytest.approx(kappa)
    assert found.kappa.interval.low < kappa < found.kappa.interval.high
    for estimate, share in ((found.sensitivity, (20, 25)), (found.specificity, (12, 15))):
        oracle = proportion_confint(*share, method="beta")
        assert estimate.value == share[0] / share[1]
        assert (estimate.interval.low, estimate.interval.high) == pytest.approx(oracle)


def test_alpha_of_two_raters_lies_near_their_kappa():
    found = calibrate(ReadsScore(), table(20, 5, 3, 12))

    assert found.alpha_level == "nominal"
    assert found.alpha.value == pytest.approx(found.kappa.value, abs=0.02)
    assert found.alpha.interval.low < found.alpha.value < found.alpha.interval.high


def test_graded_labels_are_compared_as_numbers():
    rows = [row(grade, grade) for grade in (0.0, 0.25, 0.75, 1.0) for _ in range(6)]

    found = calibrate(ReadsScore(), rows)

    assert (found.alpha_level, found.alpha.value) == ("interval", 1.0)
    assert found.confusion.passes_kept == found.confusion.fails_caught == 12


def test_the_best_threshold_is_found_and_checked_on_other_rows():
    rows = [row(0.85, True)] * 15 + [row(0.65, False)] * 15

    advice = calibrate(ReadsScore(), rows).best_threshold

    assert advice.threshold == pytest.approx(0.75)
    assert (advice.current, advice.balanced_accuracy, advice.cross_validated) == (0.5, 1.0, 1.0)


def test_a_threshold_on_noise_promises_nothing():
    draw = random.Random(7)
    rows = [row(draw.random(), n % 2 == 0) for n in range(200)]

    assert calibrate(ReadsScore(), rows, resamples=10).best_threshold.cross_validated < 0.6


def test_where_lower_is_better_a_low_score_is_a_pass():
    rows = [row(0.1, True)] * 12 + [row(0.3, False)] * 12

    found = calibrate(ReadsBadness(), rows)

    assert found.confusion.passes_kept == 12
    assert found.confusion.fails_missed == 12
    assert found.best_threshold.threshold == pytest.approx(0.2)
    assert found.lower_is_better


def test_errors_are_counted_apart():
    broken = [row("nothing", True, id="broken")]

    found = calibrate(ReadsScore(), [*table(10, 0, 0, 10), *broken])

    assert (found.n, found.agreement.value) == (20, 1.0)
    assert found.errors == (("broken", "ValueError: could not convert string to float: 'nothing'"),)
    assert "broken" in found.to_markdown()


def test_errors_that_leave_too_few_rows_are_an_error():
    rows = table(10, 0, 0, 5) + [row("nothing", False)] * 5

    with pytest.raises(EvaluationError, match=r"5 rows of 20 errored.*The first error: ValueError"):
        calibrate(ReadsScore(), rows)


@pytest.mark.parametrize(
    ("label", "passes"),
    [(True, True), (False, False), (1, True), (0.4, False), ("yes", True), (" Incorrect ", False)],
)
def test_labels_may_be_bools_numbers_and_words(label, passes):
    rows = [row(0.9, label), *table(10, 0, 0, 10)]

    assert calibrate(ReadsScore(), rows).rows[0].label is passes


def test_words_of_ones_own_replace_the_usual_ones():
    rows = [row(0.9, "On topic")] * 10 + [row(0.1, "off topic")] * 10

    found = calibrate(ReadsScore(), rows, words={"on topic": True, "off topic": 0.0})

    assert found.agreement.value == 1.0


def test_a_label_may_be_an_expected_output_under_any_key():
    rows = [
        Example({}, {"human": good}, actual_outputs={"output": "0.9" if good else "0.1"})
        for good in [True, False] * 10
    ]

    assert calibrate(ReadsScore(), rows, label_key="human").agreement.value == 1.0


@pytest.mark.parametrize("label", ["perhaps", 3, -0.1, float("nan"), [True]])
def test_an_unreadable_label_names_its_row(label):
    with pytest.raises(DatasetError, match=r"q7: the label .* is not a bool, a number in 0\.\.1 or"):
        calibrate(ReadsScore(), [*table(10, 0, 0, 10), row(0.9, label, id="q7")])


def test_a_row_without_a_label_is_refused():
    with pytest.raises(DatasetError, match="item-0 has no label: there is no 'human'"):
        calibrate(ReadsScore(), table(10, 0, 0, 10), label_key="human")


def test_a_row_without_an_output_is_refused():
    with pytest.raises(DatasetError, match="item-0 has no recorded output"):
        calibrate(ReadsScore(), [Example({"input": "?"}, metadata={"label": True})])


@pytest.mark.parametrize("rows", [[], table(9, 0, 0, 9), table(36, 0, 0, 4)])
def test_too_few_rows_are_refused_before_anything_is_judged(rows):
    judge_calls = []
    evaluator = AsksForScore(judge=lambda prompt: judge_calls.append(prompt) or prompt)

    with pytest.raises(ConfigurationError, match=r"needs at least 20 labelled rows with 5 of each label"):
        calibrate(evaluator, rows)

    assert judge_calls == []


def test_fewer_rows_may_be_asked_for():
    assert calibrate(ReadsScore(), table(3, 0, 0, 3), minimum=6, folds=3).n == 6


async def test_a_judge_is_asked_about_several_rows_at_once():
    waiting, most = 0, 0

    async def judge(prompt):
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        await asyncio.sleep(0.002)
        waiting -= 1
        return prompt

    found = await calibrate_async(AsksForScore(judge=judge), table(10, 0, 0, 10), parallelism=4)

    assert found.agreement.value == 1.0
    assert most == 4


def test_the_same_seed_gives_the_same_figures():
    rows = table(20, 5, 3, 12)

    figures = calibrate(ReadsScore(), rows, seed=3)
    assert calibrate(ReadsScore(), rows, seed=3) == figures
    assert calibrate(ReadsScore(), rows, seed=4).kappa != figures.kappa


def test_the_figures_belong_to_one_configuration():
    rows = table(10, 0, 0, 10)

    first, second = calibrate(ReadsScore(), rows), calibrate(ReadsScore(threshold=0.6), rows)

    assert first.fingerprint != second.fingerprint


def test_the_report_shows_figures_matrix_and_disagreements():
    rows = [*table(20, 5, 3, 12), row(0.9, False, id="a|b <script>")]

    text = calibrate(ReadsScore(name="Judge"), rows).to_markdown()

    assert text.startswith("# Judge against people\n\n41 labelled rows at the threshold 0.5.\n")
    assert "| Agreement | 78.0 % | 63.3 % to 88.0 % |" in text
    assert "| people pass | 20 | 5 |" in text
    assert "| people fail | 4 | 12 |" in text
    assert r"| a\|b \<script\> | fail | pass | 0.90 | It says 0.9. |" in text


def test_an_evaluator_without_a_threshold_is_cut_at_one_half():
    found = calibrate(ReadsScore(threshold=None), table(10, 0, 0, 10))

    assert (found.threshold, found.agreement.value) == (0.5, 1.0)


def rows_of(both, people_only, judge_only, neither):
    pairs = [
        *[(True, True)] * both,
        *[(True, False)] * people_only,
        *[(False, True)] * judge_only,
        *[(False, False)] * neither,
    ]
    return [LabelledVerdict.of(label, verdict) for label, verdict in pairs]


def test_verdicts_that_are_there_already_give_the_figures_that_judging_them_gives():
    judged = calibrate(ReadsBadness(), table(20, 5, 3, 12))

    found = Calibration.of(
        judged.rows,
        evaluator=judged.evaluator,
        fingerprint=judged.fingerprint,
        lower_is_better=True,
        metrics=judged.metrics,
    )

    assert found == judged


def test_a_row_of_two_verdicts_has_no_score():
    row = LabelledVerdict.of(label=True, verdict=False, key="q1")

    assert (row.grade, row.score, row.key, row.reason, row.agrees) == (1.0, None, "q1", "", False)
    assert LabelledVerdict.of(True, True, score=0.7, grade=0.9).score == 0.7


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "there are 0"),
        (rows_of(25, 0, 0, 0), "25 that people pass and 0 that they fail"),
        (rows_of(0, 0, 15, 10), "0 that people pass and 25 that they fail"),
        (rows_of(10, 0, 0, 9), "at least 20 labelled rows"),
        ([*rows_of(15, 0, 0, 15), (True, False)], "Row 31: it must be a LabelledVerdict"),
        ([*rows_of(15, 0, 0, 15), LabelledVerdict.of("yes", True)], "Row 31: label and verdict must be True"),
        ([*rows_of(15, 0, 0, 15), LabelledVerdict.of(True, None)], "Row 31: label and verdict must be True"),
        ([LabelledVerdict.of(True, True, grade=2), *rows_of(15, 0, 0, 15)], "Row 1: grade must be"),
        (
            [LabelledVerdict.of(True, True, score=float("nan")), *rows_of(15, 0, 0, 15)],
            "Row 1: score must be",
        ),
    ],
)
def test_rows_of_no_use_are_refused(rows, message):
    with pytest.raises(ConfigurationError, match=message):
        Calibration.of(rows)


def test_the_least_number_of_rows_may_be_set():
    assert Calibration.of(rows_of(3, 0, 0, 3), minimum=6, folds=2, resamples=100).n == 6


def test_the_pass_rate_of_people_is_reached_from_a_calibration():
    found = Calibration.of(rows_of(36, 2, 3, 9), confidence=0.9, resamples=100)

    rate = found.corrected_rate(judged_passed=380, judged=500)

    assert rate == corrected_rate(
        VerdictCounts(
            passed_both=36,
            passed_by_people_only=2,
            passed_by_judge_only=3,
            failed_both=9,
            judged_passed=380,
            judged=500,
        ),
        confidence=0.9,
    )


@pytest.mark.parametrize(("passed", "judged"), [(38, 500), (380, 380), (45, 40), (-1, 5)])
def test_judged_items_hold_those_with_a_label(passed, judged):
    found = Calibration.of(rows_of(36, 2, 3, 9), resamples=100)

    with pytest.raises(ConfigurationError, match="Include the labelled items in both counts"):
        found.corrected_rate(judged_passed=passed, judged=judged)


def test_a_calibration_on_another_scale_has_the_same_figures():
    scored = [(True, 0.9), (True, 0.7), (True, 0.3), (False, 0.2), (False, 0.6), (False, 0.0)] * 5
    plain = [LabelledVerdict.of(label, score >= 0.5, score=score, grade=0.75) for label, score in scored]
    stars = [replace(row, score=1 + 4 * row.score) for row in plain]

    found, scaled = Calibration.of(plain), Calibration.of(stars, threshold=3.0, score_range=(1, 5))

    assert scaled.alpha.value == pytest.approx(found.alpha.value)
    assert scaled.best_threshold.threshold == pytest.approx(1 + 4 * found.best_threshold.threshold)
    assert scaled.best_threshold.cross_validated == found.best_threshold.cross_validated


def test_an_evaluator_with_a_range_of_its_own_is_calibrated_on_it():
    @dataclass(frozen=True, kw_only=True)
    class ReadsStars(ReadsScore):
        score_range = (1, 5)
        threshold: float | None = None

    rows = [*[row(4.5, True)] * 12, *[row(1.5, False)] * 12]

    found = calibrate(ReadsStars(), rows, resamples=100)

    assert (found.threshold, found.agreement.value) == (3.0, 1.0)
    assert found.best_threshold.threshold == 3.0


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("score_range", [None, (1, 5)])
def test_verdicts_without_scores_mean_the_same_where_lower_is_better(graded, score_range):
    labels = [(True, True)] * 15 + [(False, False)] * 14 + [(False, True)]
    rows = [
        LabelledVerdict.of(label, verdict, grade=(0.9 if label else 0.1) if graded else None)
        for label, verdict in labels
    ]
    higher = Calibration.of(rows)
    lower = Calibration.of(rows, lower_is_better=True, score_range=score_range)
    assert higher.alpha == lower.alpha
    assert higher.best_threshold.balanced_accuracy == lower.best_threshold.balanced_accuracy > 0.9
    assert higher.best_threshold.cross_validated == lower.best_threshold.cross_validated > 0.9
