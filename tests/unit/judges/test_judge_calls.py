"""What makes two calls one call, and who is asked."""

import asyncio
import functools
import gc
import itertools
from dataclasses import dataclass

import pytest

from dokimos import Budget, CallMetrics
from dokimos.errors import BudgetExceededError, JudgeReplyError, JudgeUnavailableError
from dokimos.judges._budget import MemoryLedger
from dokimos.judges._judge_calls import CallRequest, complete
from dokimos.judges._protocol import JudgeReply, as_judge, identity_of
from dokimos.judges._run_scope import RunScope, counting_usage, enter_scope


class Counting:
    identity = "counting judge"

    def __init__(self):
        self.calls = 0

    async def complete(self, prompt, *, schema=None):
        self.calls += 1
        await asyncio.sleep(0.005)
        return JudgeReply("yes", CallMetrics(10, 1))


class Plain:
    """Has no identity of its own."""

    def __init__(self, answer, api_key="unused"):
        self.answer = answer
        self.api_key = api_key
        self.calls = 0

    async def complete(self, prompt, *, schema=None):
        self.calls += 1
        return JudgeReply(self.answer)


def key(judge, prompt="Is it?", schema=None, repeat=0, sample=0):
    return CallRequest(judge, prompt, schema, repeat=repeat, sample=sample).key


def test_the_order_of_a_schema_s_members_makes_no_difference():
    one, other = {"type": "object", "title": "x"}, {"title": "x", "type": "object"}
    assert key(Counting(), schema=one) == key(Counting(), schema=other)


@pytest.mark.parametrize(
    "change", [{"prompt": "Was it?"}, {"schema": {"type": "object"}}, {"repeat": 1}, {"sample": 1}]
)
def test_every_part_of_a_call_makes_it_another_one(change):
    assert key(Counting(), **change) != key(Counting())


def test_a_call_that_is_being_made_is_shared():
    judge = Counting()

    async def ask_together():
        enter_scope(RunScope(in_flight={}))
        with counting_usage() as usage:
            replies = await asyncio.gather(*(complete(judge, "Is it?") for _ in range(5)))
        return [reply.text for reply in replies], usage.calls

    assert asyncio.run(ask_together()) == (["yes"] * 5, 1)
    assert judge.calls == 1


def test_a_wrapper_that_passes_for_its_judge_does_not_wait_for_its_own_call():
    class Passing:
        def __init__(self, judge):
            self.judge, self.identity = judge, judge.identity

        async def complete(self, prompt, *, schema=None):
            return await complete(self.judge, prompt, schema=schema)

    async def ask_through():
        enter_scope(RunScope(in_flight={}))
        return await asyncio.wait_for(complete(Passing(Counting()), "Is it?"), 60)

    assert asyncio.run(ask_through()).text == "yes"


def test_outside_a_run_every_call_is_made():
    judge = Counting()

    async def ask_twice():
        await asyncio.gather(complete(judge, "Is it?"), complete(judge, "Is it?"))

    asyncio.run(ask_twice())
    assert judge.calls == 2


def made(answer):
    return lambda prompt: answer


def test_functions_of_one_name_that_answer_differently_are_told_apart():
    identities = {
        identity_of(as_judge(function))
        for function in (lambda prompt: "yes", lambda prompt: "no", made("yes"), made("no"))
    }
    assert len(identities) == 4
    assert identity_of(as_judge(made("yes"))) == identity_of(as_judge(made("yes")))


@dataclass(frozen=True)
class Settings:
    model: str


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["yes"], ["no"]),
        ({"model": "small"}, {"model": "large"}),
        ({"yes"}, {"no"}),
        (Settings("small"), Settings("large")),
        (Plain("yes"), Plain("no")),
        (made("yes"), made("no")),
        (functools.partial(made, "yes"), functools.partial(made, "no")),
        (str.upper, str.lower),
        (str, int),
        (None, 0),
    ],
)
def test_functions_of_one_body_are_told_apart_by_what_they_close_over(one, other):
    assert identity_of(as_judge(made(one))) != identity_of(as_judge(made(other)))
    assert identity_of(as_judge(made(one))) == identity_of(as_judge(made(one)))


def test_defaults_are_told_apart_by_their_place():
    def with_defaults(first, second, third):
        return lambda prompt, a=first, b=second, *, c=third: f"{a}{b}{c}"

    orders = itertools.permutations(["yes", "no", "tie"])
    assert len({identity_of(as_judge(with_defaults(*order))) for order in orders}) == 6


def test_functions_of_one_name_that_call_others_are_told_apart():
    assert identity_of(as_judge(lambda p: p.upper())) != identity_of(as_judge(lambda p: p.lower()))


def test_methods_are_told_apart_by_their_objects():
    class Desk:
        def __init__(self, model):
            self.model = model

        def answer(self, prompt):
            return self.model

    small, large = as_judge(Desk("small").answer), as_judge(Desk("large").answer)
    assert identity_of(small) != identity_of(large)
    assert identity_of(small) == identity_of(as_judge(Desk("small").answer))


def test_what_a_function_does_with_what_it_closes_over_does_not_make_another_judge():
    prompts, count = [], 0

    def judge(prompt):
        nonlocal count
        count += 1
        prompts.append(prompt)
        return "yes"

    asked = as_judge(judge)
    before = identity_of(asked)
    asyncio.run(asked.complete("Is it?"))

    assert (prompts, count) == (["Is it?"], 1)
    assert identity_of(asked) == identity_of(as_judge(judge)) == before


def test_another_key_in_a_closure_does_not_make_another_judge():
    def make_judge(api_key):
        return lambda prompt: str(len(api_key))

    assert identity_of(as_judge(make_judge("one"))) == identity_of(as_judge(make_judge("other")))


def test_a_function_that_holds_itself_has_an_identity():
    def again(prompt):
        return again(prompt[1:]) if prompt else "yes"

    ring = [again]
    ring.append(ring)

    assert identity_of(as_judge(again)).startswith(f"{__name__}:")
    assert identity_of(as_judge(made(ring))) == identity_of(as_judge(made(ring)))


def test_a_reply_of_no_use_is_paid_for_like_any_other():
    class CutOff:
        identity = "cut off"

        async def complete(self, prompt, *, schema=None):
            raise JudgeReplyError("cut off", metrics=CallMetrics(100, 8, cost_usd=0.5))

    ledger = MemoryLedger(Budget(max_cost_usd=0.9))

    async def ask():
        enter_scope(RunScope(budget=ledger))
        with counting_usage() as usage, pytest.raises(JudgeReplyError, match="cut off"):
            await complete(CutOff(), "Is it?")
        with pytest.raises(BudgetExceededError, match=r"0\.50* spent"):
            await complete(CutOff(), "Is it?")
        return usage

    usage = asyncio.run(ask())
    assert (usage.calls, usage.metrics) == (1, CallMetrics(100, 8, cost_usd=0.5))
    assert (ledger.spent.calls, ledger.spent.tokens, ledger.spent.cost_usd) == (1, 108, 0.5)


def test_a_call_goes_on_when_the_one_who_waits_for_it_is_cancelled():
    judge = Counting()

    async def leave_and_come_back():
        enter_scope(RunScope(in_flight={}))
        first = asyncio.create_task(complete(judge, "Is it?"))
        second = asyncio.create_task(complete(judge, "Is it?"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return (await second).text

    assert asyncio.run(leave_and_come_back()) == "yes"
    assert judge.calls == 1


def test_a_call_that_failed_when_nobody_waited_any_more_is_made_again():
    class FailsOnce(Counting):
        async def complete(self, prompt, *, schema=None):
            reply = await super().complete(prompt)
            if self.calls == 1:
                raise ConnectionError("cut")
            return reply

    judge = FailsOnce()

    async def retry_keys():
        scope = RunScope(in_flight={})
        enter_scope(scope)
        first = asyncio.ensure_future(complete(judge, "Is it?"))
        await asyncio.sleep(0)
        [call] = scope.in_flight.values()
        first.cancel()
        await asyncio.wait([call])
        return (await complete(judge, "Is it?")).text

    assert asyncio.run(retry_keys()) == "yes"
    assert judge.calls == 2


def test_a_call_that_fails_when_nobody_waits_any_more_complains_to_nobody(caplog):
    class Down:
        identity = "down"

        async def complete(self, prompt, *, schema=None):
            await asyncio.sleep(0.001)
            raise JudgeUnavailableError("down")

    async def leave():
        enter_scope(RunScope(in_flight={}))
        asked = asyncio.create_task(complete(Down(), "Is it?"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await asyncio.sleep(0.01)
        gc.collect()

    asyncio.run(leave())
    assert "never retrieved" not in caplog.text


def test_judges_of_one_class_are_told_apart_by_what_they_were_made_with():
    assert identity_of(Plain("yes")) != identity_of(Plain("no"))
    assert identity_of(Plain("yes")) == identity_of(Plain("yes"))


def test_counting_calls_or_changing_the_key_does_not_make_another_judge():
    judge = Plain("yes")
    before = identity_of(judge)
    asyncio.run(judge.complete("Is it?"))

    assert identity_of(judge) == before
    assert identity_of(Plain("yes", api_key="another")) == before
