"""Calls whose arguments nobody recorded: what depends on them is an error, never a score."""

import pytest

from dokimos import EvalTestCase, ToolCall, ToolDefinition
from dokimos.core.conversation import ConversationTrajectory, Message
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


def test_a_transcript_says_that_they_were_not_recorded():
    talk = ConversationTrajectory((Message.assistant("It will.", [UNKNOWN, KNOWN]),))

    assert talk.to_text().splitlines()[1:] == [
        "  [tool: search(not recorded)]",
        '  [tool: search({"q":"rain"})]',
    ]
