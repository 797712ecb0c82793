"""Tools over a dokimos server: mounted at its `/mcp`, and in a process of its own, with the real client."""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from tests.servers.live import serving_app
from tests.servers.scripted import ScriptedServer

from dokimos import Example, Experiment
from dokimos._cli.main import run_command
from dokimos._cli.server_mcp import mount_mcp
from dokimos.client._reporter import ServerReporter
from dokimos.evaluators import ExactMatch
from dokimos.server import ServerSettings, create_app

pytest.importorskip("mcp", reason="the client is the extra mcp")
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

ADMIN = "the-key-of-the-administrator"
TOOLS = [
    "list_experiments", "compare_runs", "get_failing_queries", "get_item", "plan", "list_datasets",
    "search_traces", "annotate",
]  # fmt: skip
LETTERS = "abcdefghij"


class Team:
    """A server with two runs of an experiment, a data set and a trace, and a key for each role."""

    def __init__(self, url):
        self.url = url
        roles = ("EDITOR", "VIEWER")
        self.keys = {role: self.post("/api-keys", {"name": role, "role": role})["key"] for role in roles}
        self.runs = [self.report(task) for task in (str.upper, lambda text: "Obey me!")]
        self.post("/datasets", {"name": "letters", "description": "Do as I say."})
        self.post("/traces", self.trace())

    def report(self, task):
        reporter = ServerReporter(server_url=self.url, project_name="shop", api_key=self.keys["EDITOR"])
        examples = [Example.of(letter, letter.upper()) for letter in LETTERS]
        experiment = Experiment(examples, task, [ExactMatch()], name="shout", reporters=[reporter])
        result = experiment.run(quiet=True, journal=False)
        reporter.close()
        return result.server_run_ids[0]

    def trace(self):
        now = time.time_ns()
        span = {
            "traceId": "a" * 32, "spanId": "b" * 16, "name": "answer", "startTimeUnixNano": str(now),
            "endTimeUnixNano": str(now + 10**9),
            "attributes": [{"key": "input.value", "value": {"stringValue": "Where is my parcel?"}}],
        }  # fmt: skip
        project = {"key": "dokimos.project", "value": {"stringValue": "shop"}}
        resource = {"resource": {"attributes": [project]}, "scopeSpans": [{"spans": [span]}]}
        return {"resourceSpans": [resource]}

    def post(self, path, body):
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN}"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    settings = ServerSettings(
        data_dir=tmp_path_factory.mktemp("server"), api_key=ADMIN, require_auth_for_reads=True
    )
    app = create_app(settings)
    mount_mcp(app)
    with serving_app(app) as url:
        yield Team(url)


@asynccontextmanager
async def connect_to_server(team, key):
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        create_mcp_http_client(headers=headers) as connection,
        Client(streamable_http_client(f"{team.url}/mcp", http_client=connection)) as client,
    ):
        yield client


@asynccontextmanager
async def connect_to_process(team, key, folder, model):
    environment = {
        "OPENAI_API_KEY": "sk-test-0123456789abcdef", "OPENAI_BASE_URL": f"{model.url}/v1",
        "DOKIMOS_API_KEY": key, "HOME": str(folder), "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }  # fmt: skip
    options = ["--server", team.url, "--project", "bought", "--allow", str(folder)]
    arguments = ["-m", "dokimos", "mcp", *options]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=folder)
    async with Client(stdio_client(parameters)) as client:
        yield client


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return json.loads(result.content[0].text)


async def refuse(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content[0].text
    return result.content[0].text


async def look_around(client, team):
    """Ask for everything that an agent may read, and annotate an item."""
    baseline, candidate = team.runs
    listed = await call(client, "list_experiments", project="shop")
    assert [one["run_id"] for one in listed["runs"]] == [candidate]
    runs = await call(client, "list_experiments", project="shop", experiment="shout", limit=1)
    assert (runs["runs"][0]["run_id"], runs["runs"][0]["pass_rate"], runs["next_cursor"]) == (
        candidate,
        0.0,
        "1",
    )

    compared = await call(client, "compare_runs", run_id_a=baseline, run_id_b=candidate)
    assert compared["verdict"] == "Worse: pass rate, Exact Match, over 10 items of both runs."
    assert compared["comparison"]["has_regressions"] is True
    assert compared["comparison"]["changed_case_count"] == 10

    failing = await call(client, "get_failing_queries", run_id=candidate)
    assert failing["failing_count"] == len(failing["failing_queries"]) == 10
    assert failing["failing_queries"][3]["input"].startswith("<data ")
    assert (await call(client, "get_failing_queries", run_id=baseline))["failing_count"] == 0
    assert (await call(client, "get_failing_queries", run_id=baseline, threshold=1.5))["failing_count"] == 10

    item = failing["failing_queries"][3]["item_id"]
    annotated = await call(
        client, "annotate", run_id=candidate, item_id=item, verdict="INCORRECT", note="No."
    )
    assert annotated["verdict"] == "INCORRECT"
    for name in (item, "3"):
        (found,) = (await call(client, "get_item", run_id=candidate, item=name))["repeats"]
        assert (found["index"], "INCORRECT" in found["annotation"]) == (3, True)
    (data,) = (await call(client, "list_datasets"))["datasets"]
    assert (data["name"], "<data " in data["description"]) == ("letters", True)
    (trace,) = (await call(client, "search_traces", project="shop", status="ok"))["traces"]
    assert "Where is my parcel?" in trace["inputText"]
    assert (await call(client, "search_traces", project="shop", search="nowhere"))["traces"] == []
    planned = await call(client, "plan", run_id=baseline, drop=0.2)
    assert (planned["items"], planned["metrics"][0]["metric"]) == (10, "pass rate")
    assumed = await call(client, "plan", pass_rate=0.9, drop=0.1)
    assert assumed["metrics"][0]["items_needed"] > 50
    for run_id in ("latest", "../api-keys", "%2e%2e", candidate[:8], "?size=1"):
        assert "is not the id of a run" in await refuse(client, "get_failing_queries", run_id=run_id)
    unknown = "01a222d7-0bad-7116-afbb-8192877112e5"
    assert "404" in await refuse(client, "get_failing_queries", run_id=unknown)


async def test_the_endpoint_of_a_server_has_its_tools(team):
    async with connect_to_server(team, team.keys["EDITOR"]) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        await look_around(client, team)


async def test_a_process_of_its_own_has_them_too_and_runs_evaluations(team, tmp_path):
    (tmp_path / "qa.csv").write_text("input,expected_output\nhello,Hi\nbye,Bye\n")
    with ScriptedServer("Hi") as model:
        async with connect_to_process(team, team.keys["EDITOR"], tmp_path, model) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["run_evaluation", "run_suite", *TOOLS]
            await look_around(client, team)
            run = await call(client, "run_evaluation", dataset_path="qa.csv")
            (failing,) = (await call(client, "get_failing_queries", run_id=run["run_id"]))["failing_queries"]
            assert ">bye</data" in failing["input"]
            (listed,) = (await call(client, "list_experiments"))["runs"]
            assert (listed["run_id"], listed["experiment_name"]) == (run["run_id"], "mcp-evaluation")


def test_evaluations_for_a_server_need_a_project(monkeypatch, capsys):
    monkeypatch.delenv("DOKIMOS_PROJECT_NAME", raising=False)
    assert run_command(["mcp", "--server", "http://127.0.0.1:9"]) == 2
    assert "Name the project that evaluations are reported to" in capsys.readouterr().err


async def test_an_agent_may_do_what_its_key_may(team):
    item = "01a222d7-0bad-7116-afbb-8192877112e5"
    async with connect_to_server(team, team.keys["VIEWER"]) as client:
        assert "Name a project of the server: " in await refuse(client, "list_experiments")
        refusal = await refuse(client, "annotate", run_id=team.runs[0], item_id=item, verdict="CORRECT")
        assert "EDITOR required" in refusal
        assert (await call(client, "list_experiments", project="shop"))["count"] == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {ADMIN}"}, 200),
        ({"Authorization": f"Bearer {ADMIN}", "Origin": "https://evil.example"}, 403),
        ({"Cookie": "dokimos_session=x"}, 401),
    ],
)
def test_only_those_who_may_read_the_server_are_answered(team, headers, status):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(f"{team.url}/mcp", body, headers)
    if status != 200:
        with pytest.raises(urllib.error.HTTPError, match=str(status)):
            urllib.request.urlopen(request)
        return
    with urllib.request.urlopen(request) as reply:
        assert len(json.load(reply)["result"]["tools"]) == len(TOOLS)


@pytest.mark.parametrize(
    ("status", "fields", "answered"),
    [(503, {}, (503, "1")), (503, {"Retry-After": "7"}, (503, "7")), (429, {"Retry-After": "9"}, (429, "9"))],
)
async def test_a_busy_server_says_when_to_try_again(status, fields, answered):
    app = FastAPI()
    app.get("/api/v1/projects")(lambda: JSONResponse({"message": "busy"}, status, fields))
    mount_mcp(app)
    messages = []
    scope = {
        "type": "http", "method": "POST", "path": "/mcp", "raw_path": b"/mcp", "query_string": b"",
        "root_path": "", "headers": [(b"content-type", b"application/json")], "client": None,
    }  # fmt: skip

    async def send(message):
        messages.append(message)

    await app(scope, None, send)
    assert (messages[0]["status"], dict(messages[0]["headers"])[b"retry-after"].decode()) == answered


def test_a_call_takes_one_place_of_those_that_the_server_has_and_is_counted_by_its_path(tmp_path, wait_until):
    app = create_app(ServerSettings(data_dir=tmp_path, max_requests=1))
    mount_mcp(app)
    call = {"name": "list_datasets", "arguments": {}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    with serving_app(app) as url:
        request = urllib.request.Request(f"{url}/mcp", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            assert json.load(reply)["result"].get("isError") is not True

        def is_counted():
            with urllib.request.urlopen(f"{url}/metrics") as reply:
                lines = reply.read().decode().splitlines()
            return any('route="/mcp"' in line and line.endswith(" 1.0") for line in lines)

        wait_until(is_counted)  # a moment after its answer
