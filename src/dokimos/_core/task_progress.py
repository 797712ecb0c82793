"""How far one call of a task has come, for when it is given up before it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from dokimos._core.task_result import TaskResult


class TaskProgress:
    """Holds what a running call of a task says of itself."""

    __slots__ = ("_report",)

    def __init__(self) -> None:
        self._report: Callable[[], TaskResult] | None = None

    def so_far(self) -> TaskResult | None:
        """Return what the task has done; None where it does not say, or cannot in the middle of it."""
        try:
            return None if self._report is None else self._report()
        except Exception:  # the call goes on in another thread, and may change what is read here
            return None

    def set(self, report: Callable[[], TaskResult]) -> None:
        self._report = report


_current: Final[ContextVar[TaskProgress | None]] = ContextVar("task_progress", default=None)


@contextmanager
def track_progress() -> Iterator[TaskProgress]:
    """Give what a call that begins within, and everything that it starts, may report to."""
    progress = TaskProgress()
    token = _current.set(progress)
    try:
        yield progress
    finally:
        _current.reset(token)


def report_progress(report: Callable[[], TaskResult]) -> None:
    """Let `report` say how far this call of a task has come, should it be given up; from any thread."""
    progress = _current.get()
    if progress is not None:
        progress.set(report)
