from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from dokimos._core.metrics import CallMetrics
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._function import FunctionEvaluator, evaluator

CASE = EvalTestCase(
    {"input": "2+2"},
    {"output": 4, "context": ["arithmetic"], "toolCalls": [{"name": "add"}]},
    expected_outputs={"output": "4"},
    metadata={"topic": "sums"},
    metrics=CallMetrics(3, 1),
)


def test_a_decorated_function_is_an_evaluator_and_still_a_function():
    @evaluator
    def is_short(actual_output: str) -> bool:
        return len(actual_output) < 5

    assert isinstance(is_short, Evaluator)
    assert is_short.name == "Is Short"
    assert is_short("abc") is True
    result = is_short.evaluate(CASE)
    assert (result.name, result.score, result.success) == ("Is Short", 1.0, True)


def test_the_decorator_takes_settings():
    @evaluator(name="Noise", threshold=0.2, lower_is_better=True, deterministic=False)
    def noise(output: Any) -> float:
        return 0.1

    result = noise.evaluate(CASE)
    assert (result.name, result.threshold, result.success) == ("Noise", 0.2, True)
    assert (noise.info().direction, noise.info().deterministic) == ("lower_is_better", False)


def test_parameters_are_filled_in_by_name():
    seen: dict[str, Any] = {}

    @evaluator
    def record(
        case, input, actual_output, expected_output, output, expected, inputs, outputs,
        expected_outputs, metadata, context, tool_calls, metrics,
    ) -> bool:  # fmt: skip
        seen.update(locals())
        return True

    assert record.evaluate(CASE).success is True
    assert seen["case"] == CASE
    assert (seen["input"], seen["actual_output"], seen["output"]) == ("2+2", "4", 4)
    assert (seen["expected_output"], seen["expected"]) == ("4", "4")
    assert (seen["inputs"], seen["metadata"]) == ({"input": "2+2"}, {"topic": "sums"})
    assert (seen["context"], seen["tool_calls"][0].name) == (("arithmetic",), "add")
    assert seen["metrics"] == CASE.metrics


async def test_async_functions_are_awaited():
    @evaluator
    async def slow(case: EvalTestCase) -> Score:
        return Score(0.5, "half")

    assert slow.is_async
    result = await slow.evaluate_async(CASE)
    assert (result.score, result.reason) == (0.5, "half")
    assert slow.evaluate(CASE).score == 0.5


def test_an_object_with_an_async_call_and_a_partial_are_recognised():
    class Checker:
        async def __call__(self, output: Any) -> bool:
            return output == 4

    async def equals(output: Any, wanted: Any) -> bool:
        return bool(output == wanted)

    assert FunctionEvaluator(function=Checker()).evaluate(CASE).score == 1.0
    assert FunctionEvaluator(function=Checker()).name == "Checker"
    assert FunctionEvaluator(function=partial(equals, wanted=5)).evaluate(CASE).score == 0.0
    assert not FunctionEvaluator(function=lambda case: True).is_async


def test_a_named_part_that_is_absent_is_an_error_unless_it_has_a_default():
    @evaluator
    def strict(output: Any, expected: Any) -> bool:
        return True

    @evaluator
    def relaxed(output: Any, expected: Any = "fallback") -> bool:
        return bool(expected == "fallback")

    without = EvalTestCase.of("q", "answer")
    assert "requires an expected output" in (strict.evaluate(without).error or "")
    assert relaxed.evaluate(without).success is True


def test_an_absent_context_is_an_error():
    @evaluator
    def grounded(context: Any) -> bool:
        return True

    assert "requires contexts" in (grounded.evaluate(EvalTestCase()).error or "")


def test_what_is_required_can_be_said():
    @evaluator(requires=("metadata.topic",))
    def on_topic(case: EvalTestCase) -> bool:
        return True

    assert on_topic.evaluate(CASE).success is True
    assert "'topic' in the metadata" in (on_topic.evaluate(EvalTestCase()).error or "")


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ({"score": 1, "reason": "x"}, "Return Score(0.5, 'why') instead of a map"),
        (None, "without a return"),
        ("yes", "not str"),
        (1.5, "not in 0..1"),
        (float("nan"), "not in 0..1"),
    ],
)
def test_other_outcomes_are_errors_that_help(outcome, why):
    result = FunctionEvaluator(function=lambda case: outcome).evaluate(CASE)
    assert result.score is None
    assert why in (result.error or "")


def test_a_plain_function_that_gives_a_coroutine_is_explained():
    async def inner() -> bool:
        return True

    result = FunctionEvaluator(function=lambda case: inner()).evaluate(CASE)
    assert "async def" in (result.error or "")


def test_what_a_function_raises_becomes_an_error():
    def broken(case: EvalTestCase) -> bool:
        raise KeyError("x")

    assert FunctionEvaluator(function=broken).evaluate(CASE).error == "KeyError: 'x'"


def test_a_parameter_that_is_no_part_of_a_case_is_refused_with_the_nearest():
    with pytest.raises(ConfigurationError, match="'ouput'; did you mean 'output'"):

        @evaluator
        def typo(ouput: Any) -> bool:
            return True


@pytest.mark.parametrize("function", [lambda: True, lambda x, /: True, 5, "no_colon", "json:absent", int])
def test_other_functions_are_refused(function):
    with pytest.raises(ConfigurationError):
        FunctionEvaluator(function=function)


def test_a_function_may_be_named_by_its_place_and_keeps_what_its_decorator_said(tmp_path, monkeypatch):
    (tmp_path / "my_checks.py").write_text(
        "from dokimos.evaluators._function import evaluator\n"
        "def plain(output): return output == 4\n"
        "@evaluator(name='Decorated', threshold=0.3)\n"
        "def decorated(output): return 0.5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert FunctionEvaluator(function="my_checks:plain").evaluate(CASE).score == 1.0
    found = FunctionEvaluator(function="my_checks:decorated").evaluate(CASE)
    assert (found.name, found.threshold, found.success) == ("Decorated", 0.3, True)
    assert FunctionEvaluator(function="my_checks:decorated", threshold=0.9).evaluate(CASE).success is False


def test_blocking_functions_get_a_thread_of_their_own():
    import threading

    threads = []

    @evaluator(blocking=True)
    def waits(case: EvalTestCase) -> bool:
        threads.append(threading.current_thread())
        return True

    import asyncio

    assert asyncio.run(waits.evaluate_async(CASE)).success is True
    assert threads[0] is not threading.main_thread()


def test_the_configuration_names_the_function():
    assert FunctionEvaluator(function=_named).info().parameters["function"].endswith(":_named")


def _named(case: EvalTestCase) -> bool:
    return True
