from dataclasses import dataclass

import pytest

from dokimos import EvalTestCase, Example, ToolCall, evaluator
from dokimos.errors import EvaluationError, TypeConversionError


@dataclass(frozen=True)
class Movie:
    title: str


def test_the_short_form_fills_the_conventional_keys():
    case = EvalTestCase.of("q", "a", "e")

    assert (case.input, case.actual_output, case.expected_output) == ("q", "a", "e")
    assert EvalTestCase.of("q", "a").expected_output is None


def test_accessors_give_text_forms_and_typed_values():
    case = EvalTestCase.of(1, {"title": "Alien"}, ["x"])

    assert case.input == "1"
    assert case.actual_output == '{"title":"Alien"}'
    assert case.input_as(int) == 1
    assert case.actual_output_as(Movie) == Movie("Alien")
    assert case.expected_output_as(list[str]) == ["x"]
    assert case.metadata_as(str, "absent") is None


@pytest.mark.parametrize(
    ("accessor", "place"),
    [
        ("input_as", "input 'k'"),
        ("actual_output_as", "actual output 'k'"),
        ("expected_output_as", "expected output 'k'"),
        ("metadata_as", "metadata 'k'"),
    ],
)
def test_a_failed_conversion_says_where_the_value_was(accessor, place):
    parts = {"k": "text"}
    case = EvalTestCase(parts, parts, expected_outputs=parts, metadata=parts)

    with pytest.raises(TypeConversionError, match=f"Cannot convert {place} to Movie"):
        getattr(case, accessor)(Movie, "k")


def test_tool_calls_are_read_from_objects_and_maps():
    case = EvalTestCase(
        {}, {"toolCalls": [ToolCall("a"), {"name": "b", "arguments": {"x": 1}, "result": [1]}]}
    )

    assert case.tool_calls == (ToolCall("a"), ToolCall("b", {"x": 1}, result="[1]"))
    assert EvalTestCase().tool_calls is None
    assert EvalTestCase({}, {"toolCalls": []}).tool_calls == ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("search", "'toolCalls' must be a list of tool calls, not str"),
        ({"name": "a"}, "'toolCalls' must be a list of tool calls, not dict"),
        ([{"name": "a"}, "b"], r"toolCalls\[1\] must be a ToolCall or a map, not str"),
        (
            [{"arguments": {}}],
            r"toolCalls\[0\]: A tool call needs a name, under \"name\"; this one has .arguments.",
        ),
        ([{"name": 5}], r"toolCalls\[0\]: A tool call needs a name that is not blank, not 5"),
        (
            [{"name": "a", "arguments": [1]}],
            r"toolCalls\[0\]: The arguments of .* must be a mapping, not list",
        ),
    ],
)
def test_what_is_no_tool_call_is_an_error_that_says_which(value, message):
    with pytest.raises(EvaluationError, match=message):
        _ = EvalTestCase({}, {"toolCalls": value}).tool_calls


@dataclass
class Rubric:
    points: int


READERS = [
    ("input_as", {"inputs": {"k": {"points": 3}}}),
    ("actual_output_as", {"actual_outputs": {"k": {"points": 3}}}),
    ("expected_output_as", {"expected_outputs": {"k": {"points": 3}}}),
    ("metadata_as", {"metadata": {"k": {"points": 3}}}),
]


@pytest.mark.parametrize(("accessor", "parts"), READERS)
@pytest.mark.parametrize("arguments", [(Rubric, "k"), ("k", Rubric)])
def test_type_and_key_are_taken_in_either_order(accessor, parts, arguments):
    assert getattr(EvalTestCase(**parts), accessor)(*arguments) == Rubric(3)
    if accessor != "actual_output_as":
        example = Example(**parts)
        assert getattr(example, accessor)(*arguments) == Rubric(3)


def test_key_and_type_may_be_given_by_name():
    case = EvalTestCase(metadata={"rubric": [{"points": 3}]})
    assert case.metadata_as("rubric", list[Rubric]) == [Rubric(3)]
    assert case.metadata_as(key="rubric", target=list[Rubric]) == [Rubric(3)]
    assert case.metadata_as("absent", Rubric) is None


@pytest.mark.parametrize(
    ("accessor", "arguments"),
    [("actual_output_as", ("k",)), ("metadata_as", ("a", "b")), ("input_as", (Rubric, Rubric))],
)
def test_without_a_type_and_a_key_nothing_is_read(accessor, arguments):
    with pytest.raises(TypeError, match=rf"{accessor}\(\) takes a type and a key"):
        getattr(EvalTestCase({"k": 1}, {"k": 1}, metadata={"a": 1}), accessor)(*arguments)


def test_a_query_stands_in_for_the_input():
    case = Example({"query": "shoes"}).to_test_case("boots")
    assert (case.input, case.input_as(str)) == ("shoes", "shoes")
    assert Example({"query": "shoes", "input": "hats"}).input == "hats"
    assert Example({"query": ["shoes"]}).input_as(list) == ["shoes"]


def test_evaluators_that_need_an_input_take_a_query():
    @evaluator
    def about(input: str) -> bool:
        return input == "shoes"

    assert about.evaluate(EvalTestCase({"query": "shoes"})).score == 1.0
