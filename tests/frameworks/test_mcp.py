"""MCP, with a real server in memory and real client sessions."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from contract import ROOT, guide
from dokimos import Dataset, Example, evaluate
from dokimos._core.agent import ToolCall
from dokimos._core.jsonable import jsonable
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import IntegrationError
from dokimos.evaluators import Correctness, ExactMatch, ToolCallValidity, ToolErrors, ToolTrajectory
from dokimos.integrations import mcp
from dokimos.simulation import ConversationSimulator, ScriptedUser

WEATHER = {"Paris": "21 degrees", "Rome": "25 degrees"}
CALLS = [
    {"name": "get_weather", "arguments": {"city": "Paris"}},
    {"name": "get_weather", "arguments": {"city": "Rome"}},
    {"name": "book_flight", "arguments": {"to": "Rome"}},
]


def make_server():
    server = MCPServer("weather")

    @server.tool()
    def get_weather(city: str) -> str:
        """Tell the weather in a city."""
        return WEATHER[city]

    @server.tool()
    def book_flight(to: str) -> str:
        """Book a flight to a city."""
        raise ToolError("no seats left")

    @server.tool()
    def forecast(city: str) -> dict[str, int]:
        """Tell tomorrow's weather."""
        return {"high": 25, "low": 17}

    @server.tool()
    def answer(prompt: str) -> str:
        """Answer a question."""
        return '{"reason": "So it is.", "score": 5}' if "criteria" in prompt.lower() else f"You said {prompt}"

    return server


def check(trace):
    assert [(call.name, dict(call.arguments)) for call in trace.tool_calls] == [
        (call["name"], call["arguments"]) for call in CALLS
    ]
    assert [call.result for call in trace.tool_calls[:2]] == ["21 degrees", "25 degrees"]
    assert "no seats left" in trace.tool_calls[2].result
    assert [bool(call.metadata.get("error")) for call in trace.tool_calls] == [False, False, True]


def test_calls_become_a_trace():
    check(mcp.run_and_trace(make_server(), CALLS))


async def test_a_traced_session_writes_down_whoever_uses_it():
    async with Client(make_server()) as client:
        session = mcp.TracedSession(client)
        listed = await session.list_tools()
        for call in CALLS:
            await session.call_tool(call["name"], call["arguments"])
        assert session.server_info.name == "weather"

    check(mcp.to_agent_trace(session))
    assert {tool.name for tool in session.collector.tool_definitions()} == {
        tool.name for tool in listed.tools
    }


async def test_an_open_session_is_used_as_it_is():
    async with Client(make_server()) as client:
        trace = await mcp.run_and_trace_async(client, CALLS)

    check(trace)


async def test_calls_at_once_are_kept_apart():
    import asyncio

    async with Client(make_server()) as client:
        session = mcp.TracedSession(client)
        await asyncio.gather(*(session.call_tool(call["name"], call["arguments"]) for call in CALLS))

    found = {json.dumps(dict(call.arguments)): call.result for call in session.trace().tool_calls}
    assert found['{"city": "Paris"}'] == "21 degrees"
    assert found['{"city": "Rome"}'] == "25 degrees"


def test_what_is_recorded_reads_like_the_result():
    async def record():
        async with Client(make_server()) as client:
            return [
                {**call, "result": (await client.call_tool(call["name"], call["arguments"])).model_dump()}
                for call in CALLS
            ]

    recorded = json.loads(json.dumps(jsonable(run_sync(record()))))

    check(mcp.to_agent_trace(recorded))
    tools = [jsonable(tool) for tool in mcp.to_tool_definitions(make_server())]
    correct = {"plain": {"calls": CALLS[:2], "tools": tools, "result": recorded[:2]}}
    if os.environ.get("DOKIMOS_RECORD"):
        tree = {
            "framework": f"mcp {version('mcp')}", "failure": "no seats left", "failureIsFlagged": True,
            "modelCalls": 0, "finalResponse": False, "result": recorded,
        }  # fmt: skip
        folder = ROOT / "tests" / "data" / "frameworks"
        for path, content in ((folder / "mcp.json", tree), (folder / "correct" / "mcp.json", correct)):
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def test_a_correct_run_is_valid_by_the_servers_own_tools():
    calls = [ToolCall(call["name"], call["arguments"]) for call in CALLS[:2]]
    task = mcp.as_task(make_server())
    examples = Dataset([Example({"input": CALLS[:2]}, {"toolCalls": calls})])

    result = evaluate(examples, task, [ToolCallValidity(), ToolTrajectory(mode="strict"), ToolErrors()])

    item = result.runs[0].item_results[0]
    assert [each.score for each in item.eval_results] == [1.0] * 3
    assert item.actual_outputs["tools"] == list(mcp.to_tool_definitions(make_server()))


async def test_a_session_that_breaks_off_keeps_the_calls_until_then():
    async with Client(make_server()) as client:
        session = Failing(client)
        result = await mcp.as_task(session)(Example.of(CALLS[:2]))

    assert result.error == "ConnectionError: the server is gone"
    assert [call.result for call in result.outputs["toolCalls"]] == ["21 degrees", None]


class Failing(mcp.TracedSession):
    """A session whose server goes away after one call."""

    async def call_tool(self, name, arguments=None, **options):
        if self.collector.tool_calls:
            raise ConnectionError("the server is gone")
        return await super().call_tool(name, arguments, **options)


def test_a_server_is_asked_for_its_tools():
    tools = mcp.to_tool_definitions(make_server())

    weather = next(tool for tool in tools if tool.name == "get_weather")
    assert weather.description == "Tell the weather in a city."
    assert weather.required == ("city",)
    assert weather.schema_of("city")["type"] == "string"


def test_a_tool_is_a_task():
    examples = Dataset(
        [Example.of({"city": "Rome"}, "25 degrees"), Example.of({"city": "Paris"}, "25 degrees")]
    )

    result = evaluate(examples, mcp.as_task(make_server(), "get_weather"), [ExactMatch(), ToolErrors()])

    assert result.pass_rate == 0.5
    assert result.average_score("Tool Error") == 1.0


def test_what_a_tool_returns_as_an_object_is_the_output():
    result = run_sync(mcp.as_task(make_server(), "forecast", argument="city")(Example.of("Rome")))

    assert result.outputs["output"] == {"high": 25, "low": 17}


def test_a_tool_that_fails_is_a_failed_call_and_no_error_of_the_item():
    task = mcp.as_task(make_server(), "book_flight", argument="to")

    result = evaluate(Dataset([Example.of("Rome")]), task, [ToolErrors()])

    assert result.runs[0].item_results[0].error is None
    assert result.average_score("Tool Error") == 0.0


def test_a_tool_that_does_not_exist_is_a_failed_call():
    trace = mcp.run_and_trace(make_server(), ToolCall("fly", {}))

    assert trace.tool_calls[0].metadata["error"]
    assert "fly" in trace.tool_calls[0].result


def test_results_of_tools_are_the_context():
    task = mcp.as_task(make_server(), context_tools=("get_weather",))

    result = run_sync(task(Example.of(CALLS)))

    assert result.outputs["contexts"] == ["21 degrees", "25 degrees"]


def test_a_tool_is_an_application_and_a_judge():
    simulator = ConversationSimulator(
        user=ScriptedUser(["Hello", "Bye"]),
        application=mcp.as_application(make_server(), "answer", argument="prompt"),
        max_turns=2,
    )
    judge = Correctness(judge=mcp.as_judge(make_server(), "answer", argument="prompt"))

    said = [message.content for message in simulator.simulate().assistant_messages]
    result = judge.evaluate(Example.of("Capital?", "Rome").to_test_case("Rome"))

    assert said == ["You said Hello", "You said Bye"]
    assert result.error is None


def test_an_input_that_is_not_a_map_needs_the_name_of_its_argument():
    with pytest.raises(IntegrationError, match="argument="):
        run_sync(mcp.as_task(make_server(), "get_weather")(Example.of("Rome")))


def test_the_guide_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    names = guide("mcp", tmp_path)

    assert [call.name for call in names["trace"].tool_calls] == ["get_weather"]


def test_the_example_runs(tmp_path):
    example = Path(ROOT, "examples", "frameworks", "mcp_agent.py")

    outcome = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
