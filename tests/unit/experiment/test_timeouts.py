"""A hung call is given up, its slot is replaced, and the run ends on time."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.results import ExperimentResult
from dokimos._runtime import concurrency
from dokimos._runtime.concurrency import call_in_thread
from dokimos.datasets._dataset import Dataset
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._run_loading import load_run

Numbers = Callable[..., Dataset]
LONG = 120.0
"""Seconds that hung calls take; a run that does not wait for them takes less than half of it."""


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Ends what hangs when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def run(data: Any, task: Any, **settings: Any) -> ExperimentResult:
    return Experiment(data, task, [ExactMatch()], **({"progress": False} | settings)).run()


def number(example: Example) -> int:
    return int(example.inputs["input"])


def check(result: ExperimentResult, hung: set[int]) -> None:
    for item in result.item_results:
        if item.index in hung:
            assert item.error == "TimeoutError: no answer within 0.4 s; the call was abandoned"
        else:
            assert item.success is True
    calls = "1 call" if len(hung) == 1 else f"{len(hung)} calls"
    assert f"Abandoned {calls} of the task that took longer than 0.4 s." in result.warnings


@pytest.mark.parametrize("parallelism", [1, 2])
def test_hung_sync_calls_are_abandoned_and_their_slots_replaced(
    numbers: Numbers, release: threading.Event, limits: Any, parallelism: int
) -> None:
    def task(example: Example) -> str:
        if number(example) in (1, 3, 5):
            limits.reach()
            release.wait(LONG)
        return str(number(example))

    start = time.perf_counter()
    check(run(numbers(8), task, parallelism=parallelism, timeout=0.4), {1, 3, 5})
    assert time.perf_counter() - start < LONG / 2


@pytest.mark.parametrize("parallelism", [1, 2])
def test_hung_async_calls_are_cancelled(numbers: Numbers, limits: Any, parallelism: int) -> None:
    cancelled: list[int] = []

    async def task(example: Example) -> str:
        if number(example) in (1, 3):
            limits.reach()
            try:
                await asyncio.sleep(LONG)
            finally:
                cancelled.append(number(example))
        return str(number(example))

    start = time.perf_counter()
    check(run(numbers(6), task, parallelism=parallelism, timeout=0.4), {1, 3})
    assert sorted(cancelled) == [1, 3]
    assert time.perf_counter() - start < LONG / 2


def test_async_calls_that_swallow_their_cancellation_do_not_keep_the_run(
    numbers: Numbers, limits: Any
) -> None:
    async def task(example: Example) -> str:
        if number(example) == 1:
            limits.reach()
            for _ in range(1200):
                try:
                    await asyncio.sleep(0.1)
                except asyncio.CancelledError:
                    continue
        return str(number(example))

    start = time.perf_counter()
    check(run(numbers(4), task, timeout=0.4), {1})
    assert time.perf_counter() - start < LONG / 2


def test_the_wall_time_of_a_run_in_which_everything_hangs_is_bounded(
    numbers: Numbers, release: threading.Event
) -> None:
    start = time.perf_counter()
    result = run(numbers(10), lambda example: release.wait(LONG), parallelism=5, timeout=0.4)
    assert time.perf_counter() - start < LONG / 2
    assert result.error_count == 10


def test_what_an_abandoned_call_returns_later_is_not_written_down(
    numbers: Numbers, release: threading.Event, limits: Any
) -> None:
    forgotten = threading.Event()

    class Late(str):
        """An answer of which one can tell when nobody holds it any more."""

    def task(example: Example) -> str:
        if number(example) == 0:
            limits.reach()
            release.wait(LONG)
            answer = Late("0")
            weakref.finalize(answer, forgotten.set)
            return answer
        if number(example) == 2:
            release.set()
            forgotten.wait(LONG)
        return str(number(example))

    result = run(numbers(3), task, timeout=0.3)
    check_message = "TimeoutError: no answer within 0.3 s; the call was abandoned"
    assert result.item_results[0].error == check_message
    [folder] = (Path(".dokimos") / "runs").iterdir()
    assert load_run(folder).item_results[0].error == check_message
    assert forgotten.is_set()


def test_a_timed_out_call_is_repeated_where_that_is_asked_for(
    numbers: Numbers, release: threading.Event, limits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dokimos.experiment._task_calls.FIRST_RETRY_SECONDS", 0.01)
    attempts: list[int] = []

    def task(example: Example) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            limits.reach()
            release.wait(LONG)
        return str(number(example))

    result = run(numbers(1), task, timeout=0.4, retries=1)
    assert result.pass_rate == 1.0
    assert len(result.warnings) == 2


def test_a_timeout_covers_one_attempt_and_not_the_item(
    numbers: Numbers, limits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dokimos.experiment._task_calls.FIRST_RETRY_SECONDS", 0.01)
    attempts: list[int] = []

    def task(example: Example) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError("busy")
        return str(number(example))

    assert run(numbers(1), task, timeout=0.4, retries=1).pass_rate == 1.0
    assert limits.begun == [0.4, 0.4]


def test_threads_are_reused_from_item_to_item_and_run_to_run(
    numbers: Numbers, wait_until: Callable[..., None]
) -> None:
    names: set[int] = set()

    def task(example: Example) -> str:
        names.add(threading.get_ident())
        return str(number(example))

    def count() -> int:
        return sum(thread.name == "dokimos-call" for thread in threading.enumerate())

    def busy() -> int:
        return count() - len(concurrency._threads._idle)

    count_before, busy_before = count(), busy()
    run(numbers(50), task, journal=False, parallelism=1)
    for _ in range(10):
        # The one that watches the event loop hears at any moment that the run has ended.
        wait_until(lambda: busy() <= busy_before)
        run(numbers(5), task, journal=False, parallelism=1)
    # One for the items, one that watches the event loop, and one that reads the commit, another in each run.
    assert count() <= max(count_before, busy_before + 3)
    assert len(names) <= 3


async def test_a_cancelled_wait_leaves_the_thread_behind(release: threading.Event) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await call_in_thread(release.wait, LONG)
