"""Budgets of judging hold: per job, per project and day, per server and day, on all servers of a database."""

import asyncio
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text, update
from tests.server.judge_ledgers import (
    BOUNDS,
    PRICES,
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
from dokimos.errors import BudgetExceededError, JudgeReplyError, JudgeUnavailableError
from dokimos.judges import Budget, JudgeReply, Prices, Rate
from dokimos.judges._judge_calls import CallRequest
from dokimos.server._db import clock
from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._services.judging import judge_ledger
from dokimos.server._services.judging.judge_budgets import BudgetScope, JudgeBudgetExceeded, Limits, day_of
from dokimos.server._services.judging.judge_call_bounds import (
    CallBounds,
    UnpricedModelError,
    check_prices,
)
from dokimos.server._services.judging.judge_call_retention import expire_replies, purge_calls_of, purge_sums

UNBOUNDED = replace(BOUNDS, max_output_tokens=None)
DAY = 86_400_000_000


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


def errors_of(results):
    return [each for each in results if isinstance(each, BaseException)]


async def test_a_budget_in_calls_is_reserved_before_the_calls(database, job, judge):
    ledger = await open_ledger(database, job, Limits(job=Budget(max_calls=3)))
    results = await ask(ledger, judge, *"abcde")

    assert len(judge.prompts) == 3
    assert len(errors_of(results)) == 2
    error = errors_of(results)[0]
    assert isinstance(error, JudgeBudgetExceeded)
    assert error.scope is BudgetScope.JOB
    assert "this job, max_calls=3, is used up: 3 spent" in str(error)
    assert error.renewed_at is None
    await check_sums(database)


async def test_what_a_call_can_cost_at_most_is_reserved(database, job, judge):
    """A call costs 0.00015 dollars, and could cost 0.0013: ten calls fit, one after the other."""
    ledger = await open_ledger(database, job, Limits(job=Budget(max_cost_usd=0.0028)))
    results = await ask(ledger, judge, *map(str, range(20)))

    count = len(judge.prompts)
    assert 8 <= count < 20, "calls waited for those in flight, which cost less than was reserved"
    assert len(errors_of(results)) == 20 - count
    assert "may take $0.001" in str(errors_of(results)[0])
    row = (await check_sums(database))[f"job:{job.job_id}"]
    assert row.spent_nano_usd <= 2_800_000


async def test_without_a_limit_of_replies_the_first_call_goes_alone(database, job, judge):
    judge.holds = asyncio.Event()
    ledger = await open_ledger(database, job, Limits(job=Budget(max_tokens=300)), UNBOUNDED)
    asking = asyncio.create_task(ask(ledger, judge, *map(str, range(9))))
    await judge.asked.wait()
    for _ in range(50):
        await asyncio.sleep(0)
    alone = len(judge.prompts)
    judge.holds.set()
    results = await asking

    assert alone == 1
    assert len(judge.prompts) == 5, "60 tokens each"
    assert len(errors_of(results)) == 4
    await check_sums(database)


async def test_an_estimate_continues_where_the_last_server_stopped(database, job, judge):
    limits = Limits(job=Budget(max_tokens=300))
    await ask(await open_ledger(database, job, limits, UNBOUNDED), judge, "a", "b")
    other = await open_ledger(database, await give_to(database, job, "second"), limits, UNBOUNDED)
    results = await ask(other, judge, *"abcdefgh")

    assert len(judge.prompts) == 5
    assert len(errors_of(results)) == 3


@pytest.mark.parametrize(
    ("most", "expected"), [(None, 4096), (100_000, 4096), (300, 300)], ids=["none", "large", "small"]
)
async def test_a_first_call_that_is_lost_counts_as_its_prompt_and_a_long_reply(
    database, job, judge, most, expected
):
    limits = Limits(job=Budget(max_tokens=most, max_calls=10))
    judge.answer = lambda prompt: ConnectionError("the line was cut")
    prompt = "p" * 1000
    await ask(await open_ledger(database, job, limits, UNBOUNDED), judge, prompt)

    row = (await check_sums(database))[f"job:{job.job_id}"]
    assert row.lost_calls == 1
    if most == expected:
        assert row.spent_tokens == most, "all that was left"
    else:
        assert row.spent_tokens >= 1000 + expected
        assert row.spent_nano_usd >= 1000 * 1000 + expected * 10_000


async def test_a_later_call_that_is_lost_counts_as_the_largest_one(database, job, judge):
    sizes = {"small": 10, "large": 400, "other": 20}
    judge.answer = lambda prompt: (
        JudgeReply("yes", CallMetrics(0, sizes[prompt], model="scripted"))
        if prompt in sizes
        else ConnectionError("the line was cut")
    )
    ledger = await open_ledger(database, job, Limits(job=Budget(max_tokens=10_000)), UNBOUNDED)
    for prompt in (*sizes, "cut"):
        await ask(ledger, judge, prompt)
    other = await open_ledger(database, await give_to(database, job, "second"), Limits(), UNBOUNDED)
    await ask(other, judge, "cut again")

    row = (await check_sums(database))[f"job:{job.job_id}"]
    assert (row.lost_calls, row.spent_tokens) == (2, sum(sizes.values()) + 2 * 400)


@pytest.mark.parametrize(
    ("limits", "scope"),
    [
        (Limits(project_day=Budget(max_calls=4)), BudgetScope.PROJECT),
        (Limits(server_day=Budget(max_calls=4)), BudgetScope.SERVER),
    ],
)
async def test_jobs_share_the_budget_of_a_day(database, job, judge, limits, scope):
    ledgers = [await open_ledger(database, each, limits) for each in (job, await new_job(database))]
    results = await asyncio.gather(*(ask(ledger, judge, *"abc") for ledger in ledgers))

    assert len(judge.prompts) == 4
    errors = errors_of([*results[0], *results[1]])
    assert [error.scope for error in errors] == [scope] * 2
    assert "(UTC)" in str(errors[0])
    await check_sums(database)


async def test_each_project_has_its_own_budget(database, job, judge):
    limits = Limits(project_day=Budget(max_calls=2))
    ledgers = [await open_ledger(database, each, limits) for each in (job, await new_job(database, "other"))]
    await asyncio.gather(*(ask(ledger, judge, *"abc") for ledger in ledgers))

    assert len(judge.prompts) == 4


async def test_the_next_day_has_a_budget_of_its_own(database, job, judge, monkeypatch):
    limits = Limits(server_day=Budget(max_calls=1))
    ledger = await open_ledger(database, job, limits)
    judge.holds = asyncio.Event()
    asking = asyncio.create_task(ask(ledger, judge, "a"))
    await judge.asked.wait()
    today = clock.now()
    shift_clock(monkeypatch, DAY)
    judge.holds.set()
    await asking
    [reply] = await ask(ledger, judge, "b")
    [error] = await ask(ledger, judge, "c")

    assert reply.text == "answer to b"
    assert isinstance(error, BudgetExceededError)
    assert error.renewed_at == (today // DAY + 2) * DAY, "the midnight after the day of the refusal"
    budgets = await check_sums(database)
    assert [budgets[f"all:{day_of(today + shift)}"].spent_calls for shift in (0, DAY)] == [1, 1]


def shift_clock(monkeypatch, by):
    from dokimos.server._services.judging import judge_call_retention, judge_call_rows, judge_leases

    now = clock.now
    for module in (judge_call_rows, judge_leases, judge_call_retention):
        monkeypatch.setattr(module, "now", lambda: now() + by)


async def test_a_call_waits_only_so_long_for_the_calls_of_others(database, job, judge, monkeypatch):
    monkeypatch.setattr(judge_ledger, "_OTHERS_SECONDS", 0.0)
    monkeypatch.setattr(judge_ledger, "_POLL_SECONDS", 0.0)
    limits = Limits(server_day=Budget(max_calls=2))
    judge.holds = asyncio.Event()
    busy = asyncio.create_task(ask(await open_ledger(database, job, limits), judge, "a", "b"))
    await judge.asked.wait()
    other = CountingJudge()
    results = await ask(await open_ledger(database, await new_job(database), limits), other, "c")
    judge.holds.set()
    await busy

    assert other.prompts == []
    assert "reserved for calls in flight" in str(results[0])


def test_a_budget_in_dollars_is_refused_for_a_model_without_a_price():
    in_dollars = Limits(server_day=Budget(max_cost_usd=1.0))
    with pytest.raises(
        UnpricedModelError, match=r"connection 'local'.*inputPricePerMillion and outputPricePerMillion"
    ):
        check_prices(in_dollars, "local", "my-model", PRICES)
    check_prices(in_dollars, "local", "my-model", Prices({"my-model": Rate(0.0, 0.0)}))
    check_prices(Limits(job=Budget(max_tokens=5)), "local", "my-model", None)


async def test_a_call_without_a_price_is_not_made_on_a_budget_in_dollars(database, job, judge):
    limits = Limits(project_day=Budget(max_cost_usd=100.0))
    ledger = await open_ledger(database, job, limits, CallBounds(model="unknown", max_output_tokens=10))
    [error] = await ask(ledger, judge, "a")

    assert judge.prompts == []
    assert "the price of scripted judge is not known" in str(error)
    assert error.scope is BudgetScope.PROJECT
    assert error.never_fits


@pytest.mark.parametrize(("most", "never_fits"), [(100, True), (1000, False)])
async def test_a_call_that_no_day_has_room_for_says_so(database, job, judge, most, never_fits):
    ledger = await open_ledger(database, job, Limits(project_day=Budget(max_tokens=most)))
    results = await ask(ledger, judge, *[f"{letter * 300}" for letter in "abcdefghijklmnopqrstuvwxyz"])

    assert {error.never_fits for error in errors_of(results)} == {never_fits}


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.integers(1, 500))
def test_no_prompt_has_more_tokens_than_are_reserved(prompt, most):
    bounds = replace(BOUNDS, max_output_tokens=most)
    request = CallRequest(CountingJudge(), prompt, {"type": "object"}, repeat=0, sample=0)
    sent = len(prompt.encode("utf-8", "surrogatepass"))
    upper = bounds.upper_bound(bounds.most_input_tokens(request), in_dollars=True)

    worst = bounds.measure(CallMetrics(sent, most), None, None)[0]
    assert all(spent <= reserved for spent, reserved in zip(worst, upper, strict=True))


LIMITS = Limits(
    job=Budget(max_calls=12, max_cost_usd=0.02),
    project_day=Budget(max_tokens=9_000),
    server_day=Budget(max_calls=20, max_cost_usd=0.025),
)


class FickleJudge(CountingJudge):
    """Costs anything up to its limit, fails, and is cut off."""

    def __init__(self, chance):
        super().__init__()
        self.chance = chance

    async def complete(self, prompt, *, schema=None):
        self.prompts.append(prompt)
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        read, written = self.chance.randint(1, len(prompt)), self.chance.randint(0, 100)
        metrics = CallMetrics(read, written, model="scripted")
        match self.chance.randrange(8):
            case 0:
                raise JudgeUnavailableError("500")
            case 1:
                raise JudgeReplyError("cut off", metrics=metrics)
            case 2:
                raise RuntimeError("cut off half-way")
        return JudgeReply("x", metrics)


def assert_within(limits, budgets):
    for scope, row in budgets.items():
        kind = {"a": limits.server_day, "j": limits.job, "p": limits.project_day}[scope[0]]
        for limit, unit, factor in (
            (kind.max_calls, "calls", 1),
            (kind.max_tokens, "tokens", 1),
            (kind.max_cost_usd, "nano_usd", 1e9),
        ):
            if limit is not None:
                held = getattr(row, f"spent_{unit}") + getattr(row, f"reserved_{unit}")
                assert held <= limit * factor + 0.5, (scope, unit)


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(seed=st.integers(0, 10**6))
async def test_no_interleaving_on_two_servers_exceeds_a_budget(database_settings, seed):
    await interleave(database_settings, seed)


async def interleave(database_settings, seed):
    """Two servers with a job each work, lose their leases and take over, all by chance."""
    chance = random.Random(seed)
    both = "database_url" in database_settings
    async with opened(database_settings) as first:
        second = first
        if both:
            async with opened(database_settings) as second:
                await work(first, second, chance)
        else:
            await work(first, second, chance)


async def work(first, second, chance):
    # Each example begins on empty tables.
    await first.write(lambda connection: connection.execute(text("DELETE FROM judge_calls")) and None)
    await first.write(lambda connection: connection.execute(text("DELETE FROM judge_budgets")) and None)
    judges = [FickleJudge(chance), FickleJudge(chance)]
    jobs = [await new_job(first), await new_job(first)]
    ledgers = [
        await open_ledger(server, job, LIMITS) for server, job in zip((first, second), jobs, strict=True)
    ]
    for turn in range(4):
        prompts = [[f"{turn} {chance.randrange(6)} " + "word " * chance.randrange(60) for _ in range(6)]
                   for _ in ledgers]  # fmt: skip
        asking = [
            asyncio.create_task(ask(ledger, judge, *each))
            for ledger, judge, each in zip(ledgers, judges, prompts, strict=True)
        ]
        while not all(task.done() for task in asking):
            assert_within(LIMITS, await budgets_of(first))
        which = chance.randrange(2)
        jobs[which] = await give_to(first, jobs[which], f"lease {turn}")
        ledgers[which] = await open_ledger((second, first)[which], jobs[which], LIMITS)
        assert_within(LIMITS, await check_sums(first))
    for ledger in ledgers:
        await ledger.close()
    assert_within(LIMITS, await check_sums(first))


async def test_two_servers_on_one_database_lose_no_update(database_settings):
    async with opened(database_settings) as first, opened(database_settings) as second:
        if "data_dir" in database_settings:
            second = first
        judge = CountingJudge()
        jobs = [await new_job(first) for _ in range(4)]
        ledgers = [
            await open_ledger(server, job, Limits(server_day=Budget(max_calls=70)))
            for server, job in zip((first, second, first, second), jobs, strict=True)
        ]
        prompts = [str(n) for n in range(25)]
        results = await asyncio.gather(*(ask(ledger, judge, *prompts) for ledger in ledgers))

        assert len(judge.prompts) == 70
        assert sum(len(errors_of(each)) for each in results) == 30
        [row] = [row for scope, row in (await check_sums(first)).items() if scope.startswith("all:")]
        assert (row.spent_calls, row.reserved_calls) == (70, 0)


async def test_replies_of_ended_jobs_are_removed_and_their_costs_stay(database, job, judge, monkeypatch):
    ledger = await open_ledger(database, job)
    await ask(ledger, judge, "a", "b")
    running = await new_job(database)
    await ask(await open_ledger(database, running), judge, "a")
    await ledger.close()
    end = update(JUDGE_JOBS).where(JUDGE_JOBS.c.id == job.job_id)
    await database.write(
        lambda c: c.execute(end.values(status="SUCCEEDED", lease=None, completed_at=clock.now())) and None
    )
    kept = await database.write(lambda connection: expire_replies(connection, 1.0))
    forever = await database.write(lambda connection: expire_replies(connection, -1.0))
    shift_clock(monkeypatch, 2 * DAY)
    removed = await database.write(lambda connection: expire_replies(connection, 1.0))
    again = await database.write(lambda connection: expire_replies(connection, 1.0))

    assert (kept, forever, removed, again) == (0, 0, 2, 0)
    assert [(row.status, row.reply) for row in await calls_of(database, job)] == [("EXPIRED", None)] * 2
    assert [row.status for row in await calls_of(database, running)] == ["ANSWERED"]
    await check_sums(database)
    claim = update(JUDGE_JOBS).where(JUDGE_JOBS.c.id == job.job_id).values(status="CLAIMED")
    await database.write(lambda connection: connection.execute(claim) and None)
    [reply] = await ask(await open_ledger(database, await give_to(database, job, "later")), judge, "a")
    assert reply.text == "answer to a"
    assert len(judge.prompts) == 4


async def test_calls_go_with_their_run_and_what_was_spent_stays(database, job, judge, monkeypatch):
    judge.holds = asyncio.Event()
    asking = asyncio.create_task(ask(await open_ledger(database, job), judge, "a"))
    await judge.asked.wait()
    query = JUDGE_JOBS.select().where(JUDGE_JOBS.c.id == job.job_id)
    run = await database.read(lambda connection: connection.execute(query).one().run_id)
    removed = [await database.write(lambda connection: purge_calls_of(connection, run)) for _ in range(2)]
    budgets = await budgets_of(database)
    judge.holds.set()
    await asking
    shift_clock(monkeypatch, 500 * DAY)
    sums = await database.write(purge_sums)

    assert removed == [1, 0]
    assert all((row.reserved_calls, row.spent_calls) == (0, 1) for row in budgets.values())
    assert sums == 2, "of the day; that of the job goes with the job"
