"""Calls to models are rows before they are made, and replies are stored with their costs."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import select, update
from tests.server.judge_ledgers import (
    BOUNDS,
    CountingJudge,
    ask,
    budgets_of,
    calls_of,
    check_sums,
    give_to,
    new_job,
    open_ledger,
    opened,
)

from dokimos._core.metrics import CallMetrics
from dokimos.errors import EndpointDownError, JudgeReplyError, JudgeUnavailableError
from dokimos.judges import JudgeReply, TokenLogprob
from dokimos.judges._judge_calls import CallRequest, reject
from dokimos.judges._run_scope import RunScope, enter_scope
from dokimos.server._db.clock import SECOND, now
from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._services.judging import judge_call_writer, judge_replies
from dokimos.server._services.judging.judge_call_queries import forget_unusable, spending_of
from dokimos.server._services.judging.judge_claims import claim_jobs, has_due_jobs
from dokimos.server._services.judging.judge_leases import LeaseLost, release_lost


@pytest.fixture
async def database(database_settings):
    async with opened(database_settings) as database:
        yield database


@pytest.fixture
async def job(database):
    return await new_job(database)


@pytest.fixture
def judge():
    return CountingJudge()


def key_of(judge, prompt):
    return CallRequest(judge, prompt, None, repeat=0, sample=0).key


async def test_a_call_is_a_row_before_it_is_made(database, job, judge):
    judge.holds = asyncio.Event()
    ledger = await open_ledger(database, job)
    asking = asyncio.create_task(ask(ledger, judge, "a"))
    await judge.asked.wait()
    [row] = await calls_of(database, job)
    budgets = await check_sums(database)
    judge.holds.set()
    [reply] = await asking

    assert (row.status, row.key, row.lease) == ("RESERVED", key_of(judge, "a"), "first")
    assert budgets[f"job:{job.job_id}"].reserved_calls == 1
    assert reply.text == "answer to a"


async def test_a_reply_is_stored_with_its_cost_before_it_is_used(database, job, judge):
    await ask(await open_ledger(database, job), judge, "a")

    [row] = await calls_of(database, job)
    assert (row.status, row.calls, row.tokens, row.nano_usd) == ("ANSWERED", 1, 60, 150_000)
    spending = await database.read(lambda connection: spending_of(connection, job.job_id))
    assert (spending.calls, spending.tokens, spending.cost_usd) == (1, 60, 0.00015)
    await check_sums(database)


async def test_what_was_answered_is_not_asked_again_by_whoever_takes_the_job_over(database, job, judge):
    judge.answer = lambda prompt: JudgeReply(
        prompt.upper() * 3000, judge.metrics, (TokenLogprob("A", -0.1, {"A": -0.1}),), schema_enforced=True
    )
    before = await ask(await open_ledger(database, job), judge, "a", "b")
    other = await open_ledger(database, await give_to(database, job, "second"))
    after = await ask(other, judge, "a", "b", "c")

    assert before == after[:2]
    assert sorted(judge.prompts) == ["a", "b", "c"]
    assert all(len(row.reply) < 1000 for row in await calls_of(database, job)), "compressed"
    assert (await check_sums(database))[f"job:{job.job_id}"].spent_calls == 3


async def test_an_unusable_reply_is_paid_for_and_not_asked_again_but_in_a_retry(database, job, judge):
    judge.answer = lambda prompt: JudgeReplyError("cut off", metrics=judge.metrics)
    ledger = await open_ledger(database, job)
    [first] = await ask(ledger, judge, "a")
    [second] = await ask(ledger, judge, "a")
    other = await open_ledger(database, await give_to(database, job, "second"))
    [third] = await ask(other, judge, "a")
    await database.write(lambda connection: forget_unusable(connection, job.job_id))
    judge.answer = str.upper
    [fourth] = await ask(other, judge, "a")
    [fifth] = await ask(other, judge, "a")

    assert [str(error) for error in (first, second, third)] == ["cut off"] * 3
    assert third.metrics == judge.metrics
    assert [fourth.text, fifth.text] == ["A", "A"]
    assert judge.prompts == ["a", "a"]
    assert [row.status for row in await calls_of(database, job)] == ["REPLACED", "ANSWERED"]
    await check_sums(database)


async def test_a_reply_that_nobody_can_read_is_asked_again_only_in_a_retry(database, job, judge):
    ledger = await open_ledger(database, job)
    await ask(ledger, judge, "a")

    async def refuse():
        enter_scope(RunScope(budget=ledger, call_stores=(ledger,), in_flight={}))
        await reject(judge, "a", JudgeReplyError("no JSON"))

    await asyncio.create_task(refuse())
    [again] = await ask(ledger, judge, "a")
    forgotten = await database.write(lambda connection: forget_unusable(connection, job.job_id))
    await ask(ledger, judge, "a")

    assert (again.text, forgotten, len(judge.prompts)) == ("answer to a", 1, 2)
    assert [row.status for row in await calls_of(database, job)] == ["REPLACED", "ANSWERED"]
    await check_sums(database)


async def test_calls_of_a_killed_server_count_as_spent_and_are_asked_again(database, job, judge):
    judge.holds = asyncio.Event()
    killed = asyncio.create_task(ask(await open_ledger(database, job), judge, "a", "b"))
    await judge.asked.wait()
    while len(judge.prompts) < 2:
        await asyncio.sleep(0)
    other = await open_ledger(database, await give_to(database, job, "second"))
    lost = await calls_of(database, job)
    budgets = await check_sums(database)
    judge.holds.set()
    late = await killed
    replies = await ask(other, judge, "a", "b")

    assert [row.status for row in lost] == ["LOST", "LOST"]
    assert budgets[f"job:{job.job_id}"].lost_calls == 2
    assert budgets[f"job:{job.job_id}"].reserved_calls == 0
    assert budgets[f"job:{job.job_id}"].spent_nano_usd == sum(row.nano_usd for row in lost) > 0
    assert all(isinstance(error, LeaseLost) for error in late), "the former worker stores nothing"
    assert [reply.text for reply in replies] == ["answer to a", "answer to b"]
    assert (await check_sums(database))[f"job:{job.job_id}"].spent_calls == 4


async def test_a_worker_that_has_lost_its_lease_makes_no_further_call(database, job, judge):
    ledger = await open_ledger(database, job)
    await give_to(database, job, "second")
    [first] = await ask(ledger, judge, "a")
    [second] = await ask(ledger, judge, "b")

    assert isinstance(first, LeaseLost)
    assert isinstance(second, LeaseLost)
    assert isinstance(ledger.problem, LeaseLost)
    assert judge.prompts == []
    assert await calls_of(database, job) == []
    with pytest.raises(LeaseLost):
        await open_ledger(database, job)
    await ledger.close()


async def test_a_job_that_is_over_belongs_to_nobody(database, job, judge):
    ledger = await open_ledger(database, job)
    judge.holds = asyncio.Event()
    asking = asyncio.create_task(ask(ledger, judge, "a"))
    await judge.asked.wait()
    gone = await give_to(database, job, None)
    count = await database.write(lambda connection: release_lost(connection, gone.job_id, None))
    judge.holds.set()

    assert count == 1
    assert isinstance((await asking)[0], LeaseLost)
    await check_sums(database)


@pytest.mark.parametrize(
    ("error", "status", "calls", "tokens"),
    [
        (JudgeUnavailableError("500"), "FAILED", 1, 0),
        (RuntimeError("what was that"), "LOST", 1, 60),
        (EndpointDownError("down"), None, 0, 0),
    ],
)
async def test_a_call_without_a_reply_costs_what_its_end_says(
    database, job, judge, error, status, calls, tokens
):
    judge.answer = lambda prompt: error
    [result] = await ask(await open_ledger(database, job), judge, "a")

    rows = await calls_of(database, job)
    assert result is error
    assert [row.status for row in rows] == ([] if status is None else [status])
    budget = (await check_sums(database))[f"job:{job.job_id}"]
    assert budget.spent_calls == calls
    assert (budget.spent_tokens > 0) == (tokens > 0)
    assert budget.reserved_calls == budget.reserved_tokens == 0


async def test_calls_in_flight_at_the_end_of_a_worker_are_given_up(database, job, judge):
    judge.holds = asyncio.Event()
    ledger = await open_ledger(database, job)
    asking = asyncio.create_task(ask(ledger, judge, "a"))
    await judge.asked.wait()
    await ledger.close()
    [row] = await calls_of(database, job)
    asking.cancel()

    assert row.status == "LOST"
    await check_sums(database)


async def test_a_call_that_is_withdrawn_before_it_is_reserved_leaves_nothing(database, job, judge):
    ledger = await open_ledger(database, job)
    waiting = asyncio.create_task(ledger.reserve("scripted judge"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await ask(ledger, judge, "a")
    await ledger.close()

    assert [row.status for row in await calls_of(database, job)] == ["ANSWERED"]
    await check_sums(database)


async def test_nothing_counts_twice_when_nobody_knows_whether_it_was_stored(
    database, job, judge, monkeypatch
):
    monkeypatch.setattr(judge_call_writer, "_RETRY_SECONDS", (0.0,) * 10)
    ledger = await open_ledger(database, job)
    write, failures = database.write, iter([True, False, True, True, False, True, False])

    async def write_and_lose_the_answer(change, **options):
        result = await write(change, **options)
        if next(failures, False):
            raise DatabaseUnavailable("the connection was cut")
        return result

    monkeypatch.setattr(database, "write", write_and_lose_the_answer)
    judge.answer = lambda prompt: JudgeReplyError("cut off") if prompt == "b" else prompt.upper()
    replies = await ask(ledger, judge, "a", "b", "c")

    assert [getattr(reply, "text", str(reply)) for reply in replies] == ["A", "cut off", "C"]
    assert (await check_sums(database))[f"job:{job.job_id}"].spent_calls == 3


async def test_secrets_are_redacted_and_any_text_comes_back(database, job, judge):
    texts = {"a": "key sk-abcdefghijklmnop1234 of " + "x" * 2000, "b": "\0 \ud800 ü 漢"}
    judge.answer = texts.get
    ledger = await open_ledger(database, job)
    await ask(ledger, judge, "a", "b")
    replies = await ask(ledger, judge, "a", "b")

    assert [reply.text for reply in replies] == ["key [secret] of " + "x" * 2000, "\0 \ud800 ü 漢"]
    assert len(judge.prompts) == 2


async def test_an_endpoint_that_does_not_say_what_it_counts_is_counted_by_bytes(database, job, judge):
    judge.metrics = None
    await ask(
        await open_ledger(database, job, bounds=replace(BOUNDS, max_output_tokens=None)), judge, "a" * 300
    )

    [row] = await calls_of(database, job)
    assert row.tokens > 600  # prompt and reply
    assert row.nano_usd > 300 * 1000 + 300 * 10_000


async def test_equal_calls_one_inside_the_other_keep_one_answer(database, job, judge):
    ledger = await open_ledger(database, job)
    request = CallRequest(judge, "a", None, repeat=0, sample=0)
    outer = await ledger.reserve("scripted judge", request=request)
    inner = await ledger.reserve("scripted judge", nested=True, request=request)
    await inner.settle(CallMetrics(1, 1), JudgeReply("inner"))
    await outer.settle(CallMetrics(1, 1), JudgeReply("outer"))

    assert sorted(row.status for row in await calls_of(database, job)) == ["ANSWERED", "REPLACED"]
    assert (await ledger.get(request.key, request)).text == "inner"
    await check_sums(database)


async def test_what_goes_with_another_call_is_stored_at_no_cost(database, job, judge):
    ledger = await open_ledger(database, job)
    request = CallRequest(judge, "a", None, repeat=0, sample=0)
    for _ in range(2):
        await ledger.put(request.key, request, JudgeReply("vector", CallMetrics()))

    assert (await ledger.get(request.key, request)).text == "vector"
    assert [row.calls for row in await calls_of(database, job)] == [0]
    assert all(row.spent_calls == 0 for row in (await budgets_of(database)).values())


def test_a_long_reply_is_compressed_and_a_short_one_is_not():
    long, short = JudgeReply("word " * 10_000), JudgeReply("word")

    encoded = [judge_replies.encode_reply(reply, str) for reply in (long, short)]

    assert len(encoded[0]) < 1000
    assert encoded[1].startswith("{")
    decoded = [judge_replies.decode_reply(text) for text in encoded]
    assert [reply.text for reply in decoded] == [long.text, short.text]
    assert all(reply.metrics == CallMetrics() for reply in decoded), "None would say that it cost nothing"


async def test_what_a_server_that_ended_was_asking_for_a_paused_job_is_settled(database, job):
    ledger = await open_ledger(database, job)
    await ledger.reserve("scripted judge", request=None)
    paused = update(JUDGE_JOBS).values(status="PAUSED", leased_at=now(), leased_until=now() + 60 * SECOND)
    await database.write(lambda connection: connection.execute(paused) and None)
    assert not await database.read(has_due_jobs)  # its server may still be there

    ended = update(JUDGE_JOBS).values(leased_until=now() - 1)
    await database.write(lambda connection: connection.execute(ended) and None)
    assert await database.read(has_due_jobs)
    assert await database.write(partial(claim_jobs, most=8, seconds=60)) == []

    [call] = await calls_of(database, job)
    assert call.status == "LOST"
    stored = await database.read(lambda connection: connection.execute(select(JUDGE_JOBS)).one())
    assert (stored.status, stored.lease) == ("PAUSED", None)
    await check_sums(database)
    assert not await database.read(has_due_jobs)
