"""States of graphs, and evaluators, as plain maps."""

from types import SimpleNamespace

import pytest

from dokimos import Example
from dokimos.errors import EvaluationError, IntegrationError
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


def test_arguments_that_could_not_be_parsed_stay_as_text():
    message = {**ai(), "invalid_tool_calls": [{"name": "a", "args": "{no", "id": "1", "error": None}]}

    assert langchain.to_agent_trace([message]).tool_calls[0].invalid_arguments == "{no"


ANSWERED = {
    "messages": [
        {"type": "human", "content": "Paris?"},
        ai("", ("weather", {"city": "Paris"}, "1")),
        tool("1", "21"),
        ai("", ("Answer", {"degree": 21}, "2")),
        tool("2", "Error: degrees is missing"),
        ai("", ("Answer", {"degrees": 21}, "3")),
        tool("3", "Returning structured response: degrees=21"),
    ],
    "structured_response": {"degrees": 21, "unit": "C"},
}


def test_the_call_that_gives_a_structured_answer_is_the_answer_however_often_it_was_tried():
    trace = langchain.to_agent_trace(ANSWERED)

    assert [(call.name, call.metadata["id"]) for call in trace.tool_calls] == [("weather", "1")]
    assert trace.final_response == '{"degrees":21,"unit":"C"}'


def test_a_tool_called_as_the_class_of_the_answer_is_the_answer_whatever_is_said_of_it():
    class Answer:
        degrees = 21

    state = {**ANSWERED, "messages": [*ANSWERED["messages"][:-1], tool("3", "Thank you.")]}

    assert len(langchain.to_agent_trace({**state, "structured_response": Answer()}).tool_calls) == 1
    assert len(langchain.to_agent_trace({**state, "structured_response": None}).tool_calls) == 3


def by_node(*messages):
    return [{"model" if each["type"] == "ai" else "tools": {"messages": [each]}} for each in messages]


UPDATES = [*by_node(*ANSWERED["messages"][1:6]), {"__interrupt__": ("asks",)}, {"nothing": None}]
UPDATES += [{"model": {**ANSWERED, "messages": ANSWERED["messages"][-2:]}}]


@pytest.mark.parametrize(
    "chunks",
    [
        UPDATES,
        [("updates", chunk) for chunk in UPDATES],
        [((), chunk) for chunk in UPDATES] + [(("inner:1",), {"model": {"messages": [ai("No.")]}})],
        [((), "updates", chunk) for chunk in UPDATES] + [((), "custom", "30 %")],
        [STATE, ANSWERED],
        [("updates", UPDATES[0]), ("values", STATE), ("values", ANSWERED)],
        [{"model": [UPDATES[0]["model"], {"unit": "C"}]}, *UPDATES[1:]],
    ],
)
def test_what_a_graph_streams_comes_to_its_state(chunks):
    assert langchain.to_agent_trace(chunks) == langchain.to_agent_trace(ANSWERED)


def test_a_message_that_comes_again_in_an_update_is_one():
    first = {**ai("", ("weather", {"city": "Paris"}, "1")), "id": "m"}

    assert len(langchain.to_agent_trace(by_node(first, tool("1", "21"), first)).tool_calls) == 1


@pytest.mark.parametrize(
    "chunk",
    [
        (ai("Hello"), {"langgraph_node": "model"}),
        {"type": "task", "payload": {}},
        {"id": "1", "name": "model", "input": {}, "triggers": ()},
        {"id": "1", "name": "model", "result": {}, "error": None},
        {"config": {}, "values": {}, "next": []},
    ],
)
def test_chunks_that_do_not_tell_the_calls_are_refused(chunk):
    with pytest.raises(IntegrationError, match='Use stream_mode="values" or "updates"'):
        langchain.to_agent_trace([chunk])


def test_a_mode_that_cannot_be_read_is_refused_before_anything_runs():
    with pytest.raises(IntegrationError, match="messages, custom"):
        langchain.as_task(lambda: None, run_options={"stream_mode": ["messages", "custom"]})


def test_lists_of_messages_are_not_streams():
    assert langchain.to_agent_trace(ANSWERED["messages"]).tool_names == ("weather", "Answer")
    assert langchain.to_agent_trace([]).tool_calls == ()


def test_tools_are_found_in_graphs_within_graphs_and_with_models_that_they_are_bound_to():
    def weather(city: str):
        """Tell the weather."""

    described = {"type": "function", "function": {"name": "time", "parameters": {}}}
    model = SimpleNamespace(bound=SimpleNamespace(), kwargs={"tools": [described]})
    inner = SimpleNamespace(nodes={"tools": SimpleNamespace(tools_by_name={"weather": weather})})
    inner.nodes["itself"] = SimpleNamespace(bound=inner)
    steps = SimpleNamespace(steps=[model])
    graph = SimpleNamespace(ainvoke=print, nodes={"a": SimpleNamespace(bound=inner), "b": steps})

    assert [tool.name for tool in langchain.to_tool_definitions(graph)] == ["weather", "time"]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"inputs": "q", "outputs": "a", "reference_outputs": "r"}, ("q", "a", "r")),
        ({"input": "q", "prediction": "a", "reference": "r"}, ("q", "a", "r")),
        ({"inputs": {"input": "q"}, "outputs": {"output": "a"}}, ("q", "a", None)),
    ],
)
def test_requests_of_other_frameworks_are_cases(request_, expected):
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


def test_a_result_of_dokimos_becomes_one_of_theirs_and_an_error_is_refused():
    passed = ExactMatch().evaluate(Example.of("q", "a").to_test_case("a"))
    errored = ExactMatch().evaluate(Example.of("q").to_test_case("a"))

    assert langchain_evaluators.from_eval_result(passed)["score"] == 1.0
    assert langchain_evaluators.from_eval_result(passed, form="langchain")["value"] == "Y"
    with pytest.raises(EvaluationError, match="expected output"):
        langchain_evaluators.from_eval_result(errored)
