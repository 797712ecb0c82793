from dataclasses import dataclass

import pytest

from dokimos import AgentTrace, Dataset, Example, ToolCall, ToolDefinition, evaluate
from dokimos.errors import EvaluationError, TypeConversionError
from dokimos.evaluators import ToolErrors


@dataclass(frozen=True)
class Weather:
    city: str
    degrees: int


@pytest.mark.parametrize("kind", [ToolCall, ToolDefinition])
@pytest.mark.parametrize("name", ["", "  \n", None, 5])
def test_a_name_is_required(kind, name):
    with pytest.raises(ValueError, match="needs a name that is not blank"):
        kind(name)


def test_arguments_are_copied():
    arguments = {"q": 1}
    call = ToolCall("search", arguments)

    arguments["q"] = 2

    assert call.arguments == {"q": 1}


@pytest.mark.parametrize("arguments", ["{}", [1], None, 3])
def test_arguments_are_a_mapping(arguments):
    with pytest.raises(ValueError, match="arguments of tool call 'a' must be a mapping"):
        ToolCall("a", arguments)


@pytest.mark.parametrize(
    ("result", "text"),
    [(None, None), ("plain", "plain"), ({"a": [1]}, '{"a":[1]}'), (0, "0"), (False, "false")],
)
def test_a_structured_result_becomes_compact_json(result, text):
    assert ToolCall.from_map({"name": "a", "result": result}).result == text


def test_a_map_may_leave_everything_but_the_name_out():
    assert ToolCall.from_map({"name": "a", "arguments": None, "metadata": None}) == ToolCall("a")


@pytest.mark.parametrize(("value", "text"), [(None, "null"), ("a", '"a"'), ({"b": "ä"}, '{"b":"ä"}')])
def test_result_json(value, text):
    assert ToolCall.result_json(value) == text


@pytest.mark.parametrize("result", [{"a": 1}, ["a"], 3, b"text"])
def test_a_result_that_is_no_text_is_refused(result):
    with pytest.raises(ValueError, match=r"The result of tool call 'a' must be text, not .*result_json"):
        ToolCall("a", result=result)
    with pytest.raises(ValueError, match="must be text"):
        ToolCall.of_text("a", "{}", result=result)


def test_a_result_is_parsed_and_converted():
    call = ToolCall("weather", {"city": "Oslo"}, result='{"city": "Oslo", "degrees": 4}')

    assert call.result_as(Weather) == Weather("Oslo", 4)
    assert call.result_as(dict[str, object]) == {"city": "Oslo", "degrees": 4}


@pytest.mark.parametrize("result", [None, "", "  ", "null"])
def test_no_result_is_none(result):
    assert ToolCall("a", result=result).result_as(Weather) is None


@pytest.mark.parametrize("result", ["not json", "{", "[" * 100_000])
def test_a_result_that_is_not_json_is_a_conversion_error(result):
    with pytest.raises(TypeConversionError, match="result of tool 'a': it is not JSON"):
        ToolCall("a", result=result).result_as(Weather)


def test_arguments_are_converted():
    assert ToolCall("a", {"city": "Oslo", "degrees": 1}).arguments_as(Weather) == Weather("Oslo", 1)
    with pytest.raises(TypeConversionError, match="Cannot convert arguments of tool 'a' to Weather"):
        ToolCall("a").arguments_as(Weather)


def test_a_trace_gives_the_conventional_outputs():
    trace = AgentTrace([ToolCall("a")], "done", reasoning_steps=["think"])

    assert trace.tool_calls == (ToolCall("a"),)
    assert trace.to_outputs() == {"output": "done", "toolCalls": [ToolCall("a")], "reasoningSteps": ["think"]}


def test_a_trace_becomes_a_case_with_tools_and_tasks():
    case = AgentTrace((ToolCall("a"),), "done").to_test_case("question", [ToolDefinition("a")], ["book"])

    assert case.input == "question"
    assert case.actual_output == "done"
    assert case.tool_calls == (ToolCall("a"),)
    assert case.metadata == {"tools": [ToolDefinition("a")], "tasks": ["book"]}


@pytest.mark.parametrize(("name", "arguments"), [(5, "{}"), (None, "{}"), (["a"], '{"q": 1}')])
def test_a_name_is_required_beside_arguments_that_are_text(name, arguments):
    with pytest.raises(ValueError, match="needs a name that is not blank"):
        ToolCall.of_text(name, arguments)


def test_what_is_no_map_is_no_tool_call():
    with pytest.raises(ValueError, match="A tool call must be a map, not 'search'"):
        ToolCall.from_map("search")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("done",),
            r"must be a list, not the text 'done'; write AgentTrace\(final_response='done'\)",
        ),
        (({"name": "x"},), "tool_calls of an AgentTrace must be a list"),
        ((3,), "tool_calls of an AgentTrace must be a list, not 3"),
        ((["look_up"],), "must be ToolCalls or maps, not 'look_up'"),
        (([{"tool": "x"}],), "needs a name"),
        (([], "done", "first this"), "3 were given|positional"),
    ],
)
def test_what_is_no_list_of_calls_is_refused_where_it_is_given(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        AgentTrace(*arguments)


def test_steps_given_as_one_text_are_refused():
    with pytest.raises(ValueError, match="reasoning_steps of an AgentTrace must be a list"):
        AgentTrace(reasoning_steps="first this")


def test_calls_given_as_maps_become_calls():
    call = {"function": {"name": "look_up", "arguments": '{"word": "x"}'}}
    assert AgentTrace([call, ToolCall("add")]).tool_calls == (
        ToolCall("look_up", {"word": "x"}),
        ToolCall("add"),
    )


def test_one_task_given_as_text_is_one_task():
    assert AgentTrace().to_test_case("x", (), "Find a hat").metadata["tasks"] == ["Find a hat"]


def test_the_outputs_of_a_run_that_failed_cannot_be_taken_for_an_answer():
    failed = AgentTrace(tool_calls=(ToolCall("search"),), error="ValueError: boom")
    with pytest.raises(EvaluationError, match=r"^The run failed: ValueError: boom\. Return the trace itself"):
        failed.to_outputs()
    assert failed.outputs_so_far() == {"toolCalls": [ToolCall("search")], "reasoningSteps": []}


def test_a_task_that_gives_on_the_outputs_of_a_failed_run_is_errored():
    def task(example):
        return AgentTrace(error="ValueError: boom").to_outputs()

    result = evaluate(Dataset([Example.of("a")]), task, [ToolErrors()], journal=False, quiet=True)
    assert result.error_count == 1
    assert "ValueError: boom" in result.item_results[0].error


@pytest.mark.parametrize(
    "key", ["arguements", "Arguments", "argument", "params", "parameters", "kwargs", "inputs"]
)
def test_a_call_whose_arguments_have_another_key_is_not_a_call_with_any_arguments(key):
    with pytest.raises(ValueError, match=rf"Tool call 'search' has no \"arguments\", but '{key}'"):
        ToolCall.from_map({"name": "search", key: {"q": "a"}})


def test_other_keys_of_a_call_are_ignored():
    call = ToolCall.from_map(
        {"name": "search", "id": "1", "type": "function", "status": "done", "args": {"q": 1}}
    )
    assert call == ToolCall("search", {"q": 1})
    assert ToolCall.from_map({"name": "search", "id": "1", "parameters": None}) == ToolCall("search")


@pytest.mark.parametrize("nothing", [{}, "", "{}", None])
def test_a_call_without_arguments_may_hold_them_under_any_key(nothing):
    assert ToolCall.from_map({"name": "ping", "parameters": nothing}) == ToolCall("ping")


@pytest.mark.parametrize(
    ("data", "says"),
    [({"tool": "book", "args": {}}, "this one has 'tool', 'args'"), ({}, "this one has no keys")],
)
def test_a_call_without_a_name_says_what_it_has(data, says):
    with pytest.raises(ValueError, match=says):
        ToolCall.from_map(data)
