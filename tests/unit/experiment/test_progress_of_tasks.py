"""What a task has done is kept where it is given up before it returns."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dokimos import Dataset, Example, Experiment, ToolCall
from dokimos._core.agent import AgentTrace
from dokimos._core.metrics import CallMetrics
from dokimos._core.task_progress import report_progress
from dokimos._core.task_result import TaskResult
from dokimos.evaluators import ToolErrors
from dokimos.integrations._agent_runs import AgentRun, AgentRunner, report_partial_run
from dokimos.integrations._agent_task import AgentTask

DATA = Dataset([Example.of("x")])
CALLS = [ToolCall("look", result="found")]


def item_of(task, **options):
    result = Experiment(DATA, task, [ToolErrors()]).run(journal=False, progress=False, **options)
    return result.item_results[0]


@pytest.fixture
def release():
    event = threading.Event()
    yield event
    event.set()


def agent(run):
    return AgentTask(AgentRunner(identity="test", run=run, converse=run))


def test_an_agent_that_is_given_up_keeps_its_calls_and_its_tokens(limits):
    async def run(inputs):
        report_partial_run(lambda: (AgentTrace(CALLS, "so far"), CallMetrics(20, 8)))
        limits.reach()
        await asyncio.Event().wait()

    item = item_of(agent(run), timeout=1.0)

    assert item.error == "TimeoutError: no answer within 1 s; the call was abandoned"
    assert item.actual_outputs["toolCalls"] == CALLS
    assert "output" not in item.actual_outputs
    assert item.metrics.tokens == 28
    assert item.eval_results == ()


def test_so_does_one_that_runs_in_a_thread(release, limits):
    def task(example: Example):
        with ThreadPoolExecutor(1) as threads:
            report_progress(lambda: TaskResult({"toolCalls": CALLS}))
            limits.reach()
            threads.submit(release.wait, 60).result()

    assert item_of(task, timeout=1.0).actual_outputs["toolCalls"] == CALLS


def test_what_cannot_be_told_in_the_middle_of_it_is_no_matter(limits):
    async def run(inputs):
        report_partial_run(lambda: 1 / 0)
        limits.reach()
        await asyncio.Event().wait()

    item = item_of(agent(run), timeout=1.0)

    assert item.error.startswith("TimeoutError")
    assert item.actual_outputs == {}


def test_a_run_that_ends_in_time_is_what_it_gave():
    async def run(inputs):
        report_partial_run(lambda: (AgentTrace(CALLS), None))
        return AgentRun(trace=AgentTrace((), "done"))

    item = item_of(agent(run), timeout=60)

    assert (item.error, item.actual_outputs["output"], item.actual_outputs["toolCalls"]) == (None, "done", [])


def test_calls_at_once_tell_only_of_themselves(limits):
    async def run(inputs):
        report_partial_run(lambda: (AgentTrace([ToolCall(inputs)]), None))
        limits.reach()
        await asyncio.Event().wait()

    data = Dataset([Example.of(name) for name in "abcdef"])
    result = Experiment(data, agent(run), [ToolErrors()], parallelism=6).run(
        journal=False, progress=False, timeout=1.0
    )

    names = [item.actual_outputs["toolCalls"][0].name for item in result.item_results]
    assert names == list("abcdef")


def test_nobody_is_told_where_no_runner_waits():
    asked = []

    report_progress(lambda: asked.append("progress"))
    report_partial_run(lambda: asked.append("so far"))

    assert asked == []
