"""The one interface through which a run tells others what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Any, Final, Protocol, runtime_checkable

from dokimos._core.results import ItemResult


class ReportedStatus(StrEnum):
    """How a repeat ended.

    Example:
        >>> ReportedStatus("SUCCESS")
        <ReportedStatus.SUCCESS: 'SUCCESS'>
    """

    SUCCESS = "SUCCESS"
    """It went through, whatever the scores."""
    FAILED = "FAILED"
    """It was stopped by an error of its own."""
    CANCELLED = "CANCELLED"


# `next` of a counter is one step in CPython: threads never get the same number.
_numbers: Final = count(1)
"""Tell the repeats of one name apart."""


@dataclass(frozen=True, slots=True)
class RunHandle:
    """Names one repeat at a reporter.

    Example:
        >>> RunHandle("20260131-1").run_id
        '20260131-1'
    """

    run_id: str

    def __post_init__(self) -> None:
        if not self.run_id.strip():
            raise ValueError("A run handle needs a run id that is not blank.")


@runtime_checkable
class Reporter(Protocol):
    """Receives each repeat of an experiment as it goes.

    Calls come one at a time from the thread that runs the experiment and should return at once; slow work
    belongs in a thread of the reporter's own. A reporter that raises is named in the result's warnings and
    never fails the run. `flush` is called after every repeat, `close` only with `auto_close_reporters=True`.

    Example:
        >>> isinstance(MemoryReporter(), Reporter)
        True
    """

    def start_run(self, name: str, metadata: Mapping[str, Any]) -> RunHandle: ...

    def report_item(self, handle: RunHandle, item: ItemResult) -> None:
        """Receive an item as soon as it is finished; `item.index` tells its place."""
        ...

    def complete_run(self, handle: RunHandle, status: ReportedStatus) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class BaseReporter:
    """Does nothing at every step: a start for reporters that need only some; its `with` block closes it.

    Example:
        >>> class PrintFailures(BaseReporter):
        ...     def report_item(self, handle, item):
        ...         if not item.success:
        ...             print("failed:", item.example.input)
    """

    def start_run(self, name: str, metadata: Mapping[str, Any]) -> RunHandle:
        return RunHandle(f"{name or 'unnamed'}-{next(_numbers)}")

    def report_item(self, handle: RunHandle, item: ItemResult) -> None: ...

    def complete_run(self, handle: RunHandle, status: ReportedStatus) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> BaseReporter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
