"""What makes two calls one call, and who is asked."""

import asyncio

import pytest

from dokimos import CallMetrics
from dokimos.core.run_scope import RunScope, counting_usage, enter_scope
from dokimos.judges.calls import CallRequest, complete
from dokimos.judges.protocol import JudgeReply, as_judge, identity_of


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


def test_judges_of_one_class_are_told_apart_by_what_they_were_made_with():
    assert identity_of(Plain("yes")) != identity_of(Plain("no"))
    assert identity_of(Plain("yes")) == identity_of(Plain("yes"))


def test_counting_calls_or_changing_the_key_does_not_make_another_judge():
    judge = Plain("yes")
    before = identity_of(judge)
    asyncio.run(judge.complete("Is it?"))

    assert identity_of(judge) == before
    assert identity_of(Plain("yes", api_key="another")) == before
