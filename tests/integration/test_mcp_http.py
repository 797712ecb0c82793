"""The MCP server over HTTP: the real client, what is refused, and clients that go away."""

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import pytest
from tests.servers.live import serving_app

from dokimos._cli.main import run_command
from dokimos._mcp.http import MOST_BYTES, Guard, StandaloneApp
from dokimos._mcp.protocol import Endpoint, report_progress
from dokimos._mcp.tool import Parameter, Tool

pytest.importorskip("mcp", reason="the client is the extra mcp")
from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

KEY = "a-key-for-agents"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Calls:
    """A tool that counts aloud, and one that waits until its client goes."""

    def __init__(self):
        self.has_begun, self.was_cancelled = threading.Event(), threading.Event()

    async def count(self, arguments):
        for number in range(arguments["to"]):
            report_progress(number + 1, arguments["to"])
            await asyncio.sleep(0)
        return {"counted": arguments["to"]}

    async def wait(self, arguments):
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise

    def endpoint(self):
        to = Parameter("to", "integer", "Up to which number", default=3)
        return Endpoint(
            [
                Tool(name="count", description="Counts.", call=self.count, parameters=(to,)),
                Tool(name="wait", description="Waits.", call=self.wait, spends=True),
            ],
            instructions="",
        )


@pytest.fixture(scope="module")
def calls():
    return Calls()


@pytest.fixture(scope="module")
def address(calls):
    with serving_app(StandaloneApp(calls.endpoint(), Guard(KEY)), lifespan="off") as url:
        yield f"{url}/mcp"


def post(address, message=PING, method="POST", path=None, **headers):
    """Send a request by hand and return its status and what is answered."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port)
    fields = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    with contextlib.closing(connection):
        connection.request(
            method, path or parts.path, body, {k: v for k, v in fields.items() if v is not None}
        )
        reply = connection.getresponse()
        return reply.status, reply.read()


async def test_the_real_client_lists_calls_and_hears_of_progress(address):
    heard = []

    async def note(done, total, message):
        heard.append((done, total))

    async with (
        create_mcp_http_client(headers={"Authorization": f"Bearer {KEY}"}) as connection,
        Client(streamable_http_client(address, http_client=connection)) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["count", "wait"]
        answers = await asyncio.gather(*(client.call_tool("count", {"to": number}) for number in range(5)))
        assert [json.loads(one.content[0].text)["counted"] for one in answers] == list(range(5))
        await client.call_tool("count", {"to": 2}, progress_callback=note)
        assert (await client.call_tool("count", {"to": "x"})).is_error
    assert heard == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 200),
        ({"message": {"jsonrpc": "2.0", "method": "notifications/initialized"}}, 202),
        ({"Authorization": "bearer  " + KEY}, 200),
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic " + KEY}, 401),
        ({"Authorization": "Bearer \xff"}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:3000"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Origin": "http://localhost:1", "Host": "localhost:1"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "[::1"}, 421),
        ({"Host": "localhost:1"}, 200),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": None}, 415),
        ({"Content_Type": "application/json; charset=utf-8"}, 200),
        ({"MCP_Protocol_Version": "2025-06-18"}, 200),
        ({"MCP_Protocol_Version": "1999-01-01"}, 400),
        ({"message": b"nonsense"}, 400),
        ({"message": [PING]}, 400),
        ({"message": b" " * (MOST_BYTES + 1)}, 413),
        ({"method": "GET"}, 405),
        ({"method": "DELETE"}, 405),
        ({"path": "/"}, 404),
        ({"path": "/mcp/"}, 200),
    ],
)
def test_only_messages_of_those_who_may_are_answered(address, changes, status):
    assert post(address, **changes)[0] == status


def test_a_call_ends_when_its_client_goes_away(address, calls):
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port)
    message = {**PING, "method": "tools/call", "params": {"name": "wait"}}
    fields = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    connection.request("POST", parts.path, json.dumps(message), fields)
    assert calls.has_begun.wait(30)
    connection.close()
    assert calls.was_cancelled.wait(30)


async def test_a_call_ends_when_the_real_client_cancels_it(address, calls):
    calls.has_begun.clear()
    calls.was_cancelled.clear()
    async with (
        create_mcp_http_client(headers={"Authorization": f"Bearer {KEY}"}) as connection,
        Client(streamable_http_client(address, http_client=connection)) as client,
    ):
        waiting = asyncio.create_task(client.call_tool("wait", {}))
        assert await asyncio.to_thread(calls.has_begun.wait, 30)
        waiting.cancel()
        # The client is still there: it is its message that ends the call.
        assert await asyncio.to_thread(calls.was_cancelled.wait, 30)
        assert json.loads((await client.call_tool("count", {"to": 1})).content[0].text) == {"counted": 1}


def start_waiting(address, calls, session, answers):
    """Start a call in a session by hand, whose answer goes into a list."""
    calls.has_begun.clear()
    calls.was_cancelled.clear()
    message = {**PING, "id": 7, "method": "tools/call", "params": {"name": "wait"}}
    thread = threading.Thread(target=lambda: answers.append(post(address, message, Mcp_Session_Id=session)))
    thread.start()
    assert calls.has_begun.wait(30)
    return message, thread


@pytest.mark.parametrize("way", ["notification", "DELETE"])
def test_only_the_session_of_a_call_can_end_it(address, calls, way):
    answers = []
    message, thread = start_waiting(address, calls, "mine", answers)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}

    def end(**headers):
        if way == "DELETE":
            return post(address, method="DELETE", **headers)[0]
        return post(address, cancel, **headers)[0]

    done = 204 if way == "DELETE" else 202
    assert end(Mcp_Session_Id="another") == done
    assert end(Mcp_Session_Id="mine", Authorization=None) == 401
    # Its id is in use as long as it goes on.
    status, body = post(address, message, Mcp_Session_Id="mine")
    assert (status, json.loads(body)["error"]["code"]) == (400, -32600)
    assert not calls.was_cancelled.is_set()
    assert end(Mcp_Session_Id="mine") == done
    assert calls.was_cancelled.wait(30)
    thread.join(30)
    assert (answers[0][0], json.loads(answers[0][1])["error"]["code"]) == (200, -32800)


def test_others_may_reach_it_only_with_a_key(capsys, monkeypatch):
    monkeypatch.delenv("DOKIMOS_MCP_KEY", raising=False)
    assert run_command(["mcp", "--http", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "set DOKIMOS_MCP_KEY" in capsys.readouterr().err


def test_the_command_serves_and_stops(tmp_path):
    command = [sys.executable, "-m", "dokimos", "mcp", "--http", "--port", "0", "--read-only"]
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    ) as process:
        url = re.search(r"http://\S+/mcp", process.stdout.readline())[0]
        message = {**PING, "method": "tools/call", "params": {"name": "list_experiments"}}
        status, body = post(url, message)
        assert (status, '\\"count\\": 0' in body.decode()) == (200, True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, 143)
