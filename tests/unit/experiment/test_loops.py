"""Running inside a running loop, from several threads, and being cancelled by the caller."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dokimos._core.example import Example
from dokimos._core.results import ExperimentResult, RunStatus
from dokimos._runtime.concurrency import run_sync
from dokimos.datasets._dataset import Dataset
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._run_loading import load_run
from dokimos.experiment._run_lock import RunLock
from dokimos.reporting._memory import MemoryReporter
from dokimos.reporting._reported_run import ReportedStatus

Numbers = Callable[..., Dataset]


def echo(example: Example) -> str:
    return example.inputs["input"]


async def echo_async(example: Example) -> str:
    await asyncio.sleep(0.001)
    return example.inputs["input"]


@pytest.mark.parametrize("task", [echo, echo_async])
async def test_run_works_where_a_loop_is_already_running(numbers: Numbers, task: object) -> None:
    plan = Experiment(numbers(5), task, [ExactMatch()], parallelism=2, progress=False)
    assert plan.run().pass_rate == 1.0


@pytest.mark.parametrize("task", [echo, echo_async])
async def test_run_async_runs_on_the_loop_of_the_caller(numbers: Numbers, task: object) -> None:
    plan = Experiment(numbers(5), task, [ExactMatch()], parallelism=2, progress=False)
    assert (await plan.run_async()).pass_rate == 1.0


async def test_a_client_of_the_callers_loop_works_with_run_async(numbers: Numbers) -> None:
    lock = asyncio.Lock()
    loop = asyncio.get_running_loop()

    async def task(example: Example) -> str:
        async with lock:
            await asyncio.sleep(0.001)
            assert asyncio.get_running_loop() is loop
            return echo(example)

    plan = Experiment(numbers(6), task, [ExactMatch()], parallelism=3, progress=False)
    assert (await plan.run_async()).pass_rate == 1.0


async def test_two_runs_go_on_together_on_one_loop(numbers: Numbers) -> None:
    plan = Experiment(numbers(20), echo_async, [ExactMatch()], parallelism=4, progress=False)
    first, second = await asyncio.gather(plan.run_async(), plan.run_async())
    assert first.pass_rate == second.pass_rate == 1.0
    assert first.run_id != second.run_id


@pytest.mark.parametrize("task", [echo, echo_async])
def test_runs_from_several_threads_at_once_do_not_disturb_each_other(numbers: Numbers, task: object) -> None:
    plan = Experiment(numbers(10), task, [ExactMatch()], parallelism=3, progress=False)

    def run(_: int) -> ExperimentResult:
        return plan.run()

    with ThreadPoolExecutor(6) as threads:
        results = list(threads.map(run, range(6)))
    assert [result.pass_rate for result in results] == [1.0] * 6
    assert len({result.run_id for result in results}) == 6
    assert all(load_run(Path(".dokimos/runs") / (r.run_id or "")).pass_rate == 1.0 for r in results)


@pytest.mark.parametrize("kind", ["sync", "async", "swallowing"])
async def test_a_cancelled_run_async_closes_its_journal_and_tells_its_reporters(
    numbers: Numbers, kind: str
) -> None:
    release = threading.Event()

    hangs = threading.Event()

    def hang(example: Example) -> str:
        if echo(example) == "2":
            hangs.set()
            release.wait(60)
        return echo(example)

    async def hang_async(example: Example) -> str:
        if echo(example) == "2" and not release.is_set():
            hangs.set()
            for _ in range(60):
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    if kind == "async":
                        raise
        return echo(example)

    memory = MemoryReporter()
    task = hang if kind == "sync" else hang_async
    plan = Experiment(numbers(4), task, [ExactMatch()], reporters=memory, progress=False)
    start = time.perf_counter()
    running = asyncio.create_task(plan.run_async())
    while not hangs.is_set():
        await asyncio.sleep(0.002)  # between two looks
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(running, 0.05)
    assert time.perf_counter() - start < 50
    assert memory.runs[0].status is ReportedStatus.CANCELLED
    assert [item.index for item in memory.runs[0].items] == [0, 1]
    assert memory.flush_count == 1
    [folder] = Path(".dokimos/runs").iterdir()
    RunLock(folder).release()
    last = json.loads((folder / "journal.jsonl").read_text().splitlines()[-1])
    assert (last["t"], last["status"]) == ("done", "interrupted")
    loaded = load_run(folder)
    assert (loaded.status, loaded.total_count) == (RunStatus.INTERRUPTED, 2)
    release.set()
    again = await plan.run_async(resume=folder)
    assert again.pass_rate == 1.0


async def test_cancelling_the_task_of_a_run_raises_cancelled_error(numbers: Numbers) -> None:
    async def hang(example: Example) -> str:
        await asyncio.sleep(30)
        return "x"

    running = asyncio.create_task(Experiment(numbers(1), hang, [ExactMatch()], progress=False).run_async())
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_leftover_tasks_that_do_not_end_are_left_behind_in_time() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                continue

    async def main() -> str:
        kept = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        assert not kept.done()
        return "done"

    start = time.perf_counter()
    assert run_sync(main()) == "done"
    assert time.perf_counter() - start < 50
