"""Servers that score traces are killed or frozen at any moment: only what was in flight is asked again."""

import asyncio
import json
import os
import random
import re
import signal
import sqlite3
import time
from contextlib import closing, suppress

import asyncpg
import pytest
from tests.server.counting_endpoint import CountingEndpoint
from tests.server.eval_rules import KEY, documented, span
from tests.server.server_process import Process, execute

pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")

KILLS = 20 if "DOKIMOS_LONG_TESTS" in os.environ else 3
AT_ONCE = 8
PATIENCE = 240.0
SETTINGS = {
    "encryption_keys": ["passphrase"],
    "online": {"claim_seconds": 2.0, "poll_seconds": 0.05, "max_concurrency": AT_ONCE},
}
BRIEF_TRANSACTIONS = """
from dokimos.server._db import postgres_database
from dokimos.server._workers import maintenance
postgres_database._ABANDONED_SECONDS = 10.0  # a minute for users
maintenance._ABANDONED_SECONDS = 2.0
"""


@pytest.fixture
def endpoint():
    reply = json.dumps({"reason": "So it is.", "score": 1})
    with CountingEndpoint(reply, name_prompt=lambda prompt: re.search(r"answer \d+", prompt)[0]) as endpoint:
        yield endpoint


@pytest.fixture
def start(database_settings):
    servers = []

    def begin():
        servers.append(Process({**database_settings, **SETTINGS}))
        return servers[-1]

    yield begin
    for server in servers:
        server.kill()


def begin_scoring(server, endpoint, spans, trace=None):
    body = {
        "name": "judge",
        "baseUrl": f"{endpoint.url}/v1",
        "model": "scripted",
        "apiKey": KEY,
        "protocol": "CHAT_COMPLETIONS",
    }
    connection = server.call("POST", "/llm-connections", body)[1]["id"]
    server.call("POST", "/projects/chat/runs", {"experimentName": "qa"})
    project = server.call("GET", "/projects")[1][0]["id"]
    body = documented(connection, review={"otherRate": 1.0, "maxPerDay": 1000})
    status, rule = server.call("POST", f"/projects/{project}/trace-eval-rules", body)
    assert status == 201, rule
    resource = {"attributes": [{"key": "dokimos.project", "value": {"stringValue": "chat"}}]}
    texts = [span(f"answer {number}", trace=trace) for number in range(spans)]
    batch = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": texts}]}]}
    with suppress(OSError):  # killed while it answered; the spans were stored before
        assert server.call("POST", "/traces", batch)[0] == 200


def query_traces(settings, statement):
    if "data_dir" in settings:
        with closing(sqlite3.connect(settings["data_dir"] / "traces.db", timeout=60)) as connection:
            return connection.execute(statement).fetchall()

    async def run():
        connection = await asyncpg.connect(settings["database_url"])
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    return asyncio.run(run())


def wait_for_end(settings, spans):
    limit = time.monotonic() + PATIENCE
    statement = "SELECT status, count(*), min(score), max(score) FROM trace_eval_jobs GROUP BY status"
    while True:
        found = query_traces(settings, statement)
        if found == [("SUCCEEDED", spans, 1.0, 1.0)]:
            return
        assert time.monotonic() < limit, f"the jobs are still {found}"
        time.sleep(0.05)  # between two looks


def check(settings, endpoint, spans, *, stops):
    """Each span has one score, each request a row, and only what was in flight was asked again."""
    wait_for_end(settings, spans)
    calls = dict(execute(settings, "SELECT status, count(*) FROM trace_eval_calls GROUP BY status"))
    requests = sum(endpoint.counts.values())
    assert calls["ANSWERED"] == len(endpoint.counts) == spans
    assert calls.get("RESERVED", 0) == 0
    assert calls.get("LOST", 0) <= stops * AT_ONCE
    assert requests <= sum(calls.values()), "each request was a row before it was sent"
    assert requests - spans <= stops * AT_ONCE, "more was asked again than was in flight"
    sums = execute(settings, "SELECT sum(reserved_calls), max(spent_calls) FROM judge_budgets")
    assert [tuple(map(int, row)) for row in sums] == [(0, sum(calls.values()))]
    check_queue(settings, spans)


def check_queue(settings, spans):
    """Each score is in the review queue once, as soon as the batches have ended."""
    limit = time.monotonic() + PATIENCE
    while execute(settings, "SELECT id FROM trace_eval_batches WHERE completed_at IS NULL"):
        assert time.monotonic() < limit, "a batch does not end"
        time.sleep(0.05)  # between two looks
    queued = "SELECT count(*), count(DISTINCT item_id), min(probability) FROM trace_eval_reviews"
    assert [tuple(row) for row in execute(settings, queued)] == [(spans, spans, 1.0)]
    assert [tuple(row) for row in execute(settings, "SELECT count(*) FROM items")] == [(spans,)]


@pytest.mark.timeout(120 + 60 * KILLS)
def test_a_server_that_is_killed_while_it_scores_repeats_only_what_was_in_flight(
    database_settings, start, endpoint
):
    chance, spans = random.Random(11), 20 * KILLS
    server = start()
    for kill in range(KILLS):
        endpoint.send_signal_after(server.process, chance.randint(1, 18))
        if not kill:
            begin_scoring(server, endpoint, spans)
        assert endpoint.signalled.wait(PATIENCE)
        assert server.process.wait(60) == -signal.SIGKILL
        server = start()
    check(database_settings, endpoint, spans, stops=KILLS)


@pytest.mark.timeout(600)
def test_a_server_that_stands_still_for_longer_than_its_lease_stores_nothing_twice(
    postgres_database, endpoint
):
    spans, settings = 30, {"database_url": postgres_database}
    frozen = Process({**settings, **SETTINGS}, patches=BRIEF_TRANSACTIONS)
    other = None
    try:
        endpoint.send_signal_after(frozen.process, 12, signal.SIGSTOP)
        # Of one trace, whose jobs are made at once: while a server matches, no other one does.
        begin_scoring(frozen, endpoint, spans, trace="ab" * 16)
        assert endpoint.signalled.wait(PATIENCE)
        other = Process({**settings, **SETTINGS}, patches=BRIEF_TRANSACTIONS)
        wait_for_end(settings, spans)
        os.kill(frozen.pid, signal.SIGCONT)
        assert frozen.call("GET", "/projects")[0] == 200
        code, log = frozen.stop()
        assert (code, "Traceback" in log) == (0, False), log
        check(settings, endpoint, spans, stops=1)
    finally:
        for server in (frozen, other):
            if server is not None and server.process.poll() is None:
                os.kill(server.pid, signal.SIGCONT)
                server.kill()
