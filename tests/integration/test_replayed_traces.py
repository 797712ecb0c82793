"""A trace that a server stores becomes an item, and the item runs a candidate offline."""

import importlib
import json
import urllib.error
import urllib.request

import pytest

from dokimos import Dataset, Experiment
from dokimos.evaluators import ExactMatch
from dokimos.replay import Replay, replay_task

TRACE = "0af7651916cd43dd8448eb211c80319c"
NOW = 1_790_000_000_000_000_000
QUESTION = {"role": "user", "parts": [{"type": "text", "content": "Where is Trevi?"}]}
CALL = {"type": "tool_call", "id": "c1", "name": "find_city", "arguments": {"name": "Trevi"}}
RESULT = {"type": "tool_call_response", "id": "c1", "result": "Rome"}
HISTORY = [QUESTION, {"role": "assistant", "parts": [CALL]}, {"role": "tool", "parts": [RESULT]}]
ANSWER = {"role": "assistant", "parts": [{"type": "text", "content": "In Rome."}]}


@pytest.fixture(scope="module")
def server_url(tmp_path_factory):
    pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
    live = importlib.import_module("tests.conftest").load_server("live")
    with live.serving(data_dir=tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture
def items(server_url, tmp_path, monkeypatch):
    """The dataset of a trace, pulled from the server that stored it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOKIMOS_SERVER_URL", server_url)
    post(f"{server_url}/v1/traces", {"resourceSpans": [{"scopeSpans": [{"spans": make_spans()}]}]})
    api = f"{server_url}/api/v1/datasets"
    name = tmp_path.name
    post(api, {"name": name})
    promoted = {"traceId": TRACE, "expectedOutputs": {"output": "In Rome."}}
    post(f"{api}/{name}/versions/from-traces", {"items": [promoted]})
    return Dataset.load(f"dataset://{name}@latest")


def post(url, body):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            raise ConnectionError(error.read()) from None


def make_spans():
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"}
    asked = {"gen_ai.input.messages": [QUESTION], "gen_ai.output.messages": [HISTORY[1]]}
    told = {"gen_ai.input.messages": HISTORY, "gen_ai.output.messages": [ANSWER]}
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_city",
        "gen_ai.tool.call.arguments": {"name": "Trevi"},
        "gen_ai.tool.call.result": "Rome",
    }
    contents = [{"gen_ai.operation.name": "invoke_agent"}, {**chat, **asked}, tool, {**chat, **told}]
    spans = []
    for number, attributes in enumerate(contents, 1):
        texts = {key: each if isinstance(each, str) else json.dumps(each) for key, each in attributes.items()}
        span = {
            "traceId": TRACE,
            "spanId": f"{number:016x}",
            "name": f"step {number}",
            "startTimeUnixNano": str(NOW + number),
            "endTimeUnixNano": str(NOW + (number if number > 1 else 9)),
            "attributes": [{"key": key, "value": {"stringValue": each}} for key, each in texts.items()],
        }
        spans.append(span if number == 1 else {**span, "parentSpanId": f"{1:016x}"})
    return spans


def find_city(name: str) -> str:
    raise AssertionError("a replay calls no tool")


def run_agent(question, replay, *, prompt=""):
    """Run the loop of an agent that asks its model over HTTP, and has no framework."""
    tool = replay.tool(find_city)
    messages = [{"role": "user", "content": prompt + question}]
    while True:
        reply = post(f"{replay.base_url}/chat/completions", {"model": "m1", "messages": messages})
        message = reply["choices"][0]["message"]
        messages.append(message)
        if "tool_calls" not in message:
            return message["content"]
        for call in message["tool_calls"]:
            result = tool(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def test_a_stored_trace_runs_a_candidate_offline(items):
    same = Experiment(items, replay_task(run_agent), [ExactMatch()], runs=2).run(quiet=True)
    assert [(each.error, each.success) for each in same.item_results] == [(None, True)] * 2

    def shout(question, replay):
        return run_agent(question, replay, prompt="Please: ")

    changed = Experiment(items, replay_task(shout), [ExactMatch()]).run(quiet=True)
    (item,) = changed.item_results
    assert item.error.startswith("ReplayMissError")
    assert "message 1 (user) differs: recorded 'Where is Trevi?', requested 'Please: Where" in item.error


def test_the_endpoint_streams_and_refuses_what_was_not_recorded(items):
    with Replay(items[0]) as replay:
        body = {"messages": [{"role": "user", "content": "Where is Trevi?"}], "stream": True}
        request = urllib.request.Request(f"{replay.base_url}/chat/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            lines = [line[6:] for line in answer.read().decode().split("\n\n") if line]
        assert lines[-1] == "[DONE]"
        delta = json.loads(lines[0])["choices"][0]["delta"]
        assert delta["tool_calls"][0]["function"]["name"] == "find_city"
        assert json.loads(lines[-2])["usage"]["total_tokens"] == 0
    assert replay.unused == ("model call 2", 'find_city({"name":"Trevi"})')

    missed = Replay(items[0])
    for path, data in (
        ("chat/completions", b"{}"),
        ("responses", b"{}"),
        ("messages", b"{}"),
        ("models", None),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{missed.base_url}/{path}", data, timeout=60)
        with refused.value as error:
            assert (error.code, error.headers["x-should-retry"]) == (404, "false")
            assert json.loads(error.read())["error"]["type"] == "replay_miss"
    missed.close()
    assert len(missed.misses) == 4


SYSTEM = "Answer with one city."
OFFERED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def with_system(spans):
    """The spans of an agent that has instructions and says which tools it offers."""
    tool = {"type": "function", "name": "find_city", "description": "Find it.", "parameters": OFFERED}
    for each in spans[1::2]:
        for key, value in (
            ("gen_ai.system_instructions", [{"type": "text", "content": SYSTEM}]),
            ("gen_ai.tool.definitions", [tool]),
        ):
            each["attributes"].append({"key": key, "value": {"stringValue": json.dumps(value)}})
    return spans


@pytest.fixture(scope="module")
def example():
    """An example of what a trace of such an agent recorded."""
    from dokimos import Example
    from dokimos.replay import record_calls
    from dokimos.traces import read_otlp

    export = {"resourceSpans": [{"scopeSpans": [{"spans": with_system(make_spans())}]}]}
    recorded = record_calls(read_otlp(export).spans)
    return Example.of("Where is Trevi?", "In Rome.", recorded=json.loads(json.dumps(recorded)))


@pytest.mark.parametrize(("streams", "continues"), [(False, False), (True, True)])
def test_a_client_of_openai_responses_runs_offline(example, streams, continues):
    openai = pytest.importorskip("openai")
    tools = [{"type": "function", "name": "find_city", "description": "Find it.", "parameters": OFFERED}]
    with Replay(example) as replay, openai.OpenAI(base_url=replay.base_url, api_key="replay") as client:

        def ask(items, **options):
            shared = {"model": "m1", "instructions": SYSTEM, "tools": tools, "input": items, **options}
            if not streams:
                return client.responses.create(**shared)
            with client.responses.stream(**shared) as stream:
                return stream.get_final_response()

        history = [{"role": "user", "content": "Where is Trevi?"}]
        first = ask("Where is Trevi?")
        (call,) = first.output
        result = replay.call_tool(call.name, call.arguments)
        told = {"type": "function_call_output", "call_id": call.call_id, "output": result}
        if continues:
            second = ask([told], previous_response_id=first.id)
        else:
            second = ask([*history, call.to_dict(), told])
        assert second.output_text == "In Rome."
        assert (call.name, json.loads(call.arguments)) == ("find_city", {"name": "Trevi"})
    assert replay.unused == ()


@pytest.mark.parametrize("streams", [False, True])
def test_a_client_of_anthropic_runs_offline(example, streams):
    anthropic = pytest.importorskip("anthropic")
    tools = [{"name": "find_city", "description": "Find it.", "input_schema": OFFERED}]
    with (
        Replay(example) as replay,
        anthropic.Anthropic(base_url=replay.anthropic_base_url, api_key="replay") as client,
    ):

        def ask(messages):
            shared = {"model": "m1", "max_tokens": 100, "system": SYSTEM, "tools": tools}
            if not streams:
                return client.messages.create(messages=messages, **shared)
            with client.messages.stream(messages=messages, **shared) as stream:
                return stream.get_final_message()

        messages = [{"role": "user", "content": "Where is Trevi?"}]
        first = ask(messages)
        (use,) = first.content
        assert (first.stop_reason, use.name, use.input) == ("tool_use", "find_city", {"name": "Trevi"})
        result = {
            "type": "tool_result",
            "tool_use_id": use.id,
            "content": replay.call_tool(use.name, use.input),
        }
        messages += [{"role": "assistant", "content": [use.to_dict()]}, {"role": "user", "content": [result]}]
        second = ask(messages)
        assert (second.stop_reason, second.content[0].text) == ("end_turn", "In Rome.")
    assert replay.unused == ()


def ask_openai(library, replay):
    with library.OpenAI(base_url=replay.base_url, api_key="replay") as client:
        client.responses.create(model="m1", input="Where is Fiume?")


def ask_anthropic(library, replay):
    with library.Anthropic(base_url=replay.anthropic_base_url, api_key="replay") as client:
        said = [{"role": "user", "content": "Where is Fiume?"}]
        client.messages.create(model="m1", max_tokens=9, messages=said)


@pytest.mark.parametrize(("kind", "ask"), [("openai", ask_openai), ("anthropic", ask_anthropic)])
def test_a_miss_is_an_error_of_other_clients_too(example, kind, ask):
    library = pytest.importorskip(kind)
    replay = Replay(example)
    with pytest.raises(library.NotFoundError, match=r"message 1 differs: recorded system: "):
        ask(library, replay)
    replay.close()
    assert len(replay.misses) == 1, "clients do not repeat it"
