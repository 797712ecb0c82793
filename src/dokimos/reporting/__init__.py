"""Reporters, which receive results while a run goes on, and results on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.reporting._console import make_console as make_console
    from dokimos.reporting._console import print_result as print_result
    from dokimos.reporting._memory import MemoryReporter as MemoryReporter
    from dokimos.reporting._otel import EvaluationEvents as EvaluationEvents
    from dokimos.reporting._protocol import BaseReporter as BaseReporter
    from dokimos.reporting._protocol import ReportedStatus as ReportedStatus
    from dokimos.reporting._protocol import Reporter as Reporter
    from dokimos.reporting._protocol import RunHandle as RunHandle

_MODULE_OF: Final = {
    "BaseReporter": "dokimos.reporting._protocol",
    "EvaluationEvents": "dokimos.reporting._otel",
    "MemoryReporter": "dokimos.reporting._memory",
    "ReportedStatus": "dokimos.reporting._protocol",
    "Reporter": "dokimos.reporting._protocol",
    "RunHandle": "dokimos.reporting._protocol",
    "make_console": "dokimos.reporting._console",
    "print_result": "dokimos.reporting._console",
}
__all__ = [
    "BaseReporter",
    "EvaluationEvents",
    "MemoryReporter",
    "ReportedStatus",
    "Reporter",
    "RunHandle",
    "make_console",
    "print_result",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
