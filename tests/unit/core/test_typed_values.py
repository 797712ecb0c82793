"""Values of users' own types: generic classes, typed constructors, conversion of whole data sets."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace
from typing import Any

import pytest

from dokimos._core.agent import ToolCall
from dokimos._core.example import Example
from dokimos._core.fast_constructor import fast_factory
from dokimos._core.metrics import CallMetrics
from dokimos._core.task_result import TaskResult
from dokimos._core.test_case import EvalTestCase
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.errors import ConfigurationError, MissingInputError, TypeConversionError, UnknownSettingError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment, evaluate, evaluate_async
from dokimos.experiment._task import Task


@dataclass(frozen=True)
class Question:
    text: str


@pytest.mark.parametrize("kind", [Example, EvalTestCase, Evaluator, Dataset, DatasetStream, Task])
def test_generic_types_take_two_types(kind: Any):
    assert "str" in str(kind[str, int])


@pytest.mark.parametrize("kind", [Example, EvalTestCase, Evaluator, Dataset, DatasetStream])
def test_a_type_that_is_left_out_is_any(kind: Any):
    assert kind[Question].__args__[0] is Question


def test_more_types_than_there_are_is_an_error():
    with pytest.raises(TypeError, match="Too many"):
        Example[str, str, str]


def test_a_class_may_be_generic_in_one_of_the_types():
    @dataclass(frozen=True, kw_only=True)
    class Short(Evaluator[Any, str]):
        def score(self, case: EvalTestCase[Any, str]) -> bool:
            return len(case.output) < 5

    assert Short().evaluate(EvalTestCase.of("a", "b")).success is True
    assert pickle.loads(pickle.dumps(ExactMatch(name="x"))) == ExactMatch(name="x")


@pytest.mark.parametrize(
    "value", [Example[str, int].of("a", 1, id="x"), EvalTestCase.of("a", "b", "c", id="x"), Example()]
)
def test_generic_values_are_copied_pickled_and_replaced_as_before(value: Any):
    assert pickle.loads(pickle.dumps(value)) == copy.copy(value) == copy.deepcopy(value) == value
    assert replace(value, id="y").id == "y"
    assert not hasattr(value, "__dict__")
    with pytest.raises(AttributeError):
        value.id = "z"


def test_fast_constructors_make_the_same_values():
    make: Any = fast_factory(EvalTestCase)
    assert make({"input": "a"}, {"output": "b"}) == EvalTestCase.of("a", "b")
    assert type(make()) is EvalTestCase


@pytest.mark.parametrize(
    ("inputs", "value"),
    [
        ({"input": Question("a"), "lang": "en"}, Question("a")),
        ({"question": Question("a")}, Question("a")),
        ({"question": "a", "lang": "en"}, {"question": "a", "lang": "en"}),
        ({}, {}),
    ],
)
def test_the_input_value_is_what_a_task_of_one_parameter_gets(inputs: dict[str, Any], value: Any):
    assert Example(inputs).input_value == EvalTestCase(inputs).input_value == value


def test_output_and_expected_are_the_values_themselves():
    answer = Question("b")
    case = EvalTestCase.of("a", answer, answer)
    assert case.output is answer
    assert case.expected is answer
    assert EvalTestCase.of("a", None).output is None
    assert EvalTestCase.of("a", "b").expected is None
    assert Example.of("a").expected is None


def test_a_case_without_an_output_is_an_error_of_who_asks_for_it():
    with pytest.raises(MissingInputError, match=r"no 'output'; its outputs are \['answer'\]"):
        _ = EvalTestCase({}, {"answer": "b"}).output


def test_conventional_keys_have_their_python_spelling_where_values_are_made():
    calls = [ToolCall("lookup"), {"name": "book"}]
    case = EvalTestCase.of("a", "b", tool_calls=calls, contexts=("one", "two"), metadata={"k": 1}, id="x")
    assert case.actual_outputs == {"output": "b", "toolCalls": calls, "contexts": ["one", "two"]}
    assert [call.name for call in case.tool_calls or ()] == ["lookup", "book"]
    assert (case.contexts, case.metadata, case.id) == (("one", "two"), {"k": 1}, "x")

    result = TaskResult.of("b", tool_calls=iter(calls), contexts=[], metrics=CallMetrics(tokens_in=1))
    assert result.outputs == {"output": "b", "toolCalls": calls, "contexts": []}
    assert TaskResult.of({"answer": "b"}, error="E: x").outputs == {"answer": "b"}


@pytest.mark.parametrize("given", ["lookup", b"lookup", {"name": "lookup"}, 3])
@pytest.mark.parametrize("name", ["tool_calls", "contexts"])
def test_what_must_be_several_is_refused_as_one(name: str, given: Any):
    with pytest.raises(TypeError, match=f"{name} must be a list, not"):
        TaskResult.of("b", **{name: given})
    with pytest.raises(TypeError, match=f"{name} must be a list, not"):
        EvalTestCase.of("a", "b", **{name: given})


def test_calls_that_are_given_twice_are_refused():
    with pytest.raises(TypeError, match="'toolCalls' is among the outputs; give one of them"):
        TaskResult.of({"output": "b", "toolCalls": []}, tool_calls=[])


def test_a_whole_data_set_is_converted_to_types_of_ones_own():
    rows = Dataset(
        [Example({"input": {"text": "a"}}, {"output": {"text": "b"}, "n": 1}, id="x", metadata={"k": 1})]
    )
    (converted,) = rows.as_types(Question, Question)
    assert (converted.input_value, converted.expected) == (Question("a"), Question("b"))
    assert (converted.expected_outputs["n"], converted.id, converted.metadata) == (1, "x", {"k": 1})
    assert rows.as_types(Question)[0].expected == {"text": "b"}
    assert len(Dataset().as_types(Question)) == 0


def test_what_cannot_be_converted_names_its_example():
    rows = Dataset([Example.of({"text": "a"}, id="ok"), Example.of({"words": "b"}, id="q2")])
    with pytest.raises(TypeConversionError, match="Example 'q2': Cannot convert input"):
        rows.as_types(Question)


def test_a_setting_that_does_not_exist_is_a_type_error_that_names_the_nearest():
    parts: Any = ([Example.of("a", "a")], str, [ExactMatch()])
    for make in (evaluate, Experiment):
        with pytest.raises(
            UnknownSettingError, match=r"no option 'paralelism'\. Did you mean 'parallelism'"
        ) as caught:
            make(*parts, paralelism=4)
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, ConfigurationError)


async def test_the_async_twin_refuses_it_too():
    with pytest.raises(TypeError, match="Did you mean 'max_errors'"):
        await evaluate_async([Example.of("a", "a")], str, [ExactMatch()], max_error=1)
