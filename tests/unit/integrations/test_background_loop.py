"""Agents keep the event loop that their connections belong to."""

import asyncio
import contextvars
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from dokimos import EvalTestCase
from dokimos._runtime.concurrency import run_sync
from dokimos.integrations import langchain_evaluators, pydantic_evals
from dokimos.integrations._background_loop import run_on_background_loop

marked = contextvars.ContextVar("marked", default="nothing")


@run_on_background_loop
async def running_loop():
    return asyncio.get_running_loop()


def test_several_sync_calls_share_one_loop_that_stays_open():
    first, second = run_sync(running_loop()), run_sync(running_loop())

    assert first is second
    assert not first.is_closed()


async def test_what_is_awaited_runs_on_the_loop_of_the_caller():
    assert await running_loop() is asyncio.get_running_loop()


async def test_a_sync_call_inside_a_running_loop_uses_the_lasting_one():
    async def ask():
        return await running_loop()

    assert run_sync(ask()) is not asyncio.get_running_loop()


@pytest.mark.parametrize("bridge", ["langchain", "pydantic_evals"])
def test_an_evaluator_of_another_framework_keeps_its_loop(bridge, monkeypatch):
    seen = []

    async def judge_outputs(outputs):
        seen.append(asyncio.get_running_loop())
        return True

    if bridge == "langchain":
        evaluator = langchain_evaluators.as_evaluator(judge_outputs)
    else:
        monkeypatch.setattr(pydantic_evals, "to_context", lambda case: case.actual_outputs)
        evaluator = pydantic_evals.as_evaluator(SimpleNamespace(evaluate_async=judge_outputs))
    results = [evaluator.evaluate(EvalTestCase({}, {"output": "x"})) for _ in range(2)]

    assert [result.score for result in results] == [1.0, 1.0]
    assert seen[0] is seen[1] is run_sync(running_loop())


def test_errors_and_variables_pass_through():
    @run_on_background_loop
    async def failing():
        raise KeyError(marked.get())

    marked.set("here")
    with pytest.raises(KeyError, match="here"):
        run_sync(failing())


def test_a_call_that_is_cancelled_is_cancelled_there_too():
    begun, cancelled = threading.Event(), threading.Event()

    @run_on_background_loop
    async def endless():
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def given_up():
        call = asyncio.ensure_future(endless())
        assert await asyncio.to_thread(begun.wait, 30)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(cancelled.wait, 30)

    run_sync(given_up())


LEFT_BEHIND = """
import asyncio
from dokimos._runtime.concurrency import run_sync
from dokimos.integrations._background_loop import run_on_background_loop

@run_on_background_loop
async def leaves_a_task():
    left.append(asyncio.ensure_future(asyncio.Event().wait()))
    return "done"

left = []
print(run_sync(leaves_a_task()))
"""


def test_a_process_ends_at_once_and_quietly_whatever_an_agent_left_behind():
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", LEFT_BEHIND],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")
