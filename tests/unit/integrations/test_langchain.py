"""States of graphs, and evaluators, as plain maps."""

import pytest

from dokimos import Example
from dokimos.errors import EvaluationError
from dokimos.evaluators import ExactMatch
from dokimos.integrations import langchain, langchain_evaluators


def ai(text="", *calls):
    return {
        "type": "ai",
        "content": text,
        "tool_calls": [{"name": n, "args": a, "id": i} for n, a, i in calls],
    }


def tool(call_id, content, status="success"):
    return {"type": "tool", "tool_call_id": call_id, "content": content, "status": status}


STATE = {
    "messages": [
        {"type": "human", "content": "Paris?"},
        ai("", ("weather", {"city": "Paris"}, "1"), ("time", {}, "2")),
        tool("2", "noon"),
        tool("1", "21"),
        ai("Paris has 21."),
        {"type": "human", "content": "Rome?"},
        ai("", ("weather", {"city": "Rome"}, "1")),
        ai("", ("weather", {"city": "Rom"}, "1")),
        tool("1", "no such city", "error"),
        ai("I do not know."),
    ]
}


def test_calls_are_answered_only_in_their_turn():
    calls = langchain.to_tool_calls(STATE)

    assert [(call.arguments.get("city"), call.result) for call in calls] == [
        ("Paris", "21"), (None, "noon"), ("Rome", None), ("Rom", "no such city"),
    ]  # fmt: skip
    assert [bool(call.metadata.get("error")) for call in calls] == [False, False, False, True]
    assert langchain.to_agent_trace(STATE).final_response == "I do not know."


def test_a_state_is_a_conversation_with_the_calls_of_each_turn():
    conversation = langchain.to_trajectory(STATE)

    assert [message.content for message in conversation.assistant_messages] == [
        "Paris has 21.",
        "I do not know.",
    ]
    assert [len(calls) for calls in conversation.tool_calls_by_turn()] == [2, 2]


def test_steps_of_an_older_agent_are_calls():
    result = {"output": "Done.", "intermediate_steps": [({"tool": "search", "tool_input": "x"}, "found")]}

    trace = langchain.to_agent_trace(result)

    assert [(call.name, call.arguments, call.result) for call in trace.tool_calls] == [
        ("search", {"input": "x"}, "found")
    ]
    assert trace.final_response == "Done."


def test_arguments_that_could_not_be_read_are_kept():
    message = {**ai(), "invalid_tool_calls": [{"name": "a", "args": "{no", "id": "1", "error": None}]}

    assert langchain.to_agent_trace([message]).tool_calls[0].invalid_arguments == "{no"


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"inputs": "q", "outputs": "a", "reference_outputs": "r"}, ("q", "a", "r")),
        ({"input": "q", "prediction": "a", "reference": "r"}, ("q", "a", "r")),
        ({"inputs": {"input": "q"}, "outputs": {"output": "a"}}, ("q", "a", None)),
    ],
)
def test_requests_of_theirs_are_cases(request_, expected):
    case = langchain_evaluators.to_test_case(request_)

    assert (case.input, case.actual_output, case.expected_output) == expected


def test_a_function_is_given_what_it_names():
    seen = {}

    def theirs(inputs, context):
        seen.update(inputs=inputs, context=context)
        return [{"key": "a", "score": True, "comment": "Good."}, {"key": "b", "score": 0.5}]

    case = Example.of("q").to_test_case({"output": "a", "context": ["one", "two"]})
    result = langchain_evaluators.as_evaluator(theirs).evaluate(case)

    assert seen == {"inputs": "q", "context": "one\n\ntwo"}
    assert (result.name, result.score) == ("theirs", 0.75)
    assert "Good." in result.reason


def test_a_result_of_ours_is_one_of_theirs_and_an_error_is_none():
    passed = ExactMatch().evaluate(Example.of("q", "a").to_test_case("a"))
    errored = ExactMatch().evaluate(Example.of("q").to_test_case("a"))

    assert langchain_evaluators.from_eval_result(passed)["score"] == 1.0
    assert langchain_evaluators.from_eval_result(passed, form="langchain")["value"] == "Y"
    with pytest.raises(EvaluationError, match="expected output"):
        langchain_evaluators.from_eval_result(errored)
