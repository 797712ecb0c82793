"""Candidates that run offline against what a trace recorded."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from dokimos import Example, ToolDefinition, evaluate
from dokimos.errors import DatasetError, RecordedCallError, ReplayMissError
from dokimos.evaluators import ExactMatch
from dokimos.replay import Replay, record_calls, replay_task
from dokimos.traces import Span

SYSTEM = "Answer with one city."
TOOL = {"name": "find_city", "description": "Find a city.", "parameters": {"type": "object"}}
OFFERED = [{"type": "function", "function": TOOL}]
ARGUMENTS = {"name": "Trevi", "limit": 1}


def chat_span(number, inputs, answer, tools=(TOOL,), **fields):
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.model": "m1",
        "gen_ai.input.messages": json.dumps(inputs),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
    }
    if answer is not None:
        attributes["gen_ai.output.messages"] = json.dumps([answer])
    if tools:
        attributes["gen_ai.tool.definitions"] = json.dumps(list(tools))
    return Span(
        "t", f"{number}", name="chat", start_ns=number, end_ns=number, attributes=attributes, **fields
    )


def tool_span(number, name, arguments, result, **fields):
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
    }
    if result is not None:
        attributes["gen_ai.tool.call.result"] = result
    return Span(
        "t", f"{number}", name="tool", start_ns=number, end_ns=number, attributes=attributes, **fields
    )


def part(role, **fields):
    return {"role": role, "parts": [fields]}


QUESTION = [part("system", type="text", content=SYSTEM), part("user", type="text", content="Where is Trevi?")]
ASKED = part("assistant", type="tool_call", id="c9", name="find_city", arguments=ARGUMENTS)
GOT = part("tool", type="tool_call_response", id="c9", result='{"city": "Rome"}')
SPANS = [
    chat_span(1, QUESTION, ASKED),
    tool_span(2, "find_city", ARGUMENTS, '{"city": "Rome"}'),
    chat_span(3, [*QUESTION, ASKED, GOT], part("assistant", type="text", content="Rome")),
]


def find_city(name: str, limit: int = 1):
    raise AssertionError("a replay calls no tool")


def run_agent(question, replay, *, system=SYSTEM, offered=OFFERED):
    """Run the loop of an agent that uses no framework."""
    tool = replay.tool(find_city)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    while True:
        reply = replay.complete_chat({"model": "m2", "messages": messages, "tools": offered})
        message = reply["choices"][0]["message"]
        if "tool_calls" not in message:
            return message["content"]
        messages.append(message)
        for call in message["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            arguments.pop("limit")  # its default
            result = tool(**arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})


def example_of(*spans):
    recorded = json.loads(json.dumps(record_calls(spans)))  # as a server stores it
    return Example.of("Where is Trevi?", "Rome", recorded=recorded)


def run(task, *spans, **options):
    result = evaluate(
        [example_of(*(spans or SPANS))], task, [ExactMatch()], quiet=True, journal=False, **options
    )
    return result.item_results


def test_an_agent_runs_offline_as_it_ran():
    (item,) = run(replay_task(run_agent))

    assert (item.error, item.success) == (None, True)
    assert item.actual_outputs == {"output": "Rome"}


def test_repeated_messages_are_recorded_once():
    calls = record_calls(SPANS)["modelCalls"]

    assert calls[1]["request"]["continues"] == 0
    assert [each["role"] for each in calls[1]["request"]["messages"]] == ["assistant", "tool"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"system": "Answer with one city!"},
            "model call 1 of 2 is the closest; message 1 (system) differs: recorded "
            "'Answer with one city.', requested 'Answer with one city!'",
        ),
        (
            {"offered": []},
            'model call 1 of 2 is the closest; it offered the tools ["find_city"], the request offers []',
        ),
        (
            {"offered": [{**TOOL, "description": "Find it."}]},
            "the description of the tool 'find_city' differs: recorded 'Find a city.', requested 'Find it.'",
        ),
        (
            {"offered": [{**TOOL, "parameters": {"type": "object", "properties": {}}}]},
            "the schema of the tool 'find_city' differs",
        ),
    ],
)
def test_a_request_that_was_not_recorded_is_an_error_of_the_item(change, message):
    (item,) = run(replay_task(lambda question, replay: run_agent(question, replay, **change)))

    assert item.error.startswith("ReplayMissError: The call was not recorded: ")
    assert message in item.error
    assert item.eval_results == ()


def test_a_miss_that_the_application_catches_is_an_error_all_the_same():
    def careless(question, replay):
        try:
            return replay.call_tool("find_city", {"name": "Fiume"})
        except Exception:
            return "Rome"

    async def careless_async(question, replay):
        return careless(question, replay)

    def stream_answer(question, replay):
        yield careless(question, replay)

    for application in (careless, careless_async, stream_answer):
        (item,) = run(replay_task(application), retries=3)
        assert "ReplayMissError" in item.error, application
        assert 'recorded \'{"limit":1,"name":"Trevi"}\', requested \'{"name":"Fiume"}\'' in item.error


def test_an_error_that_comes_of_a_miss_is_told_as_the_miss():
    def wraps(question, replay):
        try:
            return replay.call_tool("look_up")
        except ReplayMissError as error:
            raise ConnectionError("the model is down") from error

    (item,) = run(replay_task(wraps))

    assert "the trace has no call of the tool 'look_up'; recorded are" in item.error


def test_recordings_that_a_candidate_does_not_use_are_reported():
    (item,) = run(replay_task(lambda question, replay: "Rome"))

    assert item.success
    assert item.actual_outputs["unusedRecordings"] == [
        "model call 1", "model call 2", 'find_city({"limit":1,"name":"Trevi"})',
    ]  # fmt: skip


def test_each_repeat_begins_anew():
    items = run(replay_task(run_agent), runs=3)

    assert [item.error for item in items] == [None] * 3


def test_equal_calls_are_answered_in_order_and_no_more_often_than_recorded():
    spans = [tool_span(number, "roll", {}, str(number)) for number in (4, 2)]
    replay = Replay(example_of(*spans))

    assert [replay.call_tool("roll") for _ in spans] == ["2", "4"]
    with pytest.raises(ReplayMissError, match=r"roll\(\{\}\) was called 2 times, and was given already"):
        replay.call_tool("roll")

    lenient = Replay(example_of(*spans), allow_repeats=True)
    assert [lenient.call_tool("roll") for _ in range(4)] == ["2", "4", "4", "4"]


def test_calls_of_many_threads_get_their_own_results():
    spans = [
        tool_span(number, "double", {"x": number % 50}, str(2 * (number % 50))) for number in range(1, 101)
    ]
    replay = Replay(example_of(*spans))

    def double(x: int) -> int:
        raise AssertionError

    tool = replay.tool(double)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(tool, [*range(50), *range(50)]))

    assert results == [2 * x for x in range(50)] * 2
    assert replay.unused == ()


def test_results_are_what_the_tool_returns():
    spans = [tool_span(number, "get", {"n": number}, '{"a": 1}') for number in (1, 2)]
    replay = Replay(example_of(*spans))

    def get(n: int) -> str:
        return ""

    async def get_async(n):
        return None

    assert replay.tool(get)(1) == '{"a":1}'
    assert asyncio.run(replay.tool(get_async, name="get")(n=2)) == {"a": 1}
    assert ToolDefinition.from_function(replay.tool(get)) == ToolDefinition.from_function(get)


def test_what_failed_fails_again():
    failed = {"status": "error", "status_message": "no such city"}
    replay = Replay(
        example_of(
            tool_span(1, "find_city", {"name": "X"}, None, **failed),
            chat_span(2, QUESTION, None, tools=(), **failed),
            chat_span(3, QUESTION, part("assistant", type="text", content="Rome"), tools=()),
        )
    )
    body = {
        "messages": [{"role": "developer", "content": SYSTEM}, {"role": "user", "content": "Where is Trevi?"}]
    }

    with pytest.raises(RecordedCallError, match="no such city"):
        replay.call_tool("find_city", '{"name": "X"}')
    with pytest.raises(RecordedCallError, match="no such city"):
        replay.complete_chat(body)
    assert replay.complete_chat(body)["choices"][0]["message"]["content"] == "Rome"
    assert replay.misses == ()


def test_a_replay_is_a_model():
    question = [part("user", type="text", content="Where?")]
    replay = Replay(example_of(chat_span(1, question, part("assistant", type="text", content="Rome"))))
    with pytest.raises(ReplayMissError, match="offered the tools"):
        asyncio.run(replay.complete("Where?"))

    replay = Replay(
        example_of(chat_span(1, question, part("assistant", type="text", content="Rome"), tools=()))
    )
    reply = asyncio.run(replay.complete("Where?"))

    assert (reply.text, reply.metrics.tokens_in, reply.metrics.model) == ("Rome", 10, "m1")


def test_an_example_without_recordings_is_refused():
    for metadata in ({}, {"recorded": {"modelCalls": [{"request": {"messages": [], "continues": 3}}]}}):
        with pytest.raises(DatasetError, match="recorded"):
            Replay(Example({"input": "a"}, metadata=metadata))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"input": "Where?", "conversation": "conv_1"},
            "names a conversation that is stored with the provider",
        ),
        ({"input": "Where?", "prompt": {"id": "p"}}, "names a prompt that is stored with the provider"),
        ({"input": [{"type": "item_reference", "id": "i"}]}, "an item that is stored with the provider"),
        ({"input": "Where?", "previous_response_id": "resp_7"}, "has given no response 'resp_7'"),
    ],
)
def test_what_only_a_provider_has_is_a_miss(body, message):
    replay = Replay(example_of(*SPANS))

    with pytest.raises(ReplayMissError, match=message):
        replay.create_response(body)

    assert len(replay.misses) == 1


def test_a_response_continues_one_whose_request_was_recorded_with_the_new_items_alone():
    question = part("user", type="text", content="Where is Trevi?")
    asked = part("assistant", type="text", content="In which country?")
    spans = [
        chat_span(1, [question], asked, tools=()),
        chat_span(
            2, [part("user", type="text", content="Italy")], part("assistant", type="text", content="Rome")
        ),
    ]
    spans[1].attributes.pop("gen_ai.tool.definitions", None)
    replay = Replay(example_of(*spans))

    first = replay.create_response({"input": "Where is Trevi?"})
    second = replay.create_response(
        {"input": [{"role": "user", "content": "Italy"}], "previous_response_id": first["id"]}
    )

    assert second["output"][0]["content"][0]["text"] == "Rome"


def test_arguments_that_are_not_an_object_stay_what_they_were():
    called = part("assistant", type="tool_call", id="c1", name="find_city", arguments="Trevi")
    replay = Replay(example_of(chat_span(1, QUESTION, called)))
    body = {"system": [{"type": "text", "text": SYSTEM}], "tools": OFFERED}

    message = replay.create_message({**body, "messages": [{"role": "user", "content": "Where is Trevi?"}]})

    assert list(message["content"][0]["input"].values()) == ["Trevi"]
