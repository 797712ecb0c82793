"""Processes that judge are killed at any moment: what was answered is not asked again."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.server.counting_endpoint import CountingEndpoint
from tests.server.judge_ledgers import calls_of, check_sums, give_to, new_job, opened

KILLS = 60 if "DOKIMOS_LONG_TESTS" in os.environ else 3
"""How often a process is killed."""
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
from dokimos.server._services.judging.judge_budgets import Limits
from dokimos.server._services.judging.judge_call_bounds import CallBounds
from dokimos.server._services.judging.judge_leases import LeasedJob
from dokimos.server._services.judging.judge_ledger import JudgeLedger

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


@pytest.fixture
def endpoint():
    with CountingEndpoint() as endpoint:
        yield endpoint


def judge_in_process(endpoint, settings, job, kill_after):
    """Judge in a process of its own, and return its exit code."""
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}
    fields = {name: getattr(job, name) for name in ("job_id", "project_id", "tenant_id", "lease")}
    arguments = json.dumps([endpoint.url, settings, fields, PROMPTS, AT_ONCE])
    process = subprocess.Popen([sys.executable, "-c", WORK, arguments])
    endpoint.send_signal_after(process, kill_after)
    return process.wait(120)


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
