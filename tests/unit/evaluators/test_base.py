from __future__ import annotations

import asyncio
import copy
import threading
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest.mock import MagicMock

import numpy
import pytest

from dokimos._core.results import EvalResult, Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError, UnusableOutputError
from dokimos.evaluators._base import Evaluator, ScoreLike
from dokimos.evaluators._function import FunctionEvaluator
from dokimos.evaluators._llm.g_eval import GEval
from dokimos.evaluators._nlp.embedding_similarity import EmbeddingSimilarity
from dokimos.evaluators._text import ExactMatch

CASE = EvalTestCase.of("question", "answer")


@dataclass(frozen=True, kw_only=True)
class Returns(Evaluator):
    """Gives what it was told to."""

    outcome: ScoreLike = 1.0

    def score(self, case: EvalTestCase) -> ScoreLike:
        return self.outcome


@dataclass(frozen=True, kw_only=True)
class Raises(Evaluator):
    """Raises what it was told to."""

    error: Exception

    def score(self, case: EvalTestCase) -> float:
        raise self.error


@pytest.mark.parametrize(
    ("outcome", "threshold", "score", "success"),
    [
        (0.5, 0.5, 0.5, True),
        (0.49, 0.5, 0.49, False),
        (0.5, None, 0.5, None),
        (1, 1.0, 1.0, True),
        (True, None, 1.0, True),
        (False, 0.0, 0.0, False),
        (Score(0.7, "because"), 0.6, 0.7, True),
    ],
)
def test_the_threshold_decides_unless_a_bool_does(outcome, threshold, score, success):
    result = Returns(outcome=outcome, threshold=threshold).evaluate(CASE)
    assert (result.score, result.success, result.threshold) == (score, success, threshold)


class Tensor:
    """A scalar as PyTorch and JAX have them: neither a number of Python nor registered as one."""

    dtype = "float32"

    def __init__(self, *values):
        self.values = values

    def item(self):
        (value,) = self.values
        return value


@pytest.mark.parametrize(
    ("outcome", "score", "success"),
    [
        (numpy.float32(0.5), 0.5, True),
        (numpy.float16(0.25), 0.25, False),
        (numpy.float64(0.5), 0.5, True),
        (numpy.longdouble(0.5), 0.5, True),
        (numpy.int64(1), 1.0, True),
        (numpy.uint8(0), 0.0, False),
        (numpy.bool_(True), 1.0, True),
        (numpy.bool_(False), 0.0, False),
        (numpy.array(0.5), 0.5, True),
        (numpy.array([0.5]), 0.5, True),
        (Tensor(0.5), 0.5, True),
        (Tensor(False), 0.0, False),
        (Decimal("0.5"), 0.5, True),
        (Fraction(1, 4), 0.25, False),
        (Score(numpy.float32(0.5), "because"), 0.5, True),
        (Score(Decimal("0.25")), 0.25, False),
    ],
)
def test_numbers_and_booleans_of_other_libraries_are_scores(outcome, score, success):
    for given in (outcome, {"key": outcome}):
        result = Returns(outcome=given, threshold=0.5).evaluate(CASE)
        if isinstance(given, dict):
            result = result.part("key")
        assert (result.score, result.success, result.error) == (score, success, None)
        assert (type(result.score), type(result.success)) == (float, bool)


def test_a_boolean_of_another_library_decides_whatever_the_threshold():
    assert Returns(outcome=numpy.bool_(False), threshold=0.0).evaluate(CASE).success is False
    assert Returns(outcome=numpy.bool_(True)).evaluate(CASE).success is True


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (numpy.float32("nan"), "a score of nan, which is not in 0..1. NaN comes of 0/0"),
        (Decimal("sNaN"), "which is not in 0..1. NaN comes of 0/0"),
        (numpy.float32("inf"), "which is not in 0..1."),
        (Decimal("1.5"), "which is not in 0..1."),
        (Fraction(10**400), "too large for a float"),
        (numpy.array([0.5, 0.5]), "must return a Score, a number or a bool"),
        (Tensor(0.5, 0.5), "must return a Score, a number or a bool"),
        (Tensor("0.5"), "must return a Score, a number or a bool"),
        (0.5 + 0j, "not complex"),
        (numpy.complex64(0.5), "must return a Score, a number or a bool"),
        (numpy.str_("0.5"), "must return a Score, a number or a bool"),
        (MagicMock(), "not MagicMock"),
        (Score(MagicMock()), "not MagicMock"),
    ],
)
def test_what_is_not_one_number_is_an_error_and_never_a_score(outcome, error):
    result = Returns(outcome=outcome).evaluate(CASE)

    assert (result.score, result.success) == (None, None)
    assert error in result.error


def test_a_function_may_return_numbers_of_other_libraries():
    def close(actual_output):
        return numpy.float32(0.25)

    def is_close(actual_output) -> numpy.bool_:
        return numpy.array([1.0]).all()

    case = EvalTestCase.of("question", "answer")
    assert FunctionEvaluator(function=close).evaluate(case).score == 0.25
    assert FunctionEvaluator(function=is_close).evaluate(case).success is True
    assert FunctionEvaluator(function=is_close).gives_verdicts


@pytest.mark.parametrize("outcome", [1.5, -0.1, float("nan"), float("inf"), None, "1", [1]])
def test_anything_but_a_finite_number_in_0_to_1_is_an_error(outcome):
    result = Returns(outcome=outcome).evaluate(CASE)
    assert result.score is None
    assert result.error


def test_what_is_raised_becomes_an_error_and_an_unusable_output_the_worst_score():
    errored = Raises(error=ValueError("boom")).evaluate(CASE)
    assert (errored.score, errored.error, errored.success) == (None, "ValueError: boom", None)
    worst = Raises(error=UnusableOutputError("not a number"), threshold=0.5).evaluate(CASE)
    assert (worst.score, worst.success, worst.reason, worst.error) == (0.0, False, "not a number", None)


def test_an_error_can_be_told_only_to_warn():
    assert Raises(error=ValueError("boom"), fail_on_error=False).evaluate(CASE).fails_item is False
    assert Raises(error=ValueError("boom")).evaluate(CASE).fails_item is True


def test_lower_can_be_better():
    @dataclass(frozen=True, kw_only=True)
    class Noise(Evaluator):
        """Less is better."""

        lower_is_better = True
        threshold: float | None = 0.3

        def score(self, case: EvalTestCase) -> float:
            return 0.2

    assert Noise().evaluate(CASE).success is True
    assert Noise(threshold=0.1).evaluate(CASE).success is False


async def test_a_blocking_score_runs_in_a_thread():
    @dataclass(frozen=True, kw_only=True)
    class Blocking(Evaluator):
        """Waits."""

        blocking = True

        def score(self, case: EvalTestCase) -> bool:
            return threading.current_thread() is not threading.main_thread()

    assert (await Blocking().evaluate_async(CASE)).success is True


async def test_an_async_score_works_from_both_sides():
    @dataclass(frozen=True, kw_only=True)
    class Waits(Evaluator):
        """Waits."""

        async def score(self, case: EvalTestCase) -> float:
            await asyncio.sleep(0)
            return 0.25

    assert (await Waits().evaluate_async(CASE)).score == 0.25
    assert Waits().evaluate(CASE).score == 0.25


def test_names_come_from_the_class_unless_given():
    assert ExactMatch().name == "Exact Match"
    assert Returns().name == "Returns"
    assert Returns(name="Mine").evaluate(CASE).name == "Mine"


def test_required_parts_can_be_chosen():
    strict = Returns(evaluation_params=["input", "outputs.context"])
    assert strict.evaluation_params == ("input", "outputs.context")
    assert "'context' in the outputs" in (strict.evaluate(CASE).error or "")


@pytest.mark.parametrize("params", [[], ["output"], ["outputs."], ["answer"], ["inputs.x", "nope.y"]])
def test_wrong_evaluation_params_are_refused(params):
    with pytest.raises(ConfigurationError, match="evaluation"):
        Returns(evaluation_params=params)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_out_of_range_is_refused(threshold):
    with pytest.raises(ConfigurationError, match=r"threshold must be in 0\.\.1"):
        Returns(threshold=threshold)


def test_a_forgotten_decorator_is_explained():
    class Forgotten(Evaluator):
        def score(self, case: EvalTestCase) -> bool:
            return True

    with pytest.raises(TypeError, match="needs the decorator @dataclass"):
        Forgotten()


def test_info_changes_with_the_configuration_only():
    assert Returns().info() == Returns().info()
    assert Returns().info().fingerprint == Returns(name="Other").info().fingerprint
    assert Returns().info().fingerprint != Returns(outcome=0.5).info().fingerprint
    assert Returns(outcome=0.5).info().parameters == {"outcome": 0.5}


@dataclass(frozen=True, kw_only=True)
class GivesAResult(Evaluator):
    def score(self, case: EvalTestCase) -> Any:
        return EvalResult.of("Mine", 0.8, 0.5, "It's good")


def test_a_score_that_is_a_result_is_refused_with_the_line_to_write():
    line = 'return Score(0.8, "It\'s good")'
    assert line in GivesAResult().evaluate(CASE).error
    made = FunctionEvaluator(function=lambda case: EvalResult.of("Mine", 0.8, 0.5, "It's good"))
    assert line in made.evaluate(CASE).error


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ExactMatch(treshold=0.5), "ExactMatch has no setting 'treshold'. Did you mean 'threshold'?"),
        (lambda: ExactMatch(colour="red"), "ExactMatch has no setting 'colour'. It has: name, "),
        (
            lambda: GEval(criteria="Good."),
            "GEval needs 'judge', such as judge='openai:gpt-5-mini'.",
        ),
        (lambda: GEval(), "judge"),
        (lambda: EmbeddingSimilarity(name="x"), "EmbeddingSimilarity needs 'embedder', such as embedder="),
    ],
)
def test_a_setting_that_does_not_exist_or_is_missing_is_a_type_error_that_says_so(make, message):
    with pytest.raises(TypeError) as caught:
        make()
    assert message in str(caught.value)


def test_evaluators_with_a_constructor_of_their_own_take_what_it_takes():
    @dataclass(frozen=True, init=False)
    class Own(Evaluator):
        limit: int

        def __init__(self, most: int, **more: object) -> None:
            object.__setattr__(self, "limit", most)
            super().__init__()

        def score(self, case):
            return 1.0

    assert Own(most=3, other=4).limit == 3
    assert copy.copy(Own(3)).limit == 3


def test_a_part_that_no_case_has_is_said_to_be_a_fault_of_requires():
    @dataclass(frozen=True, kw_only=True)
    class Misspelt(Evaluator):
        requires = ("actual_outputt",)

        def score(self, case: EvalTestCase) -> float:
            return 1.0

    result = Misspelt().evaluate(EvalTestCase({"input": "a"}, {"output": "b"}))

    assert "`requires` names 'actual_outputt', which is not a part of a case" in result.error
    assert "Did you mean 'actual_output'?" in result.error
