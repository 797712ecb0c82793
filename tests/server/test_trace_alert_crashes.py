"""Servers that watch traces are killed: what an alert comes to is what one pass in memory comes to."""

import asyncio
import json
import os
import random

import pytest
from tests.server.alert_receiver import open_receiver
from tests.server.alert_traces import insert, past, trace_rows
from tests.server.server_process import Process, execute, wait_until

from dokimos.server import ServerSettings
from dokimos.server._db.clock import format_time
from dokimos.server._db.database import open_trace_database
from dokimos.stats import ChangeDetector

IS_LONG = "DOKIMOS_LONG_TESTS" in os.environ
KILLS = 10
COUNT = 12_000
BASELINE = 1000
pytestmark = pytest.mark.skipif(not IS_LONG, reason="test_trace_alerts.py has the short form")
ONLINE = {"quiet_seconds": 0.0, "alert_poll_seconds": 0.05}


@pytest.fixture
def start(database_settings):
    servers = []

    def begin():
        servers.append(Process({**database_settings, "online": ONLINE}))
        return servers[-1]

    yield begin
    for server in servers:
        server.kill()


def count_observations(settings):
    return execute(settings, "SELECT observation_count FROM trace_alerts")[0][0]


def test_a_killed_server_changes_no_evidence_and_alerts_once(database_settings, start):
    chance = random.Random(4)
    errors = [int(chance.random() < (0.1 if place < COUNT * 3 // 4 else 0.25)) for place in range(COUNT)]
    times = past(COUNT, hours=480)
    server = start()
    server.call("POST", "/projects/chat/runs", {"experimentName": "qa"})
    project = server.call("GET", "/projects")[1][0]["id"]
    asyncio.run(_store(database_settings, trace_rows(project, times, error_count=errors)))
    with open_receiver() as receiver:
        server.call("POST", f"/projects/{project}/alert-webhooks", {"url": receiver.url})
        baseline = {"from": format_time(times[0] - 1000), "to": format_time(times[BASELINE])}
        body = {"name": "a", "kind": "CHANGE", "metric": "ERROR_RATE", "baseline": baseline}
        assert server.call("POST", f"/projects/{project}/trace-alerts", body)[0] == 201
        others = [start()] if "database_url" in database_settings else []
        for kill in range(KILLS):
            goal = COUNT * (kill + 1) // (KILLS + 1)
            wait_until(lambda goal=goal: count_observations(database_settings) >= goal, "observations")
            server.kill()
            server = start()
        wait_until(lambda: count_observations(database_settings) == COUNT, "all observations")
        told = receiver.wait_for(1)
        for each in (*others, server):
            assert each.stop()[0] == 0

    alone = ChangeDetector.from_baseline(
        [float(each) for each in errors[:BASELINE]], alternative="greater", weights=[1.0] * BASELINE
    )
    for at, value in zip(times[BASELINE:], errors[BASELINE:], strict=True):
        alone.add(float(value), at=at / 1e6)
    ((state,),) = execute(database_settings, "SELECT state FROM trace_alerts")
    assert json.loads(state)["detector"] == alone.state()
    ((evidence,),) = execute(database_settings, "SELECT evidence FROM trace_alert_firings")
    assert json.loads(evidence)["observations"] == alone.alarm.n
    assert len({each.headers["webhook-id"] for each in told}) == 1


async def _store(settings, rows):
    traces = open_trace_database(ServerSettings(**settings))
    await traces.open()
    for place in range(0, len(rows), 1000):
        await traces.write(insert(rows[place : place + 1000]))
    await traces.close()
