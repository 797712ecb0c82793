"""Calls without an answer may be billed: budgets hold under a provider that does the work unheard."""

import pytest
from tests.server.judge_ledgers import PRICES, ask, calls_of, check_sums, new_job, open_ledger, opened
from tests.servers.scripted import ScriptedServer, cut, expire_once_received, raw, slow, status

from dokimos._http.breaker import Breakers, use_breakers
from dokimos.errors import EndpointDownError, JudgeUnavailableError
from dokimos.judges import Budget, judge
from dokimos.server._services.judging.judge_budgets import NANO, JudgeBudgetExceeded, Limits
from dokimos.server._services.judging.judge_call_bounds import CallBounds
from dokimos.server._workers.judge_faults import FaultWatch, WatchedJudge

LOST, FAILED, ANSWERED = "LOST", "FAILED", "ANSWERED"


@pytest.fixture
async def database(database_settings):
    async with opened(database_settings) as database:
        yield database


@pytest.fixture
async def job(database):
    return await new_job(database)


@pytest.fixture
def endpoint():
    with ScriptedServer(answer="yes") as server:
        yield server


def model_at(url, *, timeout=60, **settings):
    return judge(f"{url}/v1#scripted", max_tokens=100, prices=PRICES, timeout=timeout, **settings)


async def statuses(database, job):
    return [row.status for row in await calls_of(database, job)]


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([slow(600)], [LOST, ANSWERED]),
        ([cut(), cut()], [LOST, LOST, ANSWERED]),
        ([raw("<html>")], [LOST, ANSWERED]),
        ([status(503)], [ANSWERED]),
        ([status(504)], [LOST, ANSWERED]),
        ([status(502), status(503)], [LOST, ANSWERED]),
        ([status(500), cut()], [LOST, ANSWERED]),
        ([cut(), status(400)], [LOST, FAILED]),
    ],
)
async def test_each_attempt_that_may_be_billed_is_a_call(
    database, job, endpoint, faults, expected, monkeypatch
):
    endpoint.script.extend(faults)
    if faults[0].delay:
        expire_once_received(monkeypatch, endpoint, attempts=1)
    model = model_at(endpoint.url)
    limits = Limits(job=Budget(max_cost_usd=1.0))
    await ask(await open_ledger(database, job, limits, CallBounds.of(model)), model, "a")

    rows = await calls_of(database, job)
    assert [row.status for row in rows] == expected
    assert all(row.nano_usd > 100 * 10_000 for row in rows if row.status == LOST), "what was reserved"
    row = (await check_sums(database))[f"job:{job.job_id}"]
    assert (row.lost_calls, row.reserved_calls) == (expected.count(LOST), 0)


async def test_a_call_that_was_not_sent_costs_nothing(database, job):
    model = model_at("http://127.0.0.1:1", attempts=1)
    [error] = await ask(await open_ledger(database, job, bounds=CallBounds.of(model)), model, "a")

    assert isinstance(error, JudgeUnavailableError)
    assert not error.may_be_billed
    assert LOST not in await statuses(database, job)


@pytest.mark.parametrize(
    ("scope", "prefix"), [("job", "job:"), ("project_day", "project:"), ("server_day", "all:")]
)
@pytest.mark.parametrize("fault", [slow(600), cut()])
async def test_a_budget_in_dollars_holds_under_a_provider_that_works_and_is_not_heard(
    database, job, endpoint, scope, prefix, fault, monkeypatch
):
    """Each request may be billed what was reserved for it; the budget has room for three of them."""
    endpoint.then(fault, times=100)
    if fault.delay:
        expire_once_received(monkeypatch, endpoint)
    model = model_at(endpoint.url)
    bounds = CallBounds.of(model)
    prompts = ["a", "b", "c", "d", "e"]
    ledger = await open_ledger(database, job, Limits(**{scope: Budget(max_cost_usd=0.006)}), bounds)
    results = await ask(ledger, model, *prompts)
    results += await ask(ledger, model, *prompts)

    billed = len(endpoint.received) * 100 * 10_000  # the whole reply of each
    assert 0 < billed <= 0.006 * NANO
    assert all(isinstance(each, JudgeUnavailableError | JudgeBudgetExceeded) for each in results)
    assert isinstance(results[-1], JudgeBudgetExceeded)
    budgets = await check_sums(database)
    [row] = [row for name, row in budgets.items() if name.startswith(prefix)]
    assert row.spent_nano_usd <= 0.006 * NANO
    assert row.reserved_nano_usd == 0
    assert row.lost_calls == len(endpoint.received)


async def test_an_endpoint_that_is_down_after_a_request_may_bill_it(endpoint):
    endpoint.then(cut(), times=20)
    now = [0.0]

    async def sleep(seconds):
        now[0] += seconds

    use_breakers(Breakers(patience=0.0, clock=lambda: now[0], sleep=sleep))
    errors = [JudgeUnavailableError("none yet")]
    while not isinstance(errors[-1], EndpointDownError):
        with pytest.raises(JudgeUnavailableError) as failure:
            await model_at(endpoint.url).complete("a")
        errors.append(failure.value)
    sent = len(endpoint.received)
    with pytest.raises(EndpointDownError) as refused:
        await model_at(endpoint.url).complete("b")

    assert all(error.may_be_billed for error in errors[1:])
    assert not refused.value.may_be_billed
    assert len(endpoint.received) == sent


async def test_a_watched_model_keeps_the_status_of_a_refusal(endpoint):
    endpoint.then(status(400))
    with pytest.raises(JudgeUnavailableError) as refusal:
        await WatchedJudge(model_at(endpoint.url), FaultWatch()).complete("a")

    assert (refusal.value.status, refusal.value.may_be_billed) == (400, False)
