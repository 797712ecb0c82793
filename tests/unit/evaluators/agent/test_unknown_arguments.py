"""Calls whose content nobody recorded: what depends on it is an error, never a score."""

import pytest

from dokimos import EvalTestCase, ToolCall, ToolDefinition
from dokimos._core.conversation import ConversationTrajectory, Message
from dokimos.evaluators import (
    ToolArgumentHallucination,
    ToolCallValidity,
    ToolCorrectness,
    ToolEfficiency,
    ToolErrors,
    ToolTrajectory,
)

SEARCH = ToolDefinition("search", input_schema={"properties": {"q": {"type": "string"}}})
STOP = ToolDefinition("stop")
UNKNOWN = ToolCall("search", result="3 found", metadata={"unknownArguments": True})
STOPPED = ToolCall("stop", result="ok", metadata={"unknownArguments": True})
KNOWN = ToolCall("search", {"q": "rain"}, result="3 found")
NAME = ToolCall("search")


def evaluate(evaluator, *calls, expected=(KNOWN,)):
    case = EvalTestCase(
        {"input": "Will it rain?"},
        {"toolCalls": list(calls)},
        expected_outputs={"toolCalls": list(expected)},
        metadata={"tools": [SEARCH, STOP]},
    )
    return evaluator.evaluate(case)


@pytest.mark.parametrize(
    ("evaluator", "calls"),
    [
        (ToolCallValidity(), [UNKNOWN]),
        (ToolTrajectory(), [UNKNOWN]),
        (ToolTrajectory(mode="recall", arguments="subset"), [UNKNOWN, KNOWN]),
        (ToolCorrectness(match="names_and_args"), [UNKNOWN]),
        (ToolEfficiency(), [UNKNOWN, KNOWN]),
        (ToolArgumentHallucination(judge=lambda prompt: "{}"), [UNKNOWN]),
    ],
)
def test_what_depends_on_the_arguments_is_an_error(evaluator, calls):
    result = evaluate(evaluator, *calls)

    assert result.score is None
    assert "The arguments of the call of 'search' were not recorded" in result.error


@pytest.mark.parametrize(
    ("evaluator", "calls", "expected"),
    [
        (ToolCallValidity(), [STOPPED, KNOWN], ()),
        (ToolTrajectory(), [UNKNOWN], [NAME]),
        (ToolTrajectory(arguments="ignore"), [UNKNOWN], [KNOWN]),
        (ToolTrajectory(mode="superset"), [STOPPED, KNOWN], [KNOWN]),
        (ToolCorrectness(), [UNKNOWN], [KNOWN]),
        (ToolCorrectness(match="names_and_order"), [UNKNOWN], [KNOWN]),
        (ToolEfficiency(), [UNKNOWN, STOPPED], ()),
        (ToolErrors(), [UNKNOWN], ()),
    ],
)
def test_what_does_not_depend_on_them_is_scored(evaluator, calls, expected):
    assert evaluate(evaluator, *calls, expected=expected).score == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": ["q"]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"q": {}}}}},
        {"anyOf": [{"properties": {"q": {"type": "string"}}}]},
    ],
)
def test_parameters_may_be_declared_in_other_ways(schema):
    case = EvalTestCase(
        {}, {"toolCalls": [UNKNOWN]}, metadata={"tools": [ToolDefinition("search", input_schema=schema)]}
    )

    assert "were not recorded" in ToolCallValidity().evaluate(case).error


def test_a_result_that_was_not_recorded_is_no_failure_of_the_tool():
    silent = ToolCall("search", metadata={"unknownArguments": True})
    failed = ToolCall("search", metadata={"unknownArguments": True, "error": "time-out"})

    assert "The result of the call of 'search' was not recorded" in evaluate(ToolErrors(), silent).error
    assert evaluate(ToolErrors(treat_blank_as_error=False), silent, failed).score == 0.5
    assert evaluate(ToolErrors(), failed, KNOWN).score == 0.5


def test_a_transcript_tells_what_is_known_of_the_arguments():
    invalid = ToolCall.of_text("search", '{"q":')
    talk = ConversationTrajectory((Message.assistant("It will.", [UNKNOWN, KNOWN, invalid]),))

    assert talk.to_text().splitlines()[1:] == [
        "  [tool: search(not recorded)]",
        '  [tool: search({"q":"rain"})]',
        '  [tool: search({"q":)]',
    ]
