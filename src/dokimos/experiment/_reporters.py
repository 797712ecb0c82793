"""Calling reporters, so that a failing one never fails the run."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from dokimos._core.results import ItemResult
from dokimos._core.tracebacks import format_located_error
from dokimos.errors import ReporterError
from dokimos.reporting._protocol import ReportedStatus, Reporter, RunHandle

Handles = list[RunHandle | None]


class Reporters:
    """All reporters of an experiment; what they raise becomes a warning at the end."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = reporters
        self._open = deque(range(len(reporters)))
        self._handles: Handles = []
        self._problems: dict[int, tuple[int, str]] = {}

    def start(self, name: str, metadata: Mapping[str, Any]) -> Handles:
        self._handles = [
            self._call_safely(index, "start_run", name, metadata) for index in range(len(self._reporters))
        ]
        return self._handles

    def item(self, item: ItemResult) -> None:
        for index, handle in enumerate(self._handles):
            if handle is not None:
                self._call_safely(index, "report_item", handle, item)

    def complete(self, handles: Handles, status: ReportedStatus) -> None:
        for index, handle in enumerate(handles):
            if handle is not None:
                self._call_safely(index, "complete_run", handle, status)
            self._call_safely(index, "flush")

    def close(self, enabled: bool) -> None:
        """Close each reporter once, however often this is called."""
        with contextlib.suppress(IndexError):  # two threads may close at once
            while enabled:
                self._call_safely(self._open.popleft(), "close")

    def warnings(self) -> list[str]:
        """One sentence per reporter that failed."""
        return [
            f"{type(self._reporters[index]).__name__} failed {'once' if count == 1 else f'{count} times'}, "
            f"first with {first}"
            for index, (count, first) in self._problems.items()
        ]

    def _call_safely(self, index: int, method: str, *arguments: object) -> Any:
        try:
            outcome = getattr(self._reporters[index], method)(*arguments)
            return _check_handle(outcome) if method == "start_run" else outcome
        except Exception as error:
            count, first = self._problems.get(index) or (0, format_located_error(error))
            self._problems[index] = (count + 1, first)
            return None


def _check_handle(handle: object) -> RunHandle:
    if not isinstance(handle, RunHandle):
        raise ReporterError(f"start_run() must return a RunHandle, not {type(handle).__name__}")
    return handle
