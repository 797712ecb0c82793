"""Calling reporters, so that a failing one never fails the run."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from inspect import getattr_static
from typing import Any, Final, TypeAlias

from dokimos._core.results import ItemResult
from dokimos._core.tracebacks import format_located_error
from dokimos.errors import ReporterError
from dokimos.reporting._protocol import Reporter, RunHandle, RunReporter
from dokimos.reporting._reported_run import ReportedItem, RunEnd, RunStart
from dokimos.reporting._reporter_state import ReporterState

Handles = list[RunHandle | None]
AnyReporter: TypeAlias = Reporter | RunReporter

STEPS: Final = (("begin", "start_run"), ("report_item",), ("end", "complete_run"), ("flush",), ("close",))
"""What a reporter does, each by the method that is preferred and what may be there in its place."""


def missing_steps(reporter: object) -> list[str]:
    """Return the steps that an object lacks to be a reporter."""
    return [
        " or ".join(names)
        for names in STEPS
        if not any(callable(getattr(reporter, name, None)) for name in names)
    ]


def begin_run(reporter: Any, start: RunStart) -> RunHandle:
    """Tell one reporter that a repeat begins, by the method that it has.

    Raises:
        ReporterError: when it returns something else than a handle; and whatever it raises.
    """
    if _has_method(reporter, "begin"):
        method, handle = "begin", reporter.begin(start)
    else:
        method, handle = "start_run", reporter.start_run(start.name, start.metadata)
    if not isinstance(handle, RunHandle):
        raise ReporterError(f"{method}() must return a RunHandle, not {type(handle).__name__}")
    return handle


def end_run(reporter: Any, handle: RunHandle, end: RunEnd) -> None:
    """Tell one reporter how a repeat ended, by the method that it has."""
    if _has_method(reporter, "end"):
        reporter.end(handle, end)
    else:
        reporter.complete_run(handle, end.status)


def _has_method(reporter: object, name: str) -> bool:
    # `getattr` alone would find it in an object that answers to every name, such as a mock.
    return getattr_static(reporter, name, None) is not None and callable(getattr(reporter, name, None))


class Reporters:
    """All reporters of an experiment; what they raise becomes a warning at the end."""

    def __init__(
        self,
        reporters: Sequence[AnyReporter],
        open_state: Callable[[str], ReporterState] = lambda identity: ReporterState(),
    ) -> None:
        self._reporters = reporters
        self._open_state = open_state
        self._states: list[ReporterState] = []
        self._open = deque(range(len(reporters)))
        self._handles: Handles = []
        self._problems: dict[int, tuple[int, str]] = {}

    def __len__(self) -> int:
        return len(self._reporters)

    def begin(self, start: RunStart) -> Handles:
        """Tell all reporters that a repeat begins."""
        if not self._states:
            self._states = [self._open_state(identity) for identity in _identities(self._reporters)]
        self._handles = [
            self._call_safely(index, begin_run, reporter, replace(start, state=self._states[index]))
            for index, reporter in enumerate(self._reporters)
        ]
        return self._handles

    def item(self, item: ItemResult, repeat_index: int, *, was_reported: bool = False) -> None:
        """Pass an item on."""
        if not self._handles:
            return
        reported = ReportedItem.of(item, repeat_index, was_reported=was_reported)
        for index, handle in enumerate(self._handles):
            if handle is not None:
                self._call_safely(index, self._reporters[index].report_item, handle, reported)

    def end(self, handles: Handles, end: RunEnd) -> None:
        """Tell all reporters how a repeat ended."""
        for index, handle in enumerate(handles):
            reporter = self._reporters[index]
            if handle is not None:
                self._call_safely(index, end_run, reporter, handle, end)
            self._call_safely(index, reporter.flush)

    def close(self, enabled: bool) -> None:
        """Close each reporter once, however often this is called."""
        with contextlib.suppress(IndexError):  # two threads may close at once
            while enabled:
                index = self._open.popleft()
                self._call_safely(index, self._reporters[index].close)

    def warnings(self) -> list[str]:
        """One sentence per reporter that failed."""
        return [
            f"{type(self._reporters[index]).__name__} failed "
            f"{'with' if count == 1 else f'{count} times, first with'} {first}"
            for index, (count, first) in self._problems.items()
        ]

    def _call_safely(self, index: int, call: Callable[..., Any], *arguments: object) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            count, first = self._problems.get(index) or (0, format_located_error(error))
            self._problems[index] = (count + 1, first)
            return None


def collect_server_run_ids(handles: Handles) -> tuple[str, ...]:
    """Return the ids of the runs on servers that reporters send a repeat to."""
    ids = (handle.server_run_id for handle in handles if handle is not None)
    return tuple(dict.fromkeys(str(id) for id in ids if id))


def _identities(reporters: Iterable[object]) -> list[str]:
    """Return what reporters keep values under: what they call themselves, numbered where two are the same."""
    seen: Counter[str] = Counter()
    identities = []
    for reporter in reporters:
        name = _own_name(reporter) or type(reporter).__qualname__
        seen[name] += 1
        identities.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return identities


def _own_name(reporter: object) -> str | None:
    try:
        own = getattr(reporter, "identity", None)
    except Exception:  # it tells no name now; what it does next will show why
        return None
    return own if isinstance(own, str) else None
