"""Whole suites whose agent is declared, against servers that speak the providers' protocols."""

import asyncio
import base64
import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.servers.ports import find_port

from dokimos._cli.main import run_command
from dokimos.errors import AgentError
from dokimos.exporters._json import load_result
from dokimos.suites import load_suite
from dokimos.suites._agent import inputs
from dokimos.suites._agent.inputs import download

SERVERS = Path(__file__).parents[1] / "servers"
PROVIDERS = ("openai", "azure_openai", "anthropic", "ollama")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TOOLS = '''
def subtract(a: float, b: float) -> float:
    """Take b from a."""
    return round(a - b, 2)


async def lookup(year: int) -> str:
    """Look a price up."""
    if year < 2000:
        raise KeyError(year)
    return {2005: "25.14", 2007: "60.94"}[year]
'''
HOLODECK = """
name: "desk"
description: "Answers questions on prices"
author: me

model:
  provider: PROVIDER
  name: gpt-4o-mini
  temperature: 0.0
  max_tokens: 500
  endpoint: ENDPOINT
  api_key: sk-test-0123456789abcdef

instructions:
  file: instructions/system.md

claude:
  permission_mode: acceptAll
  max_turns: 10
openai:
  max_turns: 12
deployment: {runtime: docker}
observability: {enabled: false}

tools:
  - name: subtract
    description: Take one number from another
    type: function
    file: tools/figures.py
    function: subtract
    parameters:
      a: {type: number, description: minuend}
      b: {type: number, description: subtrahend}
  - name: lookup
    description: Look a price up
    type: function
    file: tools/figures.py
    function: lookup
    defer_loading: false

evaluations:
  metrics:
    - type: standard
      metric: numeric
      absolute_tolerance: 0.01
      accept_percent: true
    - type: code
      grader: "graders.calls:has_calls"
      name: Turn Program

test_cases:
  - name: Prices
    turns:
      - input: What was the price in 2007?
        ground_truth: "60.94"
        expected_tools: [lookup]
        turn_config: {calls: 1}
      - input: And the change since 2005?
        ground_truth: "35.8"
        turn_config: {calls: 2}
        expected_tools:
          - name: subtract
            args:
              a: {fuzzy: "60.94"}
              b: {fuzzy: "25.14"}
"""
GRADER = """
from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult

def has_calls(ctx: GraderContext) -> GraderResult:
    return GraderResult(score=float(len(ctx.tool_invocations) == ctx.turn_config["calls"]))
"""


@pytest.fixture(scope="module")
def tool_calling():
    spec = importlib.util.spec_from_file_location("tool_calling", SERVERS / "tool_calling.py")
    module = sys.modules["tool_calling"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def model(tool_calling):
    with tool_calling.ToolCallingServer() as server:
        yield server


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("DOKIMOS_RUN_DIR", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    write("tools.py", TOOLS)
    return tmp_path


def write(name, text):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")


def agent(model, *parts, provider="openai", key="sk-test-0123456789abcdef", **block):
    """Write a suite around a declared agent whose model is a server of the test."""
    given = {"provider": provider, "name": "gpt-4o-mini", "base_url": model.base_url, **block}
    given |= {"api_key": key} if key else {}
    head = f"name: declared\nmodel: {json.dumps(given)}\ninstructions: {{inline: Help.}}\n"
    write("agent.yaml", head + "".join(textwrap.dedent(part).strip("\n") + "\n" for part in parts))


def dokimos(*arguments):
    return run_command([str(argument) for argument in arguments])


def in_process_of_its_own(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "dokimos", *map(str, arguments)],
        capture_output=True, text=True, timeout=300, env={**os.environ, **environment}, check=False,
    )  # fmt: skip


def outputs_in(report):
    """Return the outputs of the only item in a report."""
    (item,) = load_result(report).item_results
    return item.actual_outputs


EQUAL = "evaluations: {metrics: [{type: standard, metric: equality}]}\n"
ONE = EQUAL + "test_cases: [{name: one, input: question, ground_truth: reply}]\n"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_suite_written_for_holodeck_runs_unchanged(model, tool_calling, provider, capsys):
    turn = tool_calling.Turn
    model.turns.extend([
        turn(calls=(("lookup", {"year": 2007}),)), turn("60.94"),
        turn(calls=(("lookup", {"year": 2005}),)),
        turn(calls=(("subtract", {"a": 60.94, "b": 25.14}),)), turn("35.8"),
    ])  # fmt: skip
    endpoint = model.url if provider in ("azure_openai", "ollama") else model.base_url
    write("agent.yaml", HOLODECK.replace("PROVIDER", provider).replace("ENDPOINT", endpoint))
    write("instructions/system.md", "---\nversion: 2\n---\nYou know prices.\n")
    write("tools/figures.py", TOOLS)
    write("graders/calls.py", GRADER)

    assert dokimos("test", "agent.yaml") == 0

    printed = capsys.readouterr()
    assert "1 passed, 0 failed" in printed.out
    for block in ("claude", "openai", "deployment", "observability"):
        assert f"the block {block} is outside evaluation" in printed.err
    bodies = [received.body for received in model.received]
    assert len(bodies) == 5
    assert "You know prices." in json.dumps(bodies[0])
    assert "version: 2" not in json.dumps(bodies[0])
    assert bodies[0]["temperature"] == 0.0
    expected = {
        "anthropic": "/v1/messages",
        "azure_openai": "/openai/deployments/gpt-4o-mini/chat/completions",
    }
    assert model.received[0].path == expected.get(provider, "/v1/chat/completions")


def test_several_calls_in_one_answer_find_their_results(model, tool_calling, capsys):
    calls = (*(("subtract", {"a": n, "b": 1}) for n in (5, 3, 9)), ("lookup", {"year": 1999}))
    model.turns.extend([tool_calling.Turn(calls=calls), tool_calling.Turn("reply")])
    agent(model, """
        tools:
          - {name: subtract, type: function, file: tools.py, function: subtract}
          - {name: lookup, type: function, file: tools.py, function: lookup}
    """, EQUAL, """
        test_cases:
          - {input: q, ground_truth: reply, expected_tools: {tools: [subtract, lookup], exact: true}}
    """)  # fmt: skip

    assert dokimos("test", "-o", "report.json") == 0

    outputs = outputs_in("report.json")
    results = [call["result"] for call in outputs["toolCalls"]]
    assert results == ["4.0", "2.0", "8.0", "KeyError: 1999"]
    told = {
        m["tool_call_id"]: m["content"] for m in model.received[1].body["messages"] if m["role"] == "tool"
    }
    assert list(told.values())[:3] == ["4.0", "2.0", "8.0"]


def test_unicode_survives_the_way_there_and_back(model, tool_calling, capsys):
    text = "Grüße, 東京 🗼 \u202bשלום\u202c"
    model.turn_for = lambda body: tool_calling.Turn(body["messages"][-1]["content"])
    agent(model, EQUAL, f"""
        test_cases: [{{name: "{text}", input: "{text}", ground_truth: "{text}"}}]
    """)  # fmt: skip

    assert dokimos("test") == 0


def test_refusals_for_now_and_failures_are_tried_again(model, scripted, tool_calling, capsys):
    model.script.extend([scripted.too_many(0), scripted.status(500), scripted.cut()])
    model.turns.append(tool_calling.Turn("reply"))
    agent(model, ONE)

    assert dokimos("test", "-q") == 0
    assert len(model.received) == 4


def test_a_server_that_stays_down_breaks_the_run_and_the_resumed_one_goes_on(
    model, scripted, tool_calling, capsys
):
    model.script.extend([scripted.status(503, retry_after=0)] * 5)
    agent(model, ONE)

    assert dokimos("test") == 3
    assert "503" in capsys.readouterr().out
    model.turns.append(tool_calling.Turn("reply"))
    assert dokimos("test", "--resume", "latest", "--retry-errors", "-q") == 0


def test_a_rate_limit_in_the_midst_of_a_case_costs_no_call_that_was_answered(
    model, scripted, tool_calling, capsys
):
    add = tool_calling.Turn(calls=(("subtract", {"a": 3, "b": 2}),))
    model.turns.extend([add, tool_calling.Turn("reply")])
    model.script.extend([scripted.Misbehaviour(), *[scripted.too_many(86_400)] * 5])
    agent(model, """
        tools: [{name: subtract, type: function, description: Take b from a, file: tools.py,
                 function: subtract, parameters: {a: {type: number}, b: {type: number}}}]
    """, ONE)  # fmt: skip

    assert dokimos("test") == 3
    assert "asks to wait" in capsys.readouterr().out
    asked = len(model.received)
    model.script.clear()
    assert dokimos("resume", "latest", "-q") == 0, capsys.readouterr()

    assert len(model.received) == asked + 1  # the call of the tool is known


def test_an_agent_that_does_not_answer_in_time_is_an_error(model, scripted, capsys):
    model.script.append(scripted.slow(60))
    agent(model, ONE + "execution: {llm_timeout: 0.3}\n")

    assert dokimos("test") == 3
    assert "no reply within 0.3 s" in capsys.readouterr().out


def test_a_key_that_is_refused_is_never_shown(model, capsys, workplace):
    model.key = "sk-another-0123456789abcdef"
    agent(model, ONE, key="sk-wrong-0123456789abcdef")

    assert dokimos("test", "-o", "report.json") == 3

    printed = capsys.readouterr()
    assert "401" in printed.out
    written = [path.read_text() for path in workplace.rglob("*.json*")]
    assert len(written) >= 2
    assert all("sk-wrong" not in text for text in (printed.out, printed.err, *written))


def test_a_word_in_the_place_of_a_key_is_not_cut_out_of_errors(model, capsys):
    model.key = "sk-another-0123456789abcdef"
    agent(model, ONE, key="k")

    assert dokimos("test") == 3
    assert "[secret]" not in capsys.readouterr().out


def test_a_missing_key_is_told_before_anything_is_run(capsys):
    write("agent.yaml", "name: x\nmodel: {provider: openai, name: m}\ninstructions: {inline: Help.}\n" + ONE)

    assert dokimos("test") == 2
    assert "set OPENAI_API_KEY" in capsys.readouterr().err


def test_a_suite_is_recorded_and_replayed_by_processes_of_their_own(model, tool_calling, workplace):
    answers = {"first": "one", "second": "two"}
    model.turn_for = lambda body: tool_calling.Turn(answers[body["messages"][-1]["content"]])
    agent(model, EQUAL, """
        test_cases:
          - {name: talk, turns: [{input: first, ground_truth: one}, {input: second, ground_truth: two}]}
    """)  # fmt: skip

    recorded = in_process_of_its_own("test", "--record", "calls.jsonl")
    model.turn_for = lambda body: tool_calling.Turn("something else")
    replayed = in_process_of_its_own(
        "test", "--replay", "calls.jsonl", HTTPS_PROXY="http://nowhere.invalid:1"
    )

    for process in (recorded, replayed):
        assert process.returncode == 0, process.stderr
        assert "Error" not in process.stderr
        assert "Warning" not in process.stderr
    assert len(model.received) == 2
    assert "1 passed, 0 failed" in replayed.stdout
    assert len(Path("calls.jsonl").read_text().splitlines()) == 2


def test_many_cases_run_at_once(model, tool_calling, capsys):
    model.turn_for = lambda body: tool_calling.Turn(body["messages"][-1]["content"])
    model.latency = 0.01
    cases = "\n".join(f"  - {{input: case {n}, ground_truth: case {n}}}" for n in range(100))
    agent(model, f"{EQUAL}test_cases:\n{cases}\n")

    assert dokimos("test", "-j", "32", "-q") == 0
    assert capsys.readouterr().out == "100 passed, 0 failed\n"
    assert len(model.received) == 100


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_images_reach_the_model_and_texts_are_told(model, tool_calling, provider, capsys, workplace):
    (workplace / "dot.png").write_bytes(PNG)
    write("figures.csv", "year,price\n2007,60.94\n")
    model.turns.append(tool_calling.Turn("reply"))
    agent(model, EQUAL, """
        test_cases:
          - input: What is this?
            ground_truth: reply
            files:
              - {path: dot.png, type: image}
              - {path: figures.csv, type: csv, description: prices}
    """, provider=provider)  # fmt: skip

    assert dokimos("test", "-q") == 0

    content = model.received[0].body["messages"][-1]["content"]
    assert [part["type"] for part in content] == [
        "image_url" if provider == "openai" else "image",
        "text",
        "text",
    ]
    assert base64.b64encode(PNG).decode() in json.dumps(content)
    assert "2007,60.94" in content[1]["text"]
    assert content[1]["text"].startswith("File: figures.csv (prices)")
    assert content[2]["text"] == "What is this?"


def test_a_reply_of_a_form_comes_in_the_providers_own_way(model, tool_calling, capsys):
    model.turns.extend([tool_calling.Turn('{"answer": "many"}'), tool_calling.Turn('{"answer": 60.94}')])
    agent(model, """
        response_format:
          type: object
          properties: {answer: {type: number}}
          required: [answer]
          additionalProperties: false
        evaluations: {metrics: [{type: standard, metric: numeric, response_path: answer}]}
        test_cases: [{input: q, ground_truth: 60.94}]
    """)  # fmt: skip

    assert dokimos("test", "-q") == 0
    assert model.received[0].body["response_format"]["json_schema"]["strict"] is True
    assert len(model.received) == 2


def test_an_agent_is_closed_when_its_run_ends(model, tool_calling):
    model.answer = "reply"
    agent(model, ONE)
    suite = load_suite("agent.yaml")

    for _ in range(2):
        assert suite.experiment().run(journal=False, progress=False).pass_rate == 1.0

    assert not suite.application._backends


MCP = '''
import os
import sys
from mcp.server import MCPServer

server = MCPServer("figures")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def find(query: str) -> list[str]:
    """Find passages."""
    return [f"{query} is in the north", "it is cold there"]


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("no")


@server.tool()
def end() -> str:
    """End the server."""
    print("out of memory", file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(transport=sys.argv[2], port=int(sys.argv[1]))
    else:
        server.run(transport="stdio")
'''


class McpServer:
    """A server of MCP in a process of its own."""

    def __init__(self, transport, wait_until):
        self.transport = transport
        self.wait_until = wait_until
        self.port = find_port()
        self.process = None

    def start(self):
        arguments = [sys.executable, "mcp_server.py", str(self.port), self.transport]
        self.process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.wait_until(self.answers, seconds=60)

    def answers(self):
        with socket.socket() as attempt:
            return attempt.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        self.process.kill()
        self.process.wait(60)


@pytest.fixture
def mcp_server(workplace, wait_until):
    write("mcp_server.py", MCP)
    with contextlib.ExitStack() as stack:

        def started(transport):
            server = McpServer(transport, wait_until)
            stack.callback(lambda: server.stop())
            server.start()
            return server

        yield started


@pytest.fixture
def over_http(mcp_server):
    return f"http://127.0.0.1:{mcp_server('streamable-http').port}/mcp"


def test_a_server_of_mcp_is_spoken_to_over_sse(model, tool_calling, mcp_server, capsys):
    url = f"http://127.0.0.1:{mcp_server('sse').port}/sse"
    calls = (("add", {"a": 1, "b": 2}), ("find", {"query": "Oslo"}))
    model.turns.extend([tool_calling.Turn(calls=calls), tool_calling.Turn("reply")])
    agent(model, f"""
        tools: [{{name: far, type: mcp, url: "{url}", is_retrieval: true, request_timeout: 60}}]
    """, ONE)  # fmt: skip

    assert dokimos("test", "-o", "report.json") == 0, capsys.readouterr()

    outputs = outputs_in("report.json")
    assert outputs["toolCalls"][0]["result"] == "3"
    assert outputs["contexts"] == ["3", "Oslo is in the north", "it is cold there"]


@pytest.mark.parametrize(("transport", "path"), [("streamable-http", "mcp"), ("sse", "sse")])
def test_a_server_that_was_started_anew_is_connected_to_anew(
    model, tool_calling, mcp_server, transport, path, capsys
):
    server = mcp_server(transport)
    add = tool_calling.Turn(calls=(("add", {"a": 1, "b": 2}),))

    def turn(body):
        last = body["messages"][-1]
        if last["role"] == "tool":
            return tool_calling.Turn("reply")
        if last["content"] == "two":
            server.stop()
            server.start()
        return add

    model.turn_for = turn
    agent(model, f"""
        tools: [{{name: far, type: mcp, url: "http://127.0.0.1:{server.port}/{path}", request_timeout: 60}}]
    """, EQUAL, """
        test_cases:
          - {input: one, ground_truth: reply}
          - {input: two, ground_truth: reply}
          - {input: three, ground_truth: reply}
    """)  # fmt: skip

    assert dokimos("test", "-o", "report.json") in (0, 1), capsys.readouterr()

    first, during, after = load_result("report.json").item_results
    assert (first.success, after.success) == (True, True)
    assert during.error is None or "the server of far" in during.error


def test_servers_of_mcp_are_spoken_to_over_stdio_and_http(model, tool_calling, over_http, capsys):
    calls = (
        ("add", {"a": 1, "b": 2}),
        ("far_add", {"a": 3, "b": 4}),
        ("far_find", {"query": "Oslo"}),
        ("fail", {}),
    )
    model.turns.extend([tool_calling.Turn(calls=calls), tool_calling.Turn("reply")])
    agent(model, f"""
        tools:
          - {{name: near, type: mcp, command: python, args: [mcp_server.py], request_timeout: 60}}
          - {{name: far, type: mcp, url: "{over_http}", prefix: far, is_retrieval: true, request_timeout: 60}}
    """, EQUAL, """
        test_cases: [{input: q, ground_truth: reply}]
    """)  # fmt: skip

    assert dokimos("test", "-o", "report.json") == 0, capsys.readouterr()

    outputs = outputs_in("report.json")
    assert [call["result"] for call in outputs["toolCalls"]][:2] == ["3", "7"]
    assert outputs["toolCalls"][3]["metadata"]["error"] is True
    assert outputs["contexts"] == ["7", "Oslo is in the north", "it is cold there"]
    names = sorted(tool["function"]["name"] for tool in model.received[0].body["tools"])
    assert names == ["add", "end", "fail", "far_add", "far_end", "far_fail", "far_find", "find"]


def test_a_server_that_ends_is_an_error_of_its_case_and_started_again(model, tool_calling, capsys):
    write("mcp_server.py", MCP)
    add = tool_calling.Turn(calls=(("add", {"a": 1, "b": 2}),))
    end = tool_calling.Turn(calls=(("end", {}),))
    reply = tool_calling.Turn("reply")
    model.turns.extend([add, reply, end, add, reply, add, reply])
    agent(model, """
        tools: [{name: near, type: mcp, command: python, args: [mcp_server.py], request_timeout: 60}]
    """, EQUAL, """
        test_cases:
          - {input: one, ground_truth: reply}
          - turns: [{input: two}, {input: three, ground_truth: reply}]
          - {input: four, ground_truth: reply}
    """)  # fmt: skip

    assert dokimos("test", "-o", "report.json") == 1, capsys.readouterr()

    first, second, third = load_result("report.json").item_results
    told, answered = second.actual_outputs["turns"]
    assert "the server of near has stopped; near said: out of memory" in told["error"]
    for outputs in (first.actual_outputs, answered, third.actual_outputs):
        assert [call["result"] for call in outputs["toolCalls"]] == ["3"]


def test_a_server_that_cannot_be_started_is_told_with_what_it_said(model, capsys):
    write("broken.py", "raise SystemExit('there is no database')\n")
    agent(model, """
        tools: [{name: near, type: mcp, command: python, args: [broken.py]}]
    """, ONE)  # fmt: skip

    assert dokimos("test") == 3

    printed = capsys.readouterr().out
    assert "its tools cannot be used" in printed
    assert re.search(r"near said: .*there is no database", printed)
    assert not model.received


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_only_the_client_of_the_provider_is_imported(model, provider):
    agent(model, ONE, provider=provider)
    script = """
        import sys
        from dokimos.suites import load_suite
        load_suite("agent.yaml").experiment().run(progress=False, journal=False)
        print(*(name for name in ("openai", "anthropic", "fastmcp", "pypdf") if name in sys.modules))
    """

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [provider]


class Files(BaseHTTPRequestHandler):
    """Gives a picture, after a while where it is asked to."""

    def do_GET(self):
        if "slow" in self.path:
            self.server.released.wait(60)
        self.send_response(404 if "none" in self.path else 200)
        self.send_header("content-length", str(len(PNG)))
        self.end_headers()
        with contextlib.suppress(OSError):  # the one that asked did not wait
            self.wfile.write(PNG)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def files():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    server.released = threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_file_is_downloaded(files):
    assert asyncio.run(download(f"{files}/dot.png", 60)) == PNG


@pytest.mark.parametrize(
    ("path", "why"),
    [("none.png", "cannot be fetched: status 404"), ("slow.png", r"was not downloaded within 0\.2 s")],
)
def test_a_file_that_does_not_come_is_an_error(files, path, why):
    with pytest.raises(AgentError, match=why):
        asyncio.run(download(f"{files}/{path}", 0.2 if "slow" in path else 60))


def test_a_file_has_a_largest_size(files, monkeypatch):
    monkeypatch.setattr(inputs, "LARGEST", 10)

    with pytest.raises(AgentError, match="more than 10 bytes"):
        asyncio.run(download(f"{files}/dot.png", 60))


def test_the_example_passes_on_its_recorded_replies(capsys):
    example = Path(__file__).parents[2] / "examples" / "suite_agent"

    assert dokimos("test", example / "agent.yaml", "--replay", example / "data" / "calls.jsonl", "-q") == 0
    assert capsys.readouterr().out == "3 passed, 0 failed\n"


@pytest.fixture
def go_offline(monkeypatch):
    """A function that sets `DOKIMOS_OFFLINE`, for which only some of the servers are on this machine."""

    def go(*local):
        monkeypatch.setenv("DOKIMOS_OFFLINE", "1")
        monkeypatch.setattr("dokimos._http.offline.is_local", lambda url: url in local)

    return go


def test_no_model_is_called_offline_but_a_cassette_replays(model, tool_calling, go_offline, capsys):
    model.turns.append(tool_calling.Turn("reply"))
    agent(model, ONE)
    assert dokimos("test", "--record", "calls.jsonl") == 0, capsys.readouterr()
    go_offline()

    assert dokimos("test", "--replay", "calls.jsonl") == 0, capsys.readouterr()
    capsys.readouterr()
    assert dokimos("test") == 3
    assert "was not called because DOKIMOS_OFFLINE is set" in capsys.readouterr().out
    assert len(model.received) == 1


def test_no_server_of_tools_and_no_file_is_called_offline(model, go_offline, capsys):
    go_offline(model.base_url)
    agent(model, '\ntools: [{name: far, type: mcp, url: "http://127.0.0.1:9/mcp"}]\n', ONE)

    assert dokimos("test") == 3
    assert "the server of far: http://127.0.0.1:9/mcp was not called because" in capsys.readouterr().out
    with pytest.raises(AgentError, match="was not called because DOKIMOS_OFFLINE is set"):
        asyncio.run(download("http://127.0.0.1:9/a.txt", 5))
