"""Processes that judge are killed at any moment: what was answered is not asked again."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.server.judge_ledgers import calls_of, check_sums, give_to, new_job, opened

KILLS = int(os.environ.get("DOKIMOS_TEST_JUDGE_KILLS", "3"))
"""How often a process is killed; 60 in the long form of the test."""
PROMPTS = 20 * KILLS
AT_ONCE = 8
WORK = """
import asyncio, json, sys
from pathlib import Path
from dokimos.judges import Budget, judge
from dokimos.judges._judge_calls import complete
from dokimos.judges._run_scope import RunScope, enter_scope
from dokimos.server import ServerSettings
from dokimos.server._db.database import open_database
from dokimos.server._services.judge_budgets import Limits
from dokimos.server._services.judge_call_bounds import CallBounds
from dokimos.server._services.judge_leases import LeasedJob
from dokimos.server._services.judge_ledger import JudgeLedger

async def main(url, settings, job, prompts, at_once):
    if "data_dir" in settings:
        settings["data_dir"] = Path(settings["data_dir"])
    database = open_database(ServerSettings(**settings))
    await database.open()
    model = judge(f"{url}/v1#scripted", max_tokens=50)
    limits = Limits(job=Budget(max_calls=prompts * 10))
    ledger = JudgeLedger(database, LeasedJob(**job), limits, CallBounds.of(model))
    await ledger.open()
    enter_scope(RunScope(budget=ledger, call_stores=(ledger,), in_flight={}))
    numbers = iter(range(prompts))
    async def work():
        for number in numbers:
            await complete(model, f"prompt {number}")
    await asyncio.gather(*(work() for _ in range(at_once)))
    await ledger.close()
    await database.close()

asyncio.run(main(*json.loads(sys.argv[1])))
"""


class CountingEndpoint:
    """Counts the prompts that it is sent, and kills the process that sends them after so many."""

    def __init__(self):
        self.counts = Counter()
        self.process = None
        self.left = None
        """How many requests are taken until the process is killed; None for any number."""
        self._mutex = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.count(body["messages"][-1]["content"])
                answer = {
                    "model": "scripted",
                    "choices": [
                        {"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
                    ],
                    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
                }
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # of those that were killed
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def count(self, prompt):
        with self._mutex:
            self.counts[prompt] += 1
            if self.left is not None:
                self.left -= 1
                if self.left == 0:
                    os.kill(self.process.pid, signal.SIGKILL)


@pytest.fixture
def endpoint():
    endpoint = CountingEndpoint()
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()


def judge_in_process(endpoint, settings, job, kill_after):
    """Judge in a process of its own, and return its exit code."""
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}
    fields = {name: getattr(job, name) for name in ("job_id", "project_id", "tenant_id", "lease")}
    arguments = json.dumps([endpoint.url, settings, fields, PROMPTS, AT_ONCE])
    endpoint.left = kill_after
    endpoint.process = subprocess.Popen([sys.executable, "-c", WORK, arguments])
    return endpoint.process.wait(120)


@pytest.mark.timeout(60 + 30 * KILLS)
def test_a_process_that_is_killed_at_any_moment_has_only_its_calls_in_flight_repeated(
    database_settings, endpoint
):
    chance = random.Random(7)

    async def claim(lease, job=None):
        async with opened(database_settings) as database:
            return await (new_job(database, lease=lease) if job is None else give_to(database, job, lease))

    async def answered():
        async with opened(database_settings) as database:
            return sum(row.status == "ANSWERED" for row in await calls_of(database))

    job = asyncio.run(claim("0"))
    for kill in range(KILLS):
        before = sum(endpoint.counts.values())
        known = asyncio.run(answered())
        code = judge_in_process(endpoint, database_settings, job, chance.randint(1, 18))
        assert code == -signal.SIGKILL
        stored = asyncio.run(answered()) - known
        assert sum(endpoint.counts.values()) - before - stored <= AT_ONCE, "lost more than was in flight"
        job = asyncio.run(claim(f"{kill + 1}", job))
    assert judge_in_process(endpoint, database_settings, job, None) == 0

    async def check():
        async with opened(database_settings) as database:
            rows = await calls_of(database)
            statuses = Counter(row.status for row in rows)
            budget = (await check_sums(database))[f"job:{job.job_id}"]
        assert statuses["ANSWERED"] == PROMPTS == len(endpoint.counts)
        assert statuses["RESERVED"] == 0
        assert budget.lost_calls == statuses["LOST"]
        assert sum(endpoint.counts.values()) <= len(rows), "each request was a row before it was sent"
        assert sum(endpoint.counts.values()) - PROMPTS <= KILLS * AT_ONCE

    asyncio.run(check())
