from __future__ import annotations

import pytest

from dokimos._core.example import Example
from dokimos._core.results import ItemResult
from dokimos.reporting._memory import MemoryReporter
from dokimos.reporting._protocol import BaseReporter, Reporter
from dokimos.reporting._reported_run import ReportedStatus


def test_a_memory_reporter_keeps_what_it_is_told_apart_by_run() -> None:
    memory = MemoryReporter()
    first = memory.start_run("a", {"k": 1})
    second = memory.start_run("b", {})
    item = ItemResult(0, Example.of("x"))
    memory.report_item(second, item)
    memory.complete_run(first, ReportedStatus.CANCELLED)
    assert [run.items for run in memory.runs] == [[], [item]]
    assert [run.status for run in memory.runs] == [ReportedStatus.CANCELLED, None]
    assert memory.runs[0].metadata == {"k": 1}


def test_all_reporters_follow_the_protocol() -> None:
    assert isinstance(MemoryReporter(), Reporter)
    assert isinstance(BaseReporter(), Reporter)
    assert not isinstance(object(), Reporter)


def test_the_base_reporter_names_a_run_and_ignores_the_rest() -> None:
    with BaseReporter() as reporter:
        handle = reporter.start_run("", {})
        assert handle.run_id.startswith("unnamed-")
        assert handle != reporter.start_run("", {})
        reporter.report_item(handle, ItemResult(0, Example.of("x")))
        reporter.complete_run(handle, ReportedStatus.SUCCESS)
        reporter.flush()


def test_a_failure_inside_the_block_still_closes_the_reporter() -> None:
    memory = MemoryReporter()
    with pytest.raises(KeyError), memory:
        raise KeyError("x")
    assert memory.closed
