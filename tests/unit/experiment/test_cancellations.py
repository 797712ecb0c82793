"""Code that cancels itself, as clients with time limits of their own do, ends no run."""

import asyncio
import contextlib

import pytest

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import FunctionEvaluator
from dokimos.experiment._run_options import RunOptions
from dokimos.experiment._task_calls import TaskCaller


async def _cancel_itself():
    asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)
    with contextlib.suppress(asyncio.CancelledError):  # and never calls uncancel()
        await asyncio.Event().wait()


async def answer(question):
    await _cancel_itself()
    return question.upper()


async def raise_cancelled(case):
    await asyncio.sleep(0)
    raise asyncio.CancelledError("limit of the client")


async def limit(case):
    await _cancel_itself()
    return 1.0


async def another_limit(case):
    return await limit(case)


def run(task, *functions):
    evaluators = [FunctionEvaluator(name=function.__name__, function=function) for function in functions]
    examples = [Example.of(text, text.upper()) for text in "abc"]
    return evaluate(examples, task, evaluators, quiet=True, journal=False)


def test_an_evaluator_that_cancels_itself_has_its_score():
    result = run(str.upper, limit, another_limit)
    assert [one.score for item in result.item_results for one in item.eval_results] == [1.0] * 6


def test_what_a_task_left_cancelled_is_not_taken_for_the_end_of_the_run():
    result = run(answer, raise_cancelled, limit)
    assert result.total_count == 3
    for item in result.item_results:
        assert [one.error for one in item.eval_results] == ["CancelledError: limit of the client", None]


async def cancel_the_task(case):
    asyncio.current_task().cancel()
    await asyncio.sleep(0)


async def score(case):
    return 1.0


@pytest.mark.parametrize(
    "functions", [(cancel_the_task,), (cancel_the_task, score), (score, cancel_the_task)]
)
def test_a_cancellation_before_an_evaluator_waits_is_one_of_the_run(functions):
    with pytest.raises(asyncio.CancelledError):
        run(str.upper, *functions)


def test_what_an_item_left_cancelled_is_not_taken_for_the_cancellation_of_the_next_one():
    async def give_up_later(question):
        if question == "b":
            raise asyncio.CancelledError("limit")
        return await answer(question)

    evaluators = [FunctionEvaluator(name="score", function=score)]
    examples = [Example.of("a"), Example.of("b")]
    result = evaluate(examples, give_up_later, evaluators, quiet=True, journal=False, parallelism=1)
    assert [item.error for item in result.item_results] == [None, "CancelledError: limit"]


async def _call(task):
    caller = TaskCaller(task, RunOptions(), None, dataset=Dataset([Example.of("a")]))
    return await caller.call_here(Example.of("a"), None)


async def test_a_task_that_is_called_outside_a_run_may_raise_cancelled_error_by_itself():
    async def give_up(question):
        raise asyncio.CancelledError("limit")

    outcome = await _call(give_up)
    assert outcome.error == "CancelledError: limit"


async def test_a_call_outside_a_run_ends_when_its_caller_is_cancelled():
    begun = asyncio.Event()

    async def wait(question):
        begun.set()
        await asyncio.Event().wait()

    call = asyncio.create_task(_call(wait))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
