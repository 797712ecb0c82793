"""Replies of no use: paid for like any other, kept, and asked for anew by a retry only."""

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos import Budget, CallMetrics, Dataset, Example, Experiment
from dokimos._core.results import RunStatus
from dokimos.errors import JudgeReplyError
from dokimos.evaluators import LLMJudge
from dokimos.judges._cassette import with_cassette
from dokimos.judges._judge_calls import CallRequest, complete
from dokimos.judges._protocol import JudgeReply
from dokimos.judges._run_call_store import RunCallStore
from dokimos.judges._run_scope import RunScope, counting_usage, enter_scope

GOOD = '{"reason": "It is.", "score": 1}'
NONSENSE = "hm"
COST = CallMetrics(90, 10, cost_usd=0.01)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Judge:
    """Answers with a text, or has its replies cut off where there is none."""

    identity = "fake judge"

    def __init__(self, text=None, problem="cut off"):
        self.text = text
        self.problem = problem
        self.calls = 0

    async def complete(self, prompt, *, schema=None):
        self.calls += 1
        if self.text is None:
            raise JudgeReplyError(self.problem, metrics=COST)
        return JudgeReply(self.text, COST)


def experiment(judge, count=4):
    data = Dataset([Example.of(str(number), id=str(number)) for number in range(count)])
    evaluators = [LLMJudge(criteria="Is it right?", judge=judge)]
    return Experiment(data, lambda text: text, evaluators, progress=False, parallelism=1)


def asked(judge, calls, *, again=()):
    """Ask once in a run with these calls; return what it cost and the error."""

    async def ask():
        enter_scope(RunScope(call_stores=(calls,), in_flight={}, retry_keys=set(again)))
        with counting_usage() as usage:
            try:
                reply = await complete(judge, "Is it?")
            except JudgeReplyError as error:
                return usage.metrics, str(error)
        return usage.metrics, reply.text

    return asyncio.run(ask())


@pytest.fixture
def calls_of(tmp_path):
    """Open the calls of a run; they are closed when they are opened anew, and at the end."""
    opened = []

    def open_calls():
        if opened:
            opened[-1].close()
        opened.append(RunCallStore(tmp_path / "calls.jsonl"))
        return opened[-1]

    yield open_calls
    for calls in opened:
        calls.close()


def test_a_reply_of_no_use_is_not_asked_for_again(calls_of):
    judge = Judge()
    first = asked(judge, calls_of())

    assert first == asked(judge, calls_of()) == (COST, "cut off")
    assert judge.calls == 1


def test_one_without_a_price_is_kept_too(calls_of):
    class Free(Judge):
        async def complete(self, prompt, *, schema=None):
            self.calls += 1
            raise JudgeReplyError("filtered")

    judge = Free()
    asked(judge, calls_of())
    calls = calls_of()

    assert asked(judge, calls)[1] == "filtered"
    assert (judge.calls, list(calls.costs())) == (1, [("fake judge", CallMetrics())])


def test_a_retry_asks_again_once_and_both_are_paid_for(calls_of):
    judge = Judge()
    asked(judge, calls_of())
    calls = calls_of()
    again = calls.unusable_keys()
    judge.text = GOOD

    assert asked(judge, calls, again=again) == (COST, GOOD)
    calls = calls_of()
    assert calls.unusable_keys() == set()
    assert asked(judge, calls) == (COST, GOOD)
    assert judge.calls == 2
    assert list(calls.costs()) == [("fake judge", COST)] * 2


def test_a_retry_that_is_of_no_use_either_is_kept_as_well(calls_of):
    judge = Judge()
    asked(judge, calls_of())
    calls = calls_of()
    judge.problem = "cut off once more"

    asked(judge, calls, again=calls.unusable_keys())
    calls = calls_of()
    assert asked(judge, calls) == (COST, "cut off once more")
    assert (judge.calls, len(list(calls.costs())), len(calls.unusable_keys())) == (2, 2, 1)


def test_an_error_that_repeats_a_key_does_not_write_it_down(calls_of, monkeypatch, tmp_path):
    monkeypatch.setenv("SOME_API_KEY", "a-very-secret-value")
    asked(Judge(problem="the reply was cut off. It was: 'a-very-secret-value'"), calls_of())

    text = (tmp_path / "calls.jsonl").read_text()
    assert "cut off" in text
    assert "a-very-secret-value" not in text


KEYS = st.sampled_from(["one", "two", "three"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "put again", "fail", "fail again", "mark", "reopen"]), KEYS),
    max_size=12,
)


@settings(max_examples=40)
@given(steps=STEPS)
def test_calls_read_back_what_was_last_said_of_each_and_all_that_was_paid(steps):
    """A file with marks and failures between the replies says the same to the next process."""
    said, unusable, paid = {}, set(), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calls.jsonl"
        calls = RunCallStore(path)
        for step, prompt in steps:
            request = CallRequest(Judge(), prompt, None, repeat=0, sample=0)
            request.is_retry = step.endswith("again")
            if step.startswith("put") and (request.is_retry or prompt not in said):
                said[prompt], paid = "yes", paid + 1
                unusable.discard(prompt)
            if step.startswith("fail"):
                said[prompt], paid = JudgeReplyError, paid + 1
                unusable.add(prompt)
            if step == "mark":
                unusable.add(prompt)
            calls = carried_out(step.split()[0], calls, request, path)
        calls.close()
        calls = RunCallStore(path)
        assert {prompt: found(calls, prompt) for prompt in said} == said
        assert len(list(calls.costs())) == paid
        assert calls.unusable_keys() == {
            CallRequest(Judge(), p, None, repeat=0, sample=0).key for p in unusable
        }
        assert calls.warnings() == []
        calls.close()


def carried_out(step, calls, request, path):
    failure = JudgeReplyError("cut off", metrics=COST if step == "fail" else None)
    if step == "put":
        asyncio.run(calls.put(request.key, request, JudgeReply("yes", COST)))
    elif step in ("fail", "mark"):
        asyncio.run(calls.reject(request.key, request, failure))
    else:
        calls.close()
        calls = RunCallStore(path)
    return calls


def found(calls, prompt):
    request = CallRequest(Judge(), prompt, None, repeat=0, sample=0)
    try:
        return asyncio.run(calls.get(request.key, request)).text
    except JudgeReplyError:
        return JudgeReplyError


def test_a_resumed_budget_counts_what_was_of_no_use():
    judge = Judge()
    plan = experiment(judge)
    cut_short = plan.run(budget=Budget(max_calls=3))
    resumed = plan.run(resume=cut_short.run_id, budget=Budget(max_calls=3))

    assert judge.calls == 3
    assert resumed.status is RunStatus.BUDGET_SPENT
    larger = plan.run(resume=cut_short.run_id, budget=Budget(max_calls=4))
    assert (judge.calls, larger.status, larger.error_count) == (4, RunStatus.BROKEN, 4)
    assert larger.summary.judging.metrics.cost_usd == pytest.approx(0.04)


@pytest.mark.parametrize("unusable", [None, NONSENSE])
def test_only_a_run_that_repeats_errors_asks_again(unusable):
    judge = Judge(unusable)
    plan = experiment(judge)
    broken = plan.run()
    paid = judge.calls
    judge.text = GOOD

    assert (broken.error_count, plan.run(resume=broken.run_id).error_count) == (4, 4)
    assert judge.calls == paid

    repeated = plan.run(resume=broken.run_id, retry_errors=True)
    assert (repeated.error_count, repeated.pass_rate) == (0, 1.0)
    assert judge.calls == paid + 4

    assert plan.run(resume=broken.run_id, retry_errors=True).pass_rate == 1.0
    assert judge.calls == paid + 4


def test_a_retry_pays_out_of_what_the_budget_has_left():
    judge = Judge(NONSENSE)
    plan = experiment(judge, count=2)
    broken = plan.run(budget=Budget(max_calls=5))
    judge.text = GOOD
    repeated = plan.run(resume=broken.run_id, retry_errors=True, budget=Budget(max_calls=5))

    assert (judge.calls, repeated.status) == (5, RunStatus.BUDGET_SPENT)


def test_what_an_evaluator_of_ones_own_got_wrong_is_not_asked_again():
    judge = Judge("not a number")

    from dokimos.evaluators._function import evaluator

    @evaluator(name="Own")
    async def own(output: str) -> float:
        return float((await complete(judge, output)).text)

    plan = Experiment(Dataset([Example.of("1")]), str, [own], progress=False)
    broken = plan.run()

    assert plan.run(resume=broken.run_id, retry_errors=True).error_count == broken.error_count == 1
    assert judge.calls == 1


def test_the_cache_keeps_no_reply_of_no_use(tmp_path):
    judge = Judge(NONSENSE)
    plan = experiment(judge, count=1)
    assert plan.run(cache="cache.sqlite").error_count == 1
    assert judge.calls == 2
    judge.text = GOOD

    assert plan.run(cache="cache.sqlite").pass_rate == 1.0
    assert plan.run(cache="cache.sqlite").pass_rate == 1.0
    assert judge.calls == 3


def test_a_replay_tells_of_the_same_error_and_asks_nobody():
    judge = Judge(NONSENSE)
    plan = experiment(judge, count=1)
    recorded = plan.run(cassette="calls.jsonl", cassette_mode="record")
    replayed = plan.run(cassette="calls.jsonl", cassette_mode="replay")
    repeated = plan.run(
        resume=replayed.run_id, retry_errors=True, cassette="calls.jsonl", cassette_mode="replay"
    )

    errors = {run.runs[0].item_results[0].eval_results[0].error for run in (recorded, replayed, repeated)}
    assert len(errors) == 1
    assert "could not be used after one repair" in errors.pop()
    assert judge.calls == 2


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("mode", ["auto", "record"])
def test_a_retry_puts_its_reply_on_the_cassette(tmp_path, own, mode):
    judge = Judge(NONSENSE)
    settings = {} if own else {"cassette": "calls.jsonl", "cassette_mode": mode}
    plan = experiment(with_cassette(judge, "calls.jsonl", mode) if own else judge, count=1)
    broken = plan.run(**settings)
    judge.text = GOOD
    repeated = plan.run(resume=broken.run_id, retry_errors=True, **settings)
    if own:
        plan.evaluators[0].judge.save()

    assert (judge.calls, repeated.pass_rate) == (3, 1.0)
    replies = [
        json.loads(line)["reply"]["text"] for line in (tmp_path / "calls.jsonl").read_text().splitlines()
    ]
    assert GOOD in replies
