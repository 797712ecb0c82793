"""Replies of no use: who takes a job over does not ask again, and a retry of its errors does, once."""

import asyncio
from dataclasses import dataclass
from typing import Literal

import pytest
from tests.server.judge_ledgers import (
    CountingJudge,
    calls_of,
    check_sums,
    give_to,
    new_job,
    open_ledger,
    opened,
)
from tests.server.judge_runs import score, scores_of, stored_run, wait_for_job
from tests.server.test_judge_models import connect, documented, items, rate
from tests.servers.scripted import ScriptedServer

from dokimos.errors import JudgeReplyError
from dokimos.judges._ask import ask
from dokimos.judges._run_scope import RunScope, enter_scope
from dokimos.server._judge_settings import JudgeSettings
from dokimos.server._services.encryption import secret_vault
from dokimos.server._services.judging.judge_call_queries import forget_unusable
from dokimos.server._services.judging.judge_leases import LeaseLost
from dokimos.server._workers import judge_run

USABLE = '{"verdict": "yes"}'


@dataclass(frozen=True)
class Verdict:
    verdict: Literal["yes", "no"]


@pytest.fixture
async def database(database_settings):
    async with opened(database_settings) as database:
        yield database


@pytest.fixture
async def job(database):
    return await new_job(database)


@pytest.fixture
def judge():
    return CountingJudge(lambda prompt: "It is quite nice.")


async def evaluate(ledger, judge, prompt="Is it so?"):
    """Ask for a verdict as evaluators do, which have a reply of no use repaired; return it or the error."""

    async def run():
        enter_scope(RunScope(budget=ledger, call_stores=(ledger,), in_flight={}))
        try:
            return (await ask(judge, prompt, Verdict)).verdict
        except JudgeReplyError as error:
            return error

    return await asyncio.create_task(run())


async def statuses(database, job):
    await check_sums(database)
    return [row.status for row in await calls_of(database, job)]


async def retry(database, job):
    await database.write(lambda connection: forget_unusable(connection, job.job_id))


async def test_a_worker_that_takes_over_does_not_ask_again_for_what_was_of_no_use(database, job, judge):
    first = await evaluate(await open_ledger(database, job), judge)
    other = await open_ledger(database, await give_to(database, job, "second"))
    second = await evaluate(other, judge)

    assert len(judge.prompts) == 2, "the question and its repair"
    assert str(first) == str(second)
    assert first.kind == second.kind == "unreadable"
    assert await statuses(database, job) == ["UNUSABLE", "UNUSABLE"]


async def test_a_crash_before_the_repair_repeats_only_what_was_in_flight(database, job, judge):
    ledger = await open_ledger(database, job)

    def answer(prompt):
        judge.holds = asyncio.Event()  # for the repair, which is asked next
        return "It is quite nice."

    judge.answer = answer
    killed = asyncio.create_task(evaluate(ledger, judge))
    while len(judge.prompts) < 2:
        await asyncio.sleep(0)
    other = await open_ledger(database, await give_to(database, job, "second"))
    judge.answer = lambda prompt: USABLE
    judge.holds.set()
    verdict = await evaluate(other, judge)
    with pytest.raises(LeaseLost):
        await killed

    assert verdict == "yes"
    assert len(judge.prompts) == 3, "the repair was in flight"
    assert await statuses(database, job) == ["ANSWERED", "LOST", "ANSWERED"]


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_a_retry_asks_again_once(database, job, judge, is_cut_off):
    if is_cut_off:
        judge.answer = lambda prompt: JudgeReplyError("cut off", metrics=judge.metrics)
    await evaluate(await open_ledger(database, job), judge)
    calls = len(judge.prompts)
    await retry(database, job)
    judge.answer = lambda prompt: USABLE
    ledger = await open_ledger(database, await give_to(database, job, "second"))
    verdicts = [await evaluate(ledger, judge), await evaluate(ledger, judge)]
    third = await open_ledger(database, await give_to(database, job, "third"))
    verdicts.append(await evaluate(third, judge))

    assert verdicts == ["yes"] * 3
    assert len(judge.prompts) == calls + 1
    assert await statuses(database, job) == [*["REPLACED"] * calls, "ANSWERED"]


async def test_each_retry_asks_once_where_replies_stay_of_no_use(database, job, judge):
    for lease in ("first", "second", "third"):
        ledger = await open_ledger(database, await give_to(database, job, lease))
        for _ in range(2):
            assert isinstance(await evaluate(ledger, judge), JudgeReplyError)
        await retry(database, job)

    assert len(judge.prompts) == 3 * 2
    assert await statuses(database, job) == ["REPLACED"] * 6


async def test_a_retry_leaves_what_can_be_used(database, job, judge):
    judge.answer = lambda prompt: USABLE if prompt.startswith("good") else "It is quite nice."
    ledger = await open_ledger(database, job)
    await evaluate(ledger, judge, "good")
    await evaluate(ledger, judge, "bad")
    await retry(database, job)
    other = await open_ledger(database, await give_to(database, job, "second"))
    await evaluate(other, judge, "good")

    assert len(judge.prompts) == 3
    assert await statuses(database, job) == ["ANSWERED", "REPLACED", "REPLACED"]


@pytest.fixture
def api(serve, monkeypatch):
    monkeypatch.setattr(secret_vault, "_ITERATIONS", 10)
    return serve(encryption_keys=("passphrase",), judging=JudgeSettings(poll_seconds=0.05))


@pytest.fixture
def model():
    with ScriptedServer(answer=rate) as server:
        yield server


def rate_good(prompt):
    return rate(prompt) if "a good answer" in prompt else "It is quite nice."


GOOD, BAD = "This is a good answer:", "bad"


def test_a_server_that_ends_before_an_error_is_stored_does_not_ask_again(serve, model, monkeypatch):
    monkeypatch.setattr(secret_vault, "_ITERATIONS", 10)
    judging = JudgeSettings(poll_seconds=0.05, lease_seconds=0.5)
    api = serve(encryption_keys=("passphrase",), judging=judging)
    model.answer = rate_good
    store, stored = judge_run.store_outcomes, []

    def fail_once(connection, **options):
        stored.append(options)
        if len(stored) == 1:
            raise RuntimeError("as if the server were killed")
        return store(connection, **options)

    monkeypatch.setattr(judge_run, "store_outcomes", fail_once)
    run = stored_run(api, items(GOOD, BAD, GOOD))

    job = score(api, run, **documented(connect(api, model)))

    assert len(stored) > 1
    assert (job["status"], job["scoredCount"], job["errorCount"]) == ("SUCCEEDED", 2, 1)
    # Three items and the repair of one reply; what was being asked when it ended is asked again.
    assert 4 <= len(model.received) <= 4 + job["lostCalls"]
    assert job["calls"] == 4 + job["lostCalls"]


def test_each_retry_of_a_job_asks_again_for_its_errors_alone(api, model):
    model.answer = rate_good
    run = stored_run(api, items(GOOD, BAD, GOOD))
    job = score(api, run, **documented(connect(api, model)))
    path = f"/api/v1/runs/{run}/judge-jobs/{job['id']}"
    calls = [len(model.received)]
    for answer in (rate_good, rate):
        model.answer = answer
        assert api.post(f"{path}/retry").status_code == 200
        job = wait_for_job(api, job)
        calls.append(len(model.received))

    assert calls == [4, 6, 7]
    assert (job["scoredCount"], job["errorCount"]) == (3, 0)
    assert scores_of(api, run, "helpful") == [4.0, 2.0, 4.0]
