"""Budgets: reserved before it is sent, and a run that ends cleanly."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dokimos import CallMetrics, Dataset, Example, Experiment, TaskResult
from dokimos._core.results import RunStatus
from dokimos.errors import BudgetExceededError, ConfigurationError, JudgeReplyError
from dokimos.evaluators import ExactMatch, Regex
from dokimos.evaluators._function import evaluator
from dokimos.experiment._run_loading import load_run
from dokimos.judges._budget import TASK, Budget, MemoryLedger
from dokimos.judges._judge_calls import complete
from dokimos.judges._protocol import JudgeReply

RUNS = Path(".dokimos/runs")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class FakeJudge:
    """Costs a cent and ten tokens a call, and knows how many were made at once."""

    def __init__(self, identity="fake judge", *, cost=0.01, tokens=10, fails=0):
        self.identity = identity
        self.calls = 0
        self.prompts = []
        self.at_once = self.most_at_once = 0
        self._metrics = CallMetrics(tokens, None, cost_usd=cost)
        self._fails = fails

    async def complete(self, prompt, *, schema=None):
        self.calls += 1
        self.prompts.append(prompt)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.002)
        self.at_once -= 1
        if self.calls <= self._fails:
            raise ConnectionError("busy")
        return JudgeReply("yes", self._metrics)


def experiment(judge, count=20, *, task=None, questions=1, **keywords):
    @evaluator(name="Asked")
    async def asked(input: str) -> bool:
        replies = [await complete(judge, f"{number}. Is {input} right?") for number in range(questions)]
        return all(reply.text == "yes" for reply in replies)

    data = Dataset([Example.of(str(number), id=str(number)) for number in range(count)])
    task = task or (lambda text: text)
    return Experiment(data, task, [asked], progress=False, parallelism=4, **keywords)


def reserve(ledger, identity="fake judge"):
    return asyncio.run(ledger.reserve(identity))


def spend(ledger, cost=0.01, tokens=10, identity="fake judge"):
    reserve(ledger, identity).settle(CallMetrics(tokens, cost_usd=cost))


@pytest.mark.parametrize(
    "limits", [{}, {"max_calls": -1}, {"max_tokens": 1.5}, {"max_cost_usd": float("nan")}]
)
def test_a_budget_needs_a_limit_that_makes_sense(limits):
    with pytest.raises(ConfigurationError):
        Budget(**limits)


def test_only_a_budget_is_one():
    with pytest.raises(ConfigurationError, match=r"budget must be a Budget\(max_cost_usd=...\), not 5"):
        experiment(FakeJudge(), budget=5)


def test_the_price_of_calls_in_flight_is_set_aside():
    ledger = MemoryLedger(Budget(max_cost_usd=0.05))
    spend(ledger)
    in_flight = [reserve(ledger) for _ in range(4)]
    set_aside = r"\$0.0100 spent and \$0.0400 reserved for calls in flight"
    with pytest.raises(BudgetExceededError, match=set_aside):
        reserve(ledger, "another judge")
    for reservation in in_flight:
        reservation.settle(CallMetrics(10, cost_usd=0.005))

    assert ledger.spent.cost_usd == pytest.approx(0.03)
    reserve(ledger).settle(CallMetrics(10, cost_usd=0.02))
    with pytest.raises(BudgetExceededError, match=r"\$0.0500 spent;"):
        reserve(ledger)


def test_beside_others_a_call_is_taken_to_cost_what_the_dearer_of_the_last_and_the_mean_did():
    async def scenario():
        ledger = MemoryLedger(Budget(max_tokens=150))
        for tokens in (10, 50):
            (await ledger.reserve("judge")).settle(CallMetrics(tokens, None))
        alone = await ledger.reserve("judge")  # 60 + 30
        beside = await ledger.reserve("judge")  # 90 + 50
        another = asyncio.ensure_future(ledger.reserve("judge"))
        await asyncio.sleep(0.01)
        assert not another.done()
        alone.settle(CallMetrics(20, None))
        beside.settle(CallMetrics(70, None))
        with pytest.raises(BudgetExceededError, match="the next call of judge would take about 38"):
            await another

    asyncio.run(scenario())


def test_sums_that_are_just_the_limit_are_within_it():
    ledger = MemoryLedger(Budget(max_cost_usd=0.3))
    for _ in range(3):
        spend(ledger, cost=0.1)
    with pytest.raises(BudgetExceededError):
        reserve(ledger)


def test_a_new_judge_is_not_asked_where_nothing_is_left():
    ledger = MemoryLedger(Budget(max_cost_usd=0.01))
    spend(ledger)
    with pytest.raises(BudgetExceededError):
        reserve(ledger, "another judge")


def test_the_first_call_of_a_judge_goes_alone_and_the_others_wait_for_its_price():
    async def scenario():
        ledger = MemoryLedger(Budget(max_cost_usd=1))
        first = await ledger.reserve("judge")
        others = [asyncio.ensure_future(ledger.reserve("judge")) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert not any(other.done() for other in others)
        first.settle(CallMetrics(10, cost_usd=0.4))
        second = await others[0]
        await asyncio.sleep(0.01)
        assert not any(other.done() for other in others[1:])
        second.settle(CallMetrics(10, cost_usd=0.4))
        outcomes = await asyncio.gather(*others, return_exceptions=True)
        return [type(outcome).__name__ for outcome in outcomes]

    assert asyncio.run(scenario()) == ["Reservation", "BudgetExceededError", "BudgetExceededError"]


def test_a_call_that_does_not_fit_waits_for_those_in_flight_which_may_cost_less():
    async def scenario():
        ledger = MemoryLedger(Budget(max_cost_usd=1))
        for cost in (0.1, 0.45):
            (await ledger.reserve("judge")).settle(CallMetrics(10, cost_usd=cost))
        dear = await ledger.reserve("judge")  # 0.275, the average
        waiting = asyncio.ensure_future(ledger.reserve("judge"))
        await asyncio.sleep(0.01)
        assert not waiting.done()  # 0.55 + 0.275 + 0.45 exceed the budget
        dear.settle(CallMetrics(10, cost_usd=0.01))
        return type(await waiting).__name__

    assert asyncio.run(scenario()) == "Reservation"


def test_one_dear_call_does_not_end_a_run():
    ledger = MemoryLedger(Budget(max_cost_usd=1.1))
    spend(ledger, cost=0.1)
    spend(ledger, cost=0.6)
    reserve(ledger).settle(
        CallMetrics(10, cost_usd=0.2)
    )  # 0.7 + 0.35, where the last one would not fit again

    assert ledger.refusal is None
    assert ledger.spent.cost_usd == pytest.approx(0.9)


def test_after_a_first_call_that_failed_the_next_one_goes_alone():
    judge = FakeJudge(fails=2)
    result = experiment(judge, 6).run(budget=Budget(max_cost_usd=0.05))

    assert (result.status, judge.calls, result.error_count) == (RunStatus.COMPLETED, 6, 2)


@pytest.mark.parametrize("limit", [1, 7, 19])
def test_no_more_calls_are_made_than_allowed(limit):
    judge = FakeJudge()
    result = experiment(judge).run(budget=Budget(max_calls=limit))

    assert judge.calls == limit
    assert result.status is RunStatus.BUDGET_SPENT
    assert result.total_count == limit


def test_what_was_set_aside_and_not_needed_is_spent_by_others():
    costs = []

    class Uneven(FakeJudge):
        async def complete(self, prompt, *, schema=None):
            reply = await super().complete(prompt, schema=schema)
            costs.append(0.3 if prompt == "1. Is 7 right?" else 0.01)
            return JudgeReply(reply.text, CallMetrics(10, cost_usd=costs[-1]))

    result = experiment(Uneven(), count=100, questions=2).run(budget=Budget(max_cost_usd=0.7))

    assert result.status is RunStatus.BUDGET_SPENT
    assert 0.68 < sum(costs) <= 0.7


@pytest.mark.parametrize("budget", [Budget(max_cost_usd=0.07), Budget(max_tokens=79)])
def test_calls_at_once_do_not_exceed_the_budget(budget):
    judge = FakeJudge()
    result = experiment(judge).run(budget=budget)

    assert judge.calls == result.total_count == 7
    assert judge.most_at_once > 1
    assert result.pass_rate == 1.0
    [warning] = result.warnings
    assert warning.startswith(f"The budget of {budget} is used up: ")
    assert result.run_id in warning


def test_a_budget_that_is_just_enough_completes():
    assert experiment(FakeJudge(), 5).run(budget=Budget(max_calls=5)).status is RunStatus.COMPLETED


def test_a_resumed_run_with_a_larger_budget_does_just_the_rest():
    judge = FakeJudge()
    plan = experiment(judge, 20, questions=2)
    first = plan.run(budget=Budget(max_cost_usd=0.15))
    assert first.error_count == 0
    again = plan.run(resume=first.run_id, budget=Budget(max_cost_usd=0.15))
    assert (again.status, judge.calls) == (RunStatus.BUDGET_SPENT, 15)
    last = plan.run(resume=first.run_id, budget=Budget(max_cost_usd=1))

    assert (last.status, last.total_count, last.pass_rate) == (RunStatus.COMPLETED, 20, 1.0)
    assert judge.calls == 40 == len(set(judge.prompts))
    assert last.summary.judging.metrics.cost_usd == pytest.approx(0.4)
    loaded = load_run(RUNS / first.run_id)
    assert (loaded.status, loaded.total_count) == (RunStatus.COMPLETED, 20)


def test_items_that_the_budget_stopped_are_no_errors_in_the_journal():
    plan = experiment(FakeJudge())
    first = plan.run(budget=Budget(max_calls=3))
    loaded = load_run(RUNS / first.run_id)

    assert loaded.status is RunStatus.BUDGET_SPENT
    assert loaded.error_count == 0


def test_what_the_other_evaluators_of_such_an_item_found_is_kept():
    judge = FakeJudge()

    @evaluator(name="Slow")
    async def slow(input: str) -> bool:
        await asyncio.sleep(0.01)
        return True

    plan = experiment(judge, 4)
    plan = Experiment(plan.dataset, plan.task, [*plan.evaluators, slow], progress=False)
    first = plan.run(budget=Budget(max_calls=2))
    loaded = load_run(RUNS / first.run_id)

    assert first.total_count == 2
    assert [len(item.eval_results) for item in loaded.item_results] == [2, 2, 1]


def test_calls_of_the_task_count_where_it_says_what_they_cost():
    def task(example):
        return TaskResult({"output": example.input}, CallMetrics(10, 1, cost_usd=0.02))

    data = Dataset([Example.of(str(number), str(number)) for number in range(50)])
    plan = Experiment(
        data, task, [ExactMatch()], progress=False, parallelism=4, budget=Budget(max_cost_usd=0.2)
    )
    result = plan.run()

    assert (result.status, result.total_count) == (RunStatus.BUDGET_SPENT, 10)
    assert plan.run(budget=Budget(max_calls=7)).total_count == 7
    more = plan.run(resume=result.run_id, budget=Budget(max_cost_usd=0.4))
    assert more.total_count == 20


def test_task_and_judge_share_the_budget():
    def task(example):
        return TaskResult({"output": example.input}, CallMetrics(10, 1, cost_usd=0.01))

    judge = FakeJudge(cost=0.03)
    result = experiment(judge, task=task).run(budget=Budget(max_cost_usd=0.40))
    spent = result.metrics.cost_usd + result.summary.judging.metrics.cost_usd

    assert result.total_count in (8, 9, 10)
    assert spent <= 0.40 + 1e-9


def test_a_task_that_says_nothing_is_not_counted():
    judge = FakeJudge()

    assert experiment(judge, 5).run(budget=Budget(max_calls=5)).status is RunStatus.COMPLETED


def test_a_task_that_asks_a_judge_is_stopped_too_and_no_error():
    judge = FakeJudge()

    async def task(example):
        return (await complete(judge, f"Answer {example.input}")).text

    data = Dataset([Example.of(str(number), "yes") for number in range(10)])
    plan = Experiment(data, task, [ExactMatch()], progress=False, timeout=60)
    result = plan.run(budget=Budget(max_calls=4))

    assert (result.status, result.total_count, result.error_count) == (RunStatus.BUDGET_SPENT, 4, 0)
    assert plan.run(resume=result.run_id).total_count == 10
    assert judge.calls == 10


def test_an_unpriced_judge_is_named():
    result = experiment(FakeJudge(cost=None), 3).run(budget=Budget(max_cost_usd=1))

    assert result.status is RunStatus.COMPLETED
    assert result.warnings == ("The budget's max_cost_usd did not limit fake judge: the price is not known.",)


def test_rescoring_keeps_to_a_budget_and_leaves_the_rest_out():
    judge = FakeJudge()
    plan = experiment(judge, 10)
    result = Experiment(plan.dataset, plan.task, [Regex(pattern=".")], progress=False).run()
    rescored = Experiment.rescore(result, plan.evaluators, budget=Budget(max_calls=6))

    assert (judge.calls, rescored.status, rescored.total_count) == (6, RunStatus.BUDGET_SPENT, 6)
    assert rescored.pass_rate == 1.0
    assert "left out" in rescored.warnings[0]


def test_what_a_budget_left_of_a_run_that_had_errored_as_a_whole_says_so_no_more():
    plan = experiment(FakeJudge(fails=10), 10)
    result = plan.run()
    rescored = Experiment.rescore(result, plan.evaluators, budget=Budget(max_calls=6))

    assert (result.status, rescored.total_count, rescored.error_count) == (RunStatus.BROKEN, 6, 0)
    [warning] = rescored.warnings
    assert "left out" in warning


def test_failed_calls_count_as_calls_and_not_as_cost():
    ledger = MemoryLedger(Budget(max_calls=2, max_cost_usd=1))
    reserve(ledger).fail()
    spend(ledger)
    assert (ledger.spent.calls, ledger.spent.cost_usd) == (2, 0.01)
    with pytest.raises(BudgetExceededError, match="max_calls=2"):
        reserve(ledger)


def test_the_task_s_own_account_has_no_calls_until_it_is_known_to_make_some():
    ledger = MemoryLedger(Budget(max_calls=0))
    reserve(ledger, TASK).settle(CallMetrics(latency_ms=1.0))
    reserve(ledger, TASK).settle(None)

    assert ledger.spent.calls == 0


def finished(plan, budget):
    """Run within a time in which a run that waits for itself would not end."""
    return asyncio.run(asyncio.wait_for(plan.run_async(budget=budget), 60))


class NestedJudge(FakeJudge):
    """Asks itself whether it is sure before it answers."""

    async def complete(self, prompt, *, schema=None):
        if not prompt.startswith("Sure?"):
            await complete(self, f"Sure? {prompt}")
        return await super().complete(prompt, schema=schema)


def test_a_call_inside_a_call_of_the_same_judge_does_not_wait_for_it():
    judge = NestedJudge()
    result = finished(experiment(judge, 6), Budget(max_cost_usd=1))

    assert (result.status, judge.calls) == (RunStatus.COMPLETED, 12)


def test_a_call_inside_a_call_does_not_wait_for_the_same_one_that_waits_for_the_outer_call():
    """The first call of a judge goes alone; the second one waits for it, and must not be waited for in it."""
    second_waits = asyncio.Event()

    class Asking(FakeJudge):
        async def complete(self, prompt, *, schema=None):
            if prompt == "first":
                await second_waits.wait()
                await complete(self, "second")
            return await super().complete(prompt)

    judge = Asking()

    @evaluator(name="First")
    async def first(input: str) -> bool:
        return (await complete(judge, "first")).text == "yes"

    @evaluator(name="Second")
    async def second(input: str) -> bool:
        asked = asyncio.ensure_future(complete(judge, "second"))
        await asyncio.sleep(0.01)
        second_waits.set()
        return (await asked).text == "yes"

    data = Dataset([Example.of("1")])
    plan = Experiment(data, lambda text: text, [first, second], progress=False)
    result = finished(plan, Budget(max_cost_usd=1))

    assert (result.status, result.pass_rate) == (RunStatus.COMPLETED, 1.0)


@pytest.mark.parametrize("budget", [Budget(max_calls=7), Budget(max_cost_usd=0.07)])
def test_a_call_inside_a_call_is_refused_where_nothing_is_left(budget):
    judge = NestedJudge()
    result = finished(experiment(judge, 6), budget)

    assert result.status is RunStatus.BUDGET_SPENT
    assert judge.calls <= 7


def test_judges_that_ask_each_other_do_not_wait_for_each_other():
    async def scenario():
        ledger = MemoryLedger(Budget(max_cost_usd=0.04))
        for judge in ("left", "right"):
            (await ledger.reserve(judge)).settle(CallMetrics(10, cost_usd=0.01))
        outer = [await ledger.reserve(judge) for judge in ("left", "right")]
        for judge in ("right", "left"):
            with pytest.raises(BudgetExceededError, match="reserved for calls in flight"):
                await ledger.reserve(judge, nested=True)
        for reservation in outer:
            reservation.fail()

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize("reply", [7, None, JudgeReply(7), JudgeReply("yes", {"tokens_in": 3})], ids=repr)
def test_an_answer_that_is_none_gives_back_what_was_set_aside(reply):
    class Wrong(FakeJudge):
        async def complete(self, prompt, *, schema=None):
            await super().complete(prompt)
            return reply

    result = finished(experiment(Wrong(), 6), Budget(max_calls=6, max_cost_usd=1))

    assert (result.status, result.error_count) == (RunStatus.BROKEN, 6)
    assert all("fake judge" in item.eval_results[0].error for item in result.item_results)


def test_an_unusable_reply_whose_cost_is_none_gives_back_what_was_set_aside():
    class Unusable(FakeJudge):
        async def complete(self, prompt, *, schema=None):
            await super().complete(prompt)
            raise JudgeReplyError("cut off", metrics={"tokens_in": 3})

    result = finished(experiment(Unusable(), 6), Budget(max_calls=6, max_cost_usd=1))

    assert (result.status, result.error_count) == (RunStatus.BROKEN, 6)


def test_one_who_is_cancelled_while_waiting_leaves_nothing_behind():
    async def scenario():
        ledger = MemoryLedger(Budget(max_cost_usd=1))
        first = await ledger.reserve("judge")
        waiting = [asyncio.ensure_future(ledger.reserve("judge")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        first.settle(CallMetrics(10, cost_usd=0.1))
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        for reservation in outcomes[1:]:
            reservation.settle(CallMetrics(10, cost_usd=0.1))
        return [type(outcome).__name__ for outcome in outcomes], ledger.spent.calls

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == (
        ["CancelledError", "Reservation", "Reservation"],
        3,
    )


def test_a_run_that_waits_for_a_call_can_be_cancelled():
    async def scenario():
        answers = asyncio.Event()

        class Silent(FakeJudge):
            async def complete(self, prompt, *, schema=None):
                self.calls += 1
                answers.set()
                await asyncio.Event().wait()

        judge = Silent()
        run = asyncio.ensure_future(experiment(judge, 6).run_async(budget=Budget(max_cost_usd=1)))
        await answers.wait()
        await asyncio.sleep(0.01)
        run.cancel()
        await asyncio.wait([run])
        return judge.calls, run.cancelled()

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == (1, True)


def test_threads_with_event_loops_of_their_own_share_a_ledger():
    ledger = MemoryLedger(Budget(max_calls=40, max_cost_usd=1))

    async def calls():
        made = 0
        while True:
            try:
                reservation = await ledger.reserve("judge")
            except BudgetExceededError:
                return made
            await asyncio.sleep(0.0005)
            if made % 3 == 2:
                reservation.fail()
            else:
                reservation.settle(CallMetrics(10, cost_usd=0.01))
            made += 1

    def in_own_loop():
        return asyncio.run(asyncio.wait_for(calls(), 60))

    with ThreadPoolExecutor(4) as threads:
        made = [future.result() for future in [threads.submit(in_own_loop) for _ in range(4)]]

    assert sum(made) == ledger.spent.calls == 40
