"""What a task may be, what it may return and what is measured of it."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError as ThreadCancelled
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import ExperimentResult, ItemResult, RunStatus
from dokimos._core.task_marker import takes_example, takes_input
from dokimos._core.task_result import TaskResult
from dokimos._runtime.concurrency import call_in_thread
from dokimos.datasets._answer_replay import recorded_task
from dokimos.datasets._dataset import Dataset
from dokimos.evaluators._function import evaluator
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._task import prepare, task_name


def run(task: Any, **settings: Any) -> ExperimentResult:
    data = Dataset([Example.of("hi", "hi")])
    return Experiment(data, task, [ExactMatch()], journal=False, progress=False, **settings).run()


def item_of(task: Any, **settings: Any) -> ItemResult:
    [item] = run(task, **settings).item_results
    return item


def sync_task(example: Example) -> str:
    return example.inputs["input"]


async def async_task(example: Example) -> str:
    await asyncio.sleep(0)
    return example.inputs["input"]


class CallableObject:
    def __call__(self, example: Example) -> str:
        return example.inputs["input"]


class AsyncCallableObject:
    async def __call__(self, example: Example) -> str:
        return example.inputs["input"]

    async def answer(self, example: Example) -> str:
        return example.inputs["input"]


def with_suffix(suffix: str, example: Example) -> str:
    return example.inputs["input"] + suffix


async def async_with_suffix(suffix: str, example: Example) -> str:
    return example.inputs["input"] + suffix


def chunks(example: Example) -> Iterator[str]:
    yield "h"
    yield "i"


async def async_chunks(example: Example) -> AsyncIterator[str]:
    yield "h"
    await asyncio.sleep(0.01)
    yield "i"


async def returning_async_chunks(example: Example) -> AsyncIterator[str]:
    return async_chunks(example)


@functools.wraps(async_task)
def blocking_twin(example: Example) -> str:
    return asyncio.run(async_task(example))


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(sync_task, id="function"),
        pytest.param(async_task, id="async function"),
        pytest.param(CallableObject(), id="callable object"),
        pytest.param(AsyncCallableObject(), id="async callable object"),
        pytest.param(AsyncCallableObject().answer, id="bound async method"),
        pytest.param(functools.partial(with_suffix, ""), id="partial"),
        pytest.param(functools.partial(async_with_suffix, ""), id="async partial"),
        pytest.param(lambda example: async_task(example), id="lambda returning a coroutine"),
        pytest.param(blocking_twin, id="sync wrapper around an async function"),
        pytest.param(chunks, id="generator"),
        pytest.param(async_chunks, id="async generator"),
        pytest.param(returning_async_chunks, id="coroutine returning an async generator"),
        pytest.param(lambda example: async_chunks(example), id="lambda returning an async generator"),
        pytest.param(lambda text: text, id="function of the input"),
        pytest.param(lambda example: {"output": "hi", "more": 1}, id="mapping"),
        pytest.param(lambda example: TaskResult.of({"output": "hi"}), id="TaskResult"),
        pytest.param(lambda example: AgentTrace((), "hi"), id="AgentTrace"),
    ],
)
def test_every_kind_of_task_gives_its_output(task: Any) -> None:
    result = run(task)
    assert result.item_results[0].error is None
    assert result.pass_rate == 1.0


def test_an_async_function_of_the_input_is_awaited() -> None:
    async def shout(text: str) -> str:
        return text.upper()

    assert item_of(shout).actual_outputs == {"output": "HI"}


def test_any_other_value_becomes_the_output() -> None:
    assert item_of(lambda example: [1, 2]).actual_outputs == {"output": [1, 2]}
    assert item_of(lambda example: 0).actual_outputs == {"output": 0}
    assert item_of(lambda example: "").actual_outputs == {"output": ""}


def test_an_agent_trace_keeps_its_tool_calls() -> None:
    trace = AgentTrace((ToolCall("search", {"q": "x"}),), "hi", reasoning_steps=("think",))
    outputs = item_of(lambda example: trace).actual_outputs
    assert outputs["toolCalls"] == [ToolCall("search", {"q": "x"})]
    assert outputs["reasoningSteps"] == ["think"]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_none_is_an_error_that_says_what_to_return(kind: str, parallelism: int) -> None:
    async def nothing(example: Example) -> None:
        return None

    item = item_of(nothing if kind == "async" else lambda example: None, parallelism=parallelism)
    assert item.error is not None
    assert "returned None" in item.error
    assert "TaskResult" in item.error
    assert item.success is False


def test_a_task_result_must_hold_a_mapping() -> None:
    error = item_of(lambda example: TaskResult("hi")).error
    assert error == "TypeError: TaskResult.outputs must be a mapping, not str"


def test_metrics_of_another_type_are_an_error_that_names_the_type() -> None:
    error = item_of(lambda example: TaskResult({"output": "hi"}, {"tokens": 3})).error
    assert error == "TypeError: TaskResult.metrics must be CallMetrics, not dict"


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), -1.0])
def test_a_measure_that_measures_nothing_is_an_error_of_the_item(nonsense: float) -> None:
    def task(example: Example) -> TaskResult:
        return TaskResult({"output": "hi"}, CallMetrics(3, latency_ms=nonsense))

    assert (item_of(task).error or "").startswith("ValueError: latency_ms must be a finite number")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_latency_is_measured_for_every_task(kind: str) -> None:
    async def slow_async(example: Example) -> str:
        await asyncio.sleep(0.03)
        return "hi"

    def slow(example: Example) -> str:
        time.sleep(0.03)  # what is measured
        return "hi"

    metrics = item_of(slow_async if kind == "async" else slow).metrics
    assert metrics is not None
    assert metrics.latency_ms is not None
    assert 29 <= metrics.latency_ms < 60_000
    assert metrics.first_chunk_ms is None


def test_a_latency_that_the_task_supplies_wins() -> None:
    item = item_of(lambda example: TaskResult({"output": "hi"}, CallMetrics(latency_ms=12345.0)))
    assert item.metrics == CallMetrics(latency_ms=12345.0)


def test_metrics_without_a_latency_get_the_measured_one() -> None:
    metrics = item_of(lambda example: TaskResult({"output": "hi"}, CallMetrics(7, 8, model="m"))).metrics
    assert metrics is not None
    assert (metrics.tokens_in, metrics.tokens_out, metrics.model) == (7, 8, "m")
    assert metrics.latency_ms is not None


@pytest.mark.parametrize("task", [chunks, async_chunks])
def test_a_stream_knows_the_time_to_its_first_chunk(task: Callable[[Example], Any]) -> None:
    metrics = item_of(task).metrics
    assert metrics is not None
    assert metrics.first_chunk_ms is not None
    assert metrics.latency_ms is not None
    assert 0 < metrics.first_chunk_ms <= metrics.latency_ms


def test_the_first_chunk_of_an_async_stream_comes_before_its_end() -> None:
    metrics = item_of(async_chunks).metrics
    assert metrics is not None
    assert (metrics.latency_ms or 0) - (metrics.first_chunk_ms or 0) >= 9


def test_a_stream_of_something_else_than_text_is_an_error_and_is_closed() -> None:
    closed = []

    async def numbers_instead(example: Example) -> AsyncIterator[Any]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    assert item_of(numbers_instead).error == "TypeError: a streamed output must consist of text, not of int"
    assert closed == [True]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class OfATestFramework(BaseException):
    """Test frameworks derive their failures from BaseException."""


def recurse(example: Example) -> Any:
    return recurse(example)


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ValueError("bad input"), "ValueError: bad input"),
        (ValueError(), "ValueError"),
        (StopIteration(3), "RuntimeError: StopIteration raised: 3"),
        (ThreadCancelled(), "CancelledError"),
        (asyncio.CancelledError(), "CancelledError"),
        (OfATestFramework("failed"), "OfATestFramework: failed"),
        (ValueError("snow ☃ and \ud800"), "ValueError: snow ☃ and \ud800"),
        (Unprintable(), "Unprintable: (no message: ValueError in __str__)"),
    ],
)
@pytest.mark.parametrize("timeout", [None, 5])
@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_whatever_a_task_raises_becomes_the_error_of_its_item(
    kind: str, raised: BaseException, error: str, parallelism: int, timeout: float | None
) -> None:
    def fail(example: Example) -> str:
        if example.inputs["input"] == "1":
            raise raised
        return "fine"

    async def fail_async(example: Example) -> str:
        return fail(example)

    data = Dataset([Example.of(str(i), "fine") for i in range(4)])
    task = fail_async if kind == "async" else fail
    plan = Experiment(data, task, [ExactMatch()], parallelism=parallelism, timeout=timeout, progress=False)
    result = plan.run()
    found = result.item_results[1].error
    if isinstance(raised, StopIteration) and kind == "async":
        error = "RuntimeError: coroutine raised StopIteration"
    assert found == error
    assert result.item_results[1].eval_results == ()
    assert result.item_results[1].success is False
    assert (result.pass_count, result.fail_count, result.error_count) == (3, 1, 1)
    assert result.status is RunStatus.COMPLETED


def test_a_recursion_without_end_is_an_error_of_its_item() -> None:
    assert (item_of(recurse).error or "").startswith("RecursionError")


def test_a_huge_message_is_shortened() -> None:
    def fail(example: Example) -> str:
        raise ValueError("x" * 1_000_000)

    error = item_of(fail).error or ""
    assert len(error) < 2100
    assert error.endswith("(1000000 characters)")


@pytest.mark.parametrize("timeout", [None, 5.0])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_sys_exit_in_a_task_is_the_error_of_its_item(kind: str, timeout: float | None) -> None:
    def leave(example: Example) -> str:
        raise SystemExit(7)

    async def leave_async(example: Example) -> str:
        raise SystemExit(7)

    item = run(leave_async if kind == "async" else leave, timeout=timeout).item_results[0]
    assert item.error in ("SystemExit: 7", "RuntimeError: the task called sys.exit(7)")


def test_the_advice_for_a_client_of_another_loop_is_to_await() -> None:
    def fail(example: Example) -> str:
        raise RuntimeError("<Lock> is bound to a different event loop")

    assert "await experiment.run_async()" in (item_of(fail).error or "")


def test_a_client_that_belongs_to_another_loop_gets_that_advice() -> None:
    async def main() -> ExperimentResult:
        lock = asyncio.Lock()
        await lock.acquire()
        asyncio.get_running_loop().call_later(0.2, lock.release)
        waiter = asyncio.ensure_future(lock.acquire())  # binds the lock to this loop
        await asyncio.sleep(0)

        async def task(example: Example) -> str:
            async with lock:
                return "hi"

        result = run(task)
        await waiter
        return result

    [item] = asyncio.run(main()).item_results
    assert "await experiment.run_async()" in (item.error or "")


def test_every_item_that_awaits_a_future_of_another_loop_gets_that_advice() -> None:
    async def main() -> ExperimentResult:
        future = asyncio.get_running_loop().create_future()

        async def task(example: Example) -> str:
            return await future

        data = Dataset([Example.of("a"), Example.of("b")])
        return Experiment(data, task, [ExactMatch()], journal=False, progress=False).run()

    items = asyncio.run(main()).item_results
    assert ["await experiment.run_async()" in (item.error or "") for item in items] == [True, True]


def test_the_name_of_a_task_is_where_it_is_defined() -> None:
    assert task_name(sync_task).endswith("test_tasks:sync_task")
    assert task_name(functools.partial(with_suffix, "!")).endswith(":with_suffix")
    assert task_name(takes_input(len)) == "builtins:len"
    assert task_name(takes_example(sync_task)) == task_name(sync_task)
    assert task_name(CallableObject()).endswith(":CallableObject")
    assert prepare(async_task).is_async
    assert not prepare(sync_task).is_async


@evaluator
def fine(output: object) -> bool:
    return True


def test_unicode_of_every_kind_goes_through_a_run_with_a_journal() -> None:
    text = "snow ☃ \U0001f600 lone \ud800 nul \x00 line\u2028"
    data = Dataset([Example.of(text)])
    result = Experiment(data, lambda got: got, [fine], progress=False).run()
    assert result.pass_rate == 1.0
    assert result.warnings == ()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_future_of_a_thread_pool_is_awaited(kind: str) -> None:
    with ThreadPoolExecutor(1) as pool:

        def submit(example: Example) -> Any:
            return pool.submit(lambda: {"output": example.input})

        async def submit_async(example: Example) -> Any:
            return submit(example)

        result = run(submit if kind == "sync" else submit_async)
    assert result.pass_count == len(result.item_results)


def test_a_future_that_fails_is_the_error_of_its_item() -> None:
    with ThreadPoolExecutor(1) as pool:
        result = run(lambda example: pool.submit(int, "x"))
    assert "invalid literal" in str(result.item_results[0].error)


def test_recorded_answers_are_looked_up_without_a_thread(monkeypatch):
    calls = []

    async def note_call(*arguments: Any) -> Any:
        calls.append(arguments)
        return await call_in_thread(*arguments)

    @takes_example
    @functools.wraps(recorded_task())
    def look_up_slowly(row: Example) -> TaskResult:
        return recorded_task()(row)

    monkeypatch.setattr("dokimos.experiment._task.call_in_thread", note_call)
    row = Example({"input": "q"}, {"output": "a"}, actual_outputs={"output": "a"})
    for task, count in ((recorded_task(), 0), (look_up_slowly, 1)):
        result = Experiment([row], task, [ExactMatch()], quiet=True, journal=False).run()
        assert result.pass_rate == 1.0
        assert len(calls) == count, "what wraps it may wait"
