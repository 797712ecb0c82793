import pytest

from dokimos import EvalTestCase, ToolCall
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ForbiddenTools, MaxToolCalls


def made(names):
    return EvalTestCase({}, {"toolCalls": [ToolCall(name) for name in names]})


@pytest.mark.parametrize(("names", "score"), [("", 1), ("ab", 1), ("axb", 0), ("xyx", 0)])
def test_forbidden_tools_must_not_be_called(names, score):
    result = ForbiddenTools(tools=["x", "y"]).evaluate(made(names))
    assert (result.score, result.success) == (score, score == 1)
    assert result.metadata == {"forbiddenCalls": [name for name in names if name in "xy"]}


def test_the_reason_names_the_forbidden_tools():
    assert ForbiddenTools(tools=["x"]).evaluate(made("axx")).reason == (
        "The agent made 2 calls of forbidden tools: 'x', 'x'."
    )


@pytest.mark.parametrize("tools", [[], "delete", [1]])
def test_the_forbidden_tools_are_a_list_of_names(tools):
    with pytest.raises(ConfigurationError, match="tools must be a list"):
        ForbiddenTools(tools=tools)


@pytest.mark.parametrize(
    ("options", "names", "score"),
    [
        ({"max": 2}, "ab", 1),
        ({"max": 2}, "abc", 0),
        ({"max": 0}, "", 1),
        ({"max": 0}, "a", 0),
        ({"per_tool": {"a": 1}}, "abbb", 1),
        ({"per_tool": {"a": 1}}, "aab", 0),
        ({"per_tool": {"a": 0}}, "b", 1),
        ({"max": 3, "per_tool": {"a": 1}}, "aab", 0),
    ],
)
def test_there_can_be_too_many_calls(options, names, score):
    assert MaxToolCalls(**options).evaluate(made(names)).score == score


def test_the_reason_names_each_limit_that_was_broken():
    result = MaxToolCalls(max=2, per_tool={"a": 1}).evaluate(made("aab"))
    assert result.reason == (
        "There are too many tool calls: 3 calls in total, at most 2 allowed; "
        "2 calls of 'a', at most 1 allowed."
    )
    assert result.metadata == {"totalCalls": 3, "callsPerTool": {"a": 2, "b": 1}}


@pytest.mark.parametrize("options", [{}, {"max": -1}, {"max": True}, {"per_tool": {"a": 1.5}}])
def test_limits_are_whole_numbers(options):
    with pytest.raises(ConfigurationError):
        MaxToolCalls(**options)
