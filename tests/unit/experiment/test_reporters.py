"""What reporters receive, and that they never fail a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.results import ExperimentResult, ItemResult
from dokimos.datasets._dataset import Dataset
from dokimos.errors import TooManyErrors
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.reporting._memory import MemoryReporter
from dokimos.reporting._protocol import BaseReporter, Reporter, RunHandle
from dokimos.reporting._reported_run import ReportedStatus

Numbers = Callable[..., Dataset]


def echo(example: Example) -> str:
    return example.inputs["input"]


def run(data: Any, reporters: Any, task: Any = echo, **settings: Any) -> ExperimentResult:
    defaults = {"journal": False, "progress": False}
    return Experiment(data, task, [ExactMatch()], reporters=reporters, **(defaults | settings)).run()


def test_a_reporter_hears_of_every_repeat_and_item(numbers: Numbers) -> None:
    memory = MemoryReporter()
    result = run(numbers(3), memory, runs=2, name="n", metadata={"model": "m"})
    assert [reported.name for reported in memory.runs] == ["n", "n"]
    assert memory.runs[0].metadata == {"model": "m"}
    assert [reported.status for reported in memory.runs] == [ReportedStatus.SUCCESS] * 2
    assert [tuple(reported.items) for reported in memory.runs] == [run.item_results for run in result.runs]
    assert memory.flush_count == 2
    assert memory.runs[0].handle != memory.runs[1].handle


def test_items_are_reported_as_they_finish(numbers: Numbers) -> None:
    memory = MemoryReporter()
    known: list[int] = []

    def task(example: Example) -> str:
        known.append(len(memory.runs[0].items))
        return echo(example)

    run(numbers(3), memory, task)
    assert known == [0, 1, 2]


def test_a_reporter_is_closed_only_where_that_is_asked_for(numbers: Numbers) -> None:
    left_open, closed = MemoryReporter(), MemoryReporter()
    run(numbers(1), left_open)
    run(numbers(1), closed, auto_close_reporters=True)
    assert (left_open.closed, closed.closed) == (False, True)


def test_a_reporter_is_a_context_manager_that_closes() -> None:
    with MemoryReporter() as memory:
        assert isinstance(memory, Reporter)
        assert memory.closed is False
    assert memory.closed is True


@pytest.mark.parametrize("step", ["start_run", "report_item", "complete_run", "flush", "close"])
def test_a_reporter_that_raises_is_named_at_the_end_and_changes_nothing(numbers: Numbers, step: str) -> None:
    class Failing(MemoryReporter):
        pass

    def fail(*arguments: Any) -> Any:
        raise ConnectionError("server is down")

    failing, memory = Failing(), MemoryReporter()
    setattr(failing, step, fail)
    result = run(numbers(2), [failing, memory], auto_close_reporters=True)
    assert result.pass_count == 2
    times = "2 times, first with" if step == "report_item" else "with"
    (warning,) = result.warnings
    assert warning.startswith(f"Failing failed {times} ConnectionError: server is down (")
    assert re.search(r"test_reporters\.py:\d+ in fail\)$", warning)
    assert len(memory.runs[0].items) == 2
    assert memory.runs[0].status is ReportedStatus.SUCCESS
    assert memory.closed


def test_a_reporter_that_gives_no_handle_is_named(numbers: Numbers) -> None:
    class Forgetful(MemoryReporter):
        def start_run(self, name: str, metadata: Mapping[str, Any]) -> RunHandle:
            return None

    [warning] = run(numbers(1), Forgetful()).warnings
    assert "must return a RunHandle, not NoneType" in warning


def test_a_run_that_was_stopped_is_reported_as_failed(numbers: Numbers) -> None:
    def task(example: Example) -> str:
        raise ConnectionError("down")

    memory = MemoryReporter()
    with pytest.raises(TooManyErrors):
        run(numbers(5), memory, task, max_errors=1, auto_close_reporters=True)
    assert memory.runs[0].status is ReportedStatus.FAILED
    assert memory.flush_count == 1
    assert memory.closed


def test_a_run_in_which_items_errored_is_reported_as_a_success(numbers: Numbers) -> None:
    memory = MemoryReporter()
    run(numbers(2), memory, lambda example: None)
    assert memory.runs[0].status is ReportedStatus.SUCCESS
    assert memory.runs[0].items[0].success is False


def test_stored_items_of_a_resumed_run_are_reported_too(numbers: Numbers) -> None:
    first = run(numbers(3), [], journal=True)
    memory = MemoryReporter()
    run(numbers(3), memory, journal=True, resume=first.run_id)
    assert len(memory.runs[0].items) == 3


def test_a_base_reporter_may_implement_only_what_it_needs(numbers: Numbers) -> None:
    class Counter(BaseReporter):
        count = 0

        def report_item(self, handle: RunHandle, item: ItemResult) -> None:
            self.count += 1

    counter = Counter()
    assert run(numbers(4), counter).warnings == ()
    assert counter.count == 4


def test_a_run_handle_is_never_blank() -> None:
    with pytest.raises(ValueError, match="not blank"):
        RunHandle("  ")
