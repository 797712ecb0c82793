"""A reporter that keeps what it receives in memory, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from dokimos.reporting._protocol import BaseReporter, RunHandle
from dokimos.reporting._reported_run import ReportedItem, ReportedStatus, RunEnd, RunStart


@dataclass
class ReportedRun:
    """One repeat as a `MemoryReporter` saw it."""

    handle: RunHandle
    name: str
    metadata: Mapping[str, Any]
    items: list[ReportedItem] = field(default_factory=list)
    """In the order in which they finished."""
    status: ReportedStatus | None = None
    """None until the repeat is complete."""
    start: RunStart | None = None
    """What was known when it began."""
    end: RunEnd | None = None
    """How it ended; None until then."""


class MemoryReporter(BaseReporter):
    """Keeps every repeat in `runs`, and counts `flush_count`; `closed` says whether it was closed.

    Example:
        >>> reporter, data = MemoryReporter(), [Example.of("a", "A")]
        >>> run = evaluate(data, str.upper, [ExactMatch()], reporters=[reporter], quiet=True, journal=False)
        >>> len(reporter.runs)
        1
    """

    def __init__(self) -> None:
        self.runs: list[ReportedRun] = []
        # Not the length of `runs`: experiments in several threads may share a reporter.
        self._numbers = count(1)
        self.flush_count: int = 0
        self.closed: bool = False

    def begin(self, start: RunStart) -> RunHandle:
        handle = super().begin(start)
        for run in self.runs:
            if run.handle == handle:  # else a subclass gives handles of its own
                run.start = start
        return handle

    def start_run(self, name: str, metadata: Mapping[str, Any]) -> RunHandle:
        handle = RunHandle(f"memory-{next(self._numbers)}")
        self.runs.append(ReportedRun(handle, name, dict(metadata)))
        return handle

    def report_item(self, handle: RunHandle, item: ReportedItem) -> None:
        self._run(handle).items.append(item)

    def end(self, handle: RunHandle, end: RunEnd) -> None:
        self._run(handle).end = end
        super().end(handle, end)

    def complete_run(self, handle: RunHandle, status: ReportedStatus) -> None:
        self._run(handle).status = status

    def flush(self) -> None:
        self.flush_count += 1

    def close(self) -> None:
        self.closed = True

    def _run(self, handle: RunHandle) -> ReportedRun:
        return next(run for run in self.runs if run.handle == handle)
