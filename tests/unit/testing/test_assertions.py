"""Assertions on cases and results."""

from __future__ import annotations

import asyncio

import pytest

from dokimos import EvalTestCase, Example, Experiment, evaluator
from dokimos._core.results import EvalResult
from dokimos.errors import ConfigurationError, EvalAssertionError
from dokimos.evaluators import Contains, ExactMatch, FunctionEvaluator, Levenshtein, LLMJudge
from dokimos.testing import ItemRecorder, assert_eval, assert_scores
from dokimos.testing._recorder import set_current_recorder

CASE = EvalTestCase.of("How long?", "thirty days", "30 days")


def judge_of(score: float) -> LLMJudge:
    reply = f'{{"reason": "As asked.", "score": {score}}}'
    return LLMJudge(name="Right", criteria="Is it right?", threshold=0.8, judge=lambda prompt: reply)


@pytest.fixture
def recorder():
    made = ItemRecorder()
    set_current_recorder(made)
    yield made
    set_current_recorder(None)


def test_results_are_returned_where_all_pass():
    results = assert_eval(CASE, Contains(values=["days"]), [judge_of(0.9)])
    assert [(result.name, result.score) for result in results] == [("Contains", 1.0), ("Right", 0.9)]


def test_every_failing_evaluator_is_named_with_score_threshold_and_reason():
    with pytest.raises(EvalAssertionError) as failure:
        assert_eval(CASE, ExactMatch(), judge_of(0.65), Contains(values=["days"]))
    first, second, third, fourth = str(failure.value).splitlines()
    assert first == "Evaluation 'Exact Match' failed: score=0.00 (threshold=1.00)"
    assert second.startswith("  Reason: Expected '30 days', got 'thirty days'")
    assert (third, fourth) == (
        "Evaluation 'Right' failed: score=0.65 (threshold=0.80)",
        "  Reason: As asked.",
    )


def test_the_failure_is_an_assertion_error():
    with pytest.raises(AssertionError):
        assert_eval(CASE, ExactMatch())


def test_an_evaluator_that_errors_fails_the_assertion_as_an_error():
    broken = LLMJudge(criteria="Right?", judge=lambda prompt: "no idea")
    with pytest.raises(EvalAssertionError, match="Evaluation 'LLM Judge' errored: JudgeReplyError"):
        assert_eval(CASE, broken)


def test_an_error_that_only_warns_fails_the_assertion_where_no_verdict_stands_beside_it():
    soft = LLMJudge(criteria="Right?", judge=down, fail_on_error=False)

    with pytest.raises(EvalAssertionError, match=r"Evaluation 'LLM Judge' errored: .*the judge is down"):
        assert_eval(CASE, soft)
    with pytest.raises(EvalAssertionError, match="errored"):
        assert_eval(CASE, soft, Levenshtein(threshold=None))
    assert len(assert_eval(CASE, soft, judge_of(1.0))) == 2


def down(prompt: str) -> str:
    raise ConnectionError("the judge is down")


def test_an_evaluator_without_a_threshold_only_informs_beside_one_with_a_verdict():
    informational, _ = assert_eval(CASE, Levenshtein(threshold=None), judge_of(1.0))
    assert informational.success is None


def test_a_case_to_which_no_evaluator_applies_is_not_said_to_lack_a_threshold():
    def grounded(output):
        return {"grounded": None}

    inapplicable = FunctionEvaluator(function=grounded, name="facts", threshold=0.5)
    with pytest.raises(ConfigurationError, match=r"'facts.grounded' gave no score that has a threshold"):
        assert_eval(CASE, inapplicable)


def test_an_assertion_without_any_verdict_is_refused_instead_of_green():
    with pytest.raises(
        ConfigurationError, match=r"nothing to assert: 'Levenshtein' gave no verdict.*threshold="
    ):
        assert_eval(CASE, Levenshtein(threshold=None))


def test_async_evaluators_are_asserted_on_while_a_loop_is_running():
    async def test() -> tuple[EvalResult, ...]:
        return assert_eval(CASE, judge_of(1.0))

    assert asyncio.run(test())[0].score == 1.0


class LooksLikeOne:
    name = "Looks like one"
    threshold = 0.5

    def evaluate(self, case: EvalTestCase) -> EvalResult:
        return EvalResult.of(self.name, 1.0, self.threshold)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CASE,), "at least one evaluator"),
        ((CASE, []), "at least one evaluator"),
        ((CASE, ["exact_match"]), "takes evaluators, not 'exact_match'"),
        ((CASE, LooksLikeOne()), r"write .*class LooksLikeOne\(Evaluator\):"),
        ((CASE, [LooksLikeOne()]), r"class LooksLikeOne\(Evaluator\):"),
        (("text", ExactMatch()), "takes an EvalTestCase, not str"),
    ],
)
def test_wrong_arguments_say_what_is_wanted(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        assert_eval(*arguments)


def test_of_several_cases_the_last_is_recorded_which_is_the_one_that_failed(recorder):
    later = EvalTestCase({"input": "How much?"}, {"output": "10 EUR"}, expected_outputs={"output": "9 EUR"})
    recorder.actual_output("by hand", "note")
    assert_eval(EvalTestCase.of("How long?", "30 days", "30 days"), ExactMatch(), Contains(values=["days"]))
    with pytest.raises(EvalAssertionError):
        assert_eval(later, ExactMatch())

    item = recorder.item(index=0, id="here")

    assert (item.example.input, item.example.expected_output) == ("How much?", "9 EUR")
    assert item.actual_outputs == {"output": "10 EUR", "note": "by hand"}
    assert [(result.name, result.success) for result in item.eval_results] == [
        ("Exact Match", False),
        ("Contains", True),
    ]


def test_the_case_and_its_results_are_recorded(recorder):
    assert_eval(CASE, Contains(values=["days"]))
    item = recorder.item(index=3, id="here")
    assert (item.index, item.example.id, item.example.input) == (3, "here", "How long?")
    assert (item.actual_output, item.eval_results[0].name) == ("thirty days", "Contains")


def test_what_was_recorded_by_hand_stays(recorder):
    recorder.actual_output("by hand").actual_outputs({"context": ["c"]})
    assert_eval(CASE, Contains(values=["days"]))
    assert recorder.item(index=0, id="x").actual_outputs == {"output": "by hand", "context": ["c"]}


def result_of(*answers: str):
    data = [CASE, CASE, CASE, CASE]
    from dokimos import Example

    examples = [Example.of(f"q{i}", "a") for i in range(len(data))]
    replies = iter(answers)
    return Experiment(examples, lambda example: next(replies), [ExactMatch()]).run(journal=False)


def test_scores_that_are_reached_pass():
    result = result_of("a", "a", "a", "b")
    assert_scores(result, {"Exact Match": 0.75}, pass_rate=0.75)
    assert result.pass_rate == 0.75


def test_every_level_that_is_missed_is_named():
    with pytest.raises(EvalAssertionError) as failure:
        assert_scores(result_of("a", "a", "b", "b"), {"Exact Match": 0.8}, pass_rate=0.95)
    assert str(failure.value).splitlines() == [
        "pass rate 50.0 % is below 95.0 %",
        "Exact Match 0.5000 is below 0.8",
    ]


@pytest.mark.parametrize(
    ("scores", "rate", "message"),
    [
        (None, None, "needs scores to reach"),
        ({"Nope": 0.5}, None, "there is no evaluator 'Nope'; there are: Exact Match"),
        ({"Nope": 0.5, "Exact Match": 1.0}, 0.9, "'Nope'; .*; pass rate 75.0 % is below 90.0 %; Exact Match"),
        ({"Exact Match": 80}, None, "must be in 0..1, not 80"),
    ],
)
def test_levels_that_make_no_sense_are_refused(scores, rate, message):
    with pytest.raises(ConfigurationError, match=message):
        assert_scores(result_of("a", "a", "a", "b"), scores, pass_rate=rate)


def test_what_was_recorded_stays_as_it_was(recorder):
    words, case = ["a"], EvalTestCase({"input": "q"}, {"words": ["a"]})
    recorder.actual_output(words, "kept").eval_result(EvalResult("Words", 1.0, metadata={"words": words}))
    recorder.case(case, ())
    words.append("b")
    case.actual_outputs["words"].append("b")
    item = recorder.item(index=0, id="x")
    assert item.actual_outputs == {"words": ["a"], "kept": ["a"]}
    assert item.eval_results[0].metadata == {"words": ["a"]}


def test_the_summary_is_one_line_of_formulas():
    case = Example.of("q", "Canberra").to_test_case("Sydney")
    high = evaluator(name="Toxicity", threshold=0.2, lower_is_better=True)(lambda actual_output: 0.5)
    broken = evaluator(name="Tone", threshold=0.5)(lambda actual_output: 1 / 0)
    with pytest.raises(EvalAssertionError) as raised:
        assert_eval(case, ExactMatch(), high, broken)
    assert raised.value.summary == (
        "Exact Match 0.00 < 1.00; Toxicity 0.50 > 0.20; Tone errored: ZeroDivisionError: division by zero"
    )


def test_the_summary_of_an_error_made_by_hand_is_its_first_line():
    assert EvalAssertionError("one\ntwo").summary == "one"
