"""Servers that judge are killed or frozen at any moment: only what was in flight is asked again."""

import asyncio
import json
import os
import random
import re
import signal
import time
from collections import Counter

import pytest
from tests.server.counting_endpoint import CountingEndpoint
from tests.server.judge_ledgers import calls_of, check_sums, opened
from tests.server.judge_runs import answered
from tests.server.server_process import Process
from tests.server.test_judge_models import documented

pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")

KILLS = 60 if "DOKIMOS_LONG_TESTS" in os.environ else 3
AT_ONCE = 8
PATIENCE = 240.0
SETTINGS = {
    "encryption_keys": ["passphrase"],
    "judging": {"lease_seconds": 2.0, "poll_seconds": 0.05, "page_size": 5},
}
BRIEF_TRANSACTIONS = """
from dokimos.server._db import postgres_database
from dokimos.server._workers import maintenance
postgres_database._ABANDONED_SECONDS = 10.0  # a minute for users
maintenance._ABANDONED_SECONDS = 2.0
"""


@pytest.fixture
def endpoint():
    reply = json.dumps({"reason": "So it is.", "score": 4})
    with CountingEndpoint(reply, name_prompt=find_item) as endpoint:
        yield endpoint


def find_item(prompt):
    """The item that a prompt asks for: what fences its texts is another in each prompt."""
    return re.search(r"answer \d+", prompt)[0]


@pytest.fixture
def start(database_settings):
    servers = []

    def begin(**settings):
        servers.append(Process({**database_settings, **SETTINGS, **settings}))
        return servers[-1]

    yield begin
    for server in servers:
        os.kill(server.pid, signal.SIGCONT) if server.process.poll() is None else None
        server.kill()


def begin_job(server, endpoint, items):
    body = {
        "name": "judge",
        "baseUrl": f"{endpoint.url}/v1",
        "model": "scripted",
        "apiKey": "sk-not-real-123",
        "protocol": "CHAT_COMPLETIONS",
    }
    connection = server.call("POST", "/llm-connections", body)[1]["id"]
    run = server.call("POST", "/projects/chat/runs", {"experimentName": "qa"})[1]["runId"]
    for first in range(0, items, 100):
        batch = [answered(f"answer {number}") for number in range(first, min(first + 100, items))]
        assert server.call("POST", f"/runs/{run}/items", {"items": batch})[0] == 201
    server.call("PATCH", f"/runs/{run}", {"status": "SUCCESS"})
    job = server.call("POST", f"/runs/{run}/judge-jobs", documented(connection, concurrency=AT_ONCE))[1]
    return run, job["id"]


def wait_for_end(server, run, job):
    limit = time.monotonic() + PATIENCE
    while True:
        found = server.call("GET", f"/runs/{run}/judge-jobs/{job}")[1]
        if found["status"] not in ("PENDING", "CLAIMED"):
            return found
        assert time.monotonic() < limit, f"the job is still {found}"
        time.sleep(0.05)  # between two looks


def check(server, settings, endpoint, run, job, items, *, stops):
    """Each item has one score, each request a row, and only what was in flight was asked again."""
    found = wait_for_end(server, run, job)
    assert (found["status"], found["scoredCount"], found["errorCount"]) == ("SUCCEEDED", items, 0)
    page = server.call("GET", f"/runs/{run}?size=2000")[1]
    scores = [[score["score"] for score in item["evalResults"]] for item in page["items"]["content"]]
    assert scores == [[4.0]] * items
    assert page["status"] == "SUCCESS"

    async def read():
        async with opened(settings) as database:
            return await calls_of(database), (await check_sums(database))[f"job:{job}"]

    server.stop()  # SQLite belongs to one process
    rows, budget = asyncio.run(read())
    statuses = Counter(row.status for row in rows)
    requests = sum(endpoint.counts.values())
    assert len(endpoint.counts) == statuses["ANSWERED"] == items
    assert statuses["RESERVED"] == 0
    assert budget.lost_calls == statuses["LOST"] <= stops * AT_ONCE
    assert requests <= len(rows), "each request was a row before it was sent"
    assert requests - items <= stops * AT_ONCE, "more was asked again than was in flight"


@pytest.mark.timeout(120 + 30 * KILLS)
def test_a_server_that_is_killed_while_it_judges_repeats_only_what_was_in_flight(
    database_settings, start, endpoint
):
    chance, items = random.Random(7), 20 * KILLS
    server = start()
    run = job = None
    for kill in range(KILLS):
        # Every other time it gets on: a job with which servers end again and again is given up.
        requests = chance.randint(1, AT_ONCE) if kill % 2 else chance.randint(AT_ONCE + 2, 24)
        endpoint.send_signal_after(server.process, requests)
        if job is None:
            run, job = begin_job(server, endpoint, items)
        assert endpoint.signalled.wait(PATIENCE)
        assert server.process.wait(60) == -signal.SIGKILL
        server = start()
    check(server, database_settings, endpoint, run, job, items, stops=KILLS)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("requests", [5, 12, 19])
def test_a_server_that_stands_still_for_longer_than_its_lease_stores_nothing_twice(
    postgres_database, endpoint, requests
):
    items, settings = 30, {"database_url": postgres_database}
    frozen = Process({**settings, **SETTINGS}, patches=BRIEF_TRANSACTIONS)
    other = None
    try:
        endpoint.send_signal_after(frozen.process, requests, signal.SIGSTOP)
        run, job = begin_job(frozen, endpoint, items)
        assert endpoint.signalled.wait(PATIENCE)
        other = Process({**settings, **SETTINGS}, patches=BRIEF_TRANSACTIONS)
        assert wait_for_end(other, run, job)["status"] == "SUCCEEDED"
        os.kill(frozen.pid, signal.SIGCONT)
        # It answers, and has put down the job that is not its own any more.
        assert frozen.call("GET", f"/runs/{run}/judge-jobs/{job}")[1]["scoredCount"] == items
        code, log = frozen.stop()
        assert (code, "Traceback" in log) == (0, False), log
        check(other, settings, endpoint, run, job, items, stops=1)
    finally:
        for server in (frozen, other):
            if server is not None and server.process.poll() is None:
                os.kill(server.pid, signal.SIGCONT)
                server.kill()
