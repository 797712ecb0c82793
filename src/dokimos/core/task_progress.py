"""How far one call of a task has come, for when it is given up before it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from dokimos.core.task_result import TaskResult


class TaskProgress:
    """Holds what a running call of a task says of itself."""

    __slots__ = ("_tell",)

    def __init__(self) -> None:
        self._tell: Callable[[], TaskResult] | None = None

    def so_far(self) -> TaskResult | None:
        """Return what the task has done; None where it does not say, or cannot in the middle of it."""
        try:
            return None if self._tell is None else self._tell()
        except Exception:  # the call goes on in another thread, and may change what is read here
            return None

    def set(self, tell: Callable[[], TaskResult]) -> None:
        self._tell = tell


_current: Final[ContextVar[TaskProgress | None]] = ContextVar("task_progress", default=None)


@contextmanager
def tracked_progress() -> Iterator[TaskProgress]:
    """Give what a call that begins within, and everything that it starts, may report to."""
    progress = TaskProgress()
    token = _current.set(progress)
    try:
        yield progress
    finally:
        _current.reset(token)


def report_progress(tell: Callable[[], TaskResult]) -> None:
    """Have `tell` asked how far this call of a task has come, where somebody gives it up; from any thread."""
    progress = _current.get()
    if progress is not None:
        progress.set(tell)
