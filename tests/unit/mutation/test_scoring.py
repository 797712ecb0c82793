"""What metrics notice: verdicts before and after a fault, and never an error."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dokimos import (
    Budget,
    Evaluator,
    Example,
    ExperimentResult,
    ItemResult,
    RunResult,
    Score,
)
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ExactMatch, LLMJudge, Regex, TokenF1
from dokimos.mutation import measure_mutation_score

ANSWERS = {"Price?": "It is 42 euros.", "Term?": "It is 30 days.", "Place?": "It is Rome."}


def recorded(answers=ANSWERS, *, expected=None, **options):
    items = tuple(
        ItemResult(
            index,
            Example.of(question, (expected or answers)[question], id=question),
            actual_outputs={"output": answer},
        )
        for index, (question, answer) in enumerate(answers.items())
    )
    return ExperimentResult(name="support", runs=(RunResult(item_results=items),), **options)


@dataclass(frozen=True, kw_only=True)
class Fails(Evaluator):
    """Raises for answers that hold a text, and passes all others."""

    threshold: float | None = 0.5
    text: str = ""

    def score(self, case):
        if self.text in case.actual_output:
            raise RuntimeError("out of order")
        return Score(1.0, "Fine.")


@dataclass(frozen=True, kw_only=True)
class Ratio(Evaluator):
    """The share of the expected length, capped."""

    threshold: float | None = 0.5

    def score(self, case):
        return Score(min(1.0, len(case.actual_output) / len(case.expected_output)), "Its length.")


def test_exact_match_notices_everything():
    report = measure_mutation_score(recorded(), ExactMatch())
    assert report.score == 1.0
    assert report.survivors == ()
    assert report.kind("wrong_number").mutants == 2
    assert report.kind("wrong_number").no_place == 1
    assert report.answers == 3


def test_a_metric_that_looks_at_one_thing_misses_the_rest():
    report = measure_mutation_score(recorded(), [Regex(pattern=r"\d+ (euros|days)|Rome", name="Unit")])
    assert report.kind("wrong_number").noticed == 0
    assert report.kind("empty").noticed == 3
    unit = report.metrics[0]
    assert (unit.name, unit.noticed["empty"], unit.tried["empty"]) == ("Unit", 3, 3)
    survivor = next(one for one in report.survivors if one.kind == "wrong_number")
    assert survivor.before in ANSWERS.values()
    assert survivor.after not in ANSWERS.values()
    assert survivor.expected == survivor.before


def test_a_score_that_drops_and_still_passes_is_not_noticed_but_counted():
    report = measure_mutation_score(recorded(), [Ratio(threshold=0.3)], kinds=["truncated", "empty"])
    truncated = report.kind("truncated")
    assert truncated.mutants == truncated.lowered_count + truncated.noticed
    assert truncated.lowered_count >= 1
    name, (before, after) = next(iter(report.survivors[0].lowered_scores.items()))
    assert name == "Ratio"
    assert before > after
    assert report.kind("empty").rate == 1.0


def test_answers_that_fail_as_they_are_have_no_mutants():
    report = measure_mutation_score(
        recorded(expected={**ANSWERS, "Price?": "something else"}), [ExactMatch()]
    )
    assert report.excluded.failed == 1
    assert report.answers == 2
    assert report.kind("empty").mutants == 2


def test_an_error_is_never_a_detection():
    metrics = [Fails(text="not")]  # of the negated answers, which hold it
    report = measure_mutation_score(recorded(), metrics, kinds=["negated", "empty"])
    negated = report.kind("negated")
    assert (negated.mutants, negated.noticed, negated.errors) == (0, 0, 3)
    assert negated.rate is None
    assert report.kind("empty").rate == 0.0


def test_an_error_beside_a_detection_does_not_take_it_away():
    report = measure_mutation_score(recorded(), [Fails(text="not"), ExactMatch()], kinds=["negated"])
    assert report.kind("negated").noticed == 3
    assert report.kind("negated").errors == 0
    assert [metric.name for metric in report.metrics] == ["Exact Match"]


def test_answers_on_which_a_metric_errors_are_counted():
    report = measure_mutation_score(recorded(), [Fails(text="Rome")], kinds=["empty"])
    assert report.excluded.errored == 1
    assert report.kind("empty").mutants == 2


def test_metrics_that_decide_nothing_notice_nothing():
    report = measure_mutation_score(recorded(), [TokenF1(threshold=None)], kinds=["empty"])
    assert report.excluded.without_verdict == 3
    assert report.score is None
    assert "No recorded answer passes as it is" in str(report)


def test_only_the_first_repeat_is_used():
    once = recorded()
    twice = ExperimentResult(
        name="support", runs=(once.runs[0], RunResult(index=1, item_results=once.item_results))
    )
    assert measure_mutation_score(twice, ExactMatch()) == measure_mutation_score(once, ExactMatch())


def test_evaluators_may_be_chosen_for_each_example():
    def choose(example):
        return [ExactMatch()] if example.id == "Price?" else [Regex(pattern=".", name="Any")]

    report = measure_mutation_score(recorded(), choose, kinds=["refusal"])
    assert {metric.name: metric.noticed_count for metric in report.metrics} == {"Exact Match": 1, "Any": 0}


def test_lower_scores_may_be_better():
    @dataclass(frozen=True, kw_only=True)
    class Missing(Evaluator):
        threshold: float | None = 0.9
        lower_is_better = True

        def score(self, case):
            return Score(0.5 * (case.actual_output != case.expected_output), "Missing.")

    report = measure_mutation_score(recorded(), [Missing()], kinds=["empty"])
    assert report.kind("empty").lowered_count == 3


def judge(prompt):
    judge.calls += 1
    passes = "It is" in prompt
    return f'{{"reason": "Because.", "score": {int(passes)}}}'


def test_judged_metrics_are_used_only_where_that_is_asked_for():
    judge.calls = 0
    metrics = [ExactMatch(), LLMJudge(criteria="An answer.", judge=judge, name="Judged")]
    report = measure_mutation_score(recorded(), metrics, kinds=["empty"])
    assert judge.calls == 0
    assert report.judged_excluded == ("Judged",)
    report = measure_mutation_score(recorded(), metrics, kinds=["empty"], judged=True, all_metrics=True)
    assert judge.calls == 6
    assert {metric.name: metric.tried_count for metric in report.metrics} == {"Exact Match": 3, "Judged": 3}


def test_a_judge_is_not_asked_about_what_a_free_metric_has_noticed(capsys):
    judge.calls = 0
    judged = LLMJudge(criteria="An answer.", judge=judge, name="Judged")
    metrics = [judged, Regex(pattern="42|30|Rome", name="Fact")]
    kinds = ["empty", "negated"]
    report = measure_mutation_score(recorded(), metrics, kinds=kinds, judged=True)
    # Three answers and the three negated ones, which keep their facts; not the three empty ones.
    assert judge.calls == 6
    [asked, free] = report.metrics
    assert (asked.name, free.name) == ("Judged", "Fact")
    assert asked.tried == {"negated": 3}
    assert asked.skipped == {"empty": 3}
    assert free.tried == {"negated": 3, "empty": 3}
    assert free.skipped == {}
    assert report.kind("empty").rate == 1.0
    report.print()
    text = capsys.readouterr().out
    assert "not asked" in text
    assert "--all-metrics" in text
    assert report.to_dict()["metrics"][0]["skipped"] == {"empty": 3}
    complete = measure_mutation_score(recorded(), metrics, kinds=kinds, judged=True, all_metrics=True)
    assert judge.calls == 6 + 9
    assert complete.total.noticed == report.total.noticed
    assert all(metric.skipped == {} for metric in complete.metrics)


def test_a_judge_that_was_asked_about_nothing_is_listed_without_a_share(capsys):
    judged = LLMJudge(criteria="An answer.", judge=judge, name="Judged")
    measure_mutation_score(recorded(), [judged, ExactMatch()], kinds=["empty"], judged=True).print()
    text = capsys.readouterr().out
    assert "Judged" in text
    assert "notices none" not in text


def test_a_judge_is_not_asked_about_answers_that_fail_without_it():
    judge.calls = 0
    metrics = [ExactMatch(), LLMJudge(criteria="An answer.", judge=judge, name="Judged")]
    expected = {**ANSWERS, "Price?": "It is 43 euros."}
    report = measure_mutation_score(recorded(expected=expected), metrics, kinds=["empty"], judged=True)
    assert report.excluded.failed == 1
    assert judge.calls == 2


def test_where_the_budget_ends_faults_that_are_free_to_notice_do_not_raise_the_score():
    judge.calls = 0
    judged = LLMJudge(criteria="An answer.", judge=judge, threshold=0.0, name="Judged")
    metrics = [judged, Regex(pattern="euros|Rome", name="Fact")]
    answers = {"a": "It is 1 euros.", "b": "It is Rome.", "c": "It is 3 euros.", "d": "It is 4 euros."}
    report = measure_mutation_score(
        recorded(answers), metrics, kinds=["negated", "empty"], judged=True, budget=Budget(max_calls=5),
        parallelism=1,
    )  # fmt: skip
    # Four answers and the first negated one; all that follows would be what Fact notices.
    assert judge.calls == 5
    assert (report.total.noticed, report.total.mutants, report.total.not_scored) == (0, 1, 7)


def test_one_budget_holds_for_answers_and_mutants():
    judge.calls = 0
    metrics = [LLMJudge(criteria="An answer.", judge=judge, threshold=0.0)]
    report = measure_mutation_score(
        recorded(), metrics, kinds=["empty"], judged=True, budget=Budget(max_calls=4), parallelism=1
    )
    assert judge.calls == 4
    assert report.kind("empty").mutants == 1
    assert report.kind("empty").not_scored == 2
    assert any("max_calls" in warning or "calls" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    ("result", "evaluators", "message"),
    [
        (ExperimentResult(name="empty"), ExactMatch(), "empty has no items"),
        (
            ExperimentResult(
                name="down", runs=(RunResult(item_results=(ItemResult(0, Example.of("a"), error="x"),)),)
            ),
            ExactMatch(),
            "all of its 1 items errored",
        ),
        (recorded(), [LLMJudge(criteria="Good.", judge=judge)], "All evaluators ask a model"),
        (recorded(), [], "at least one evaluator"),
    ],
)
def test_what_cannot_be_measured_is_refused(result, evaluators, message):
    with pytest.raises(ConfigurationError, match=message):
        measure_mutation_score(result, evaluators)


def test_a_suite_that_has_changed_is_named():
    with pytest.raises(ConfigurationError, match="'Price\\?' could not be chosen"):
        measure_mutation_score(recorded(), {"other": ()}.__getitem__)


def test_the_report_prints_the_faults_that_nobody_noticed(capsys):
    report = measure_mutation_score(recorded(), [Regex(pattern="It is", name="Start")])
    report.print(verbose=True)
    text = capsys.readouterr().out
    assert "mutation score" in text
    assert "Nobody noticed" in text
    assert "- It is 42 euros." in text
    tree = report.to_dict()
    assert tree["total"]["mutants"] == report.total.mutants
    assert len(tree["survivors"]) == report.total.survivor_count


def test_hostile_text_is_escaped_on_the_terminal(capsys):
    answers = {"a": "It is 5 \x1b[2J red"}
    measure_mutation_score(recorded(answers), [Regex(pattern="It", name="Start")]).print(verbose=True)
    assert "\x1b[2J" not in capsys.readouterr().out


def test_the_interval_of_all_kinds_is_one_over_answers():
    report = measure_mutation_score(recorded(), [ExactMatch()])
    assert report.total.rate == 1.0
    # Three answers, of which each has many mutants, tell no more than three.
    assert report.total.mutants > 12
    assert report.total.interval.low < 0.5
    assert report.kind("empty").interval.low == pytest.approx(0.4385, abs=1e-3)
    one = measure_mutation_score(recorded({"Price?": "It is 42 euros."}), [ExactMatch()])
    assert one.total.mutants > 3
    assert one.total.interval.low < 0.25
