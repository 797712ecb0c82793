"""The one interface through which a run tells others what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol, runtime_checkable

from dokimos.reporting._reported_run import ReportedItem, ReportedStatus, RunEnd, RunStart

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
    server_run_id: str | None = None
    """The id of the run on a server, where the reporter sends it to one; `result.server_run_ids` names it."""

    def __post_init__(self) -> None:
        if not self.run_id.strip():
            raise ValueError("A run handle needs a run id that is not blank.")


@runtime_checkable
class Reporter(Protocol):
    """Receives each repeat of an experiment as it goes.

    Calls come one at a time from the thread that runs the experiment and should return at once; slow work
    belongs in a thread of the reporter's own. A reporter that raises is named in the result's warnings and
    never fails the run. `flush` is called after every repeat, `close` only with `auto_close_reporters=True`.

    A reporter may have `begin` in place of `start_run` and `end` in place of `complete_run`, which know more
    of the run: see `RunReporter`. It may call itself something in `identity`, which tells what it keeps in
    `RunStart.state` from what others keep.

    Example:
        >>> isinstance(MemoryReporter(), Reporter)
        True
    """

    def start_run(self, name: str, metadata: Mapping[str, Any]) -> RunHandle: ...

    def report_item(self, handle: RunHandle, item: ReportedItem) -> None:
        """Receive an item as soon as it is finished; `index` and `repeat_index` say where it belongs."""
        ...

    def complete_run(self, handle: RunHandle, status: ReportedStatus) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class RunReporter(Protocol):
    """A `Reporter` that learns what a repeat is about when it begins, and how it ended.

    Example:
        >>> isinstance(MemoryReporter(), RunReporter)
        True
    """

    def begin(self, start: RunStart) -> RunHandle:
        """Receive what is known before the first item, and return a handle for the calls that follow."""
        ...

    def report_item(self, handle: RunHandle, item: ReportedItem) -> None: ...

    def end(self, handle: RunHandle, end: RunEnd) -> None:
        """Receive how the repeat ended; every item that it finished has been reported."""
        ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class BaseReporter:
    """Does nothing at every step: a start for reporters that need only some; its `with` block closes it.

    `begin` calls `start_run` and `end` calls `complete_run`, so a subclass writes whichever it needs.

    Example:
        >>> class PrintFailures(BaseReporter):
        ...     def report_item(self, handle, item):
        ...         if not item.success:
        ...             print("failed:", item.example.input)
    """

    def begin(self, start: RunStart) -> RunHandle:
        return self.start_run(start.name, start.metadata)

    def start_run(self, name: str, metadata: Mapping[str, Any]) -> RunHandle:
        return RunHandle(f"{name or 'unnamed'}-{next(_numbers)}")

    def report_item(self, handle: RunHandle, item: ReportedItem) -> None: ...

    def end(self, handle: RunHandle, end: RunEnd) -> None:
        self.complete_run(handle, end.status)

    def complete_run(self, handle: RunHandle, status: ReportedStatus) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> BaseReporter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
