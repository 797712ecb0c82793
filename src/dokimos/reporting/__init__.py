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
    from dokimos.reporting._protocol import Reporter as Reporter
    from dokimos.reporting._protocol import RunHandle as RunHandle
    from dokimos.reporting._protocol import RunReporter as RunReporter
    from dokimos.reporting._reported_run import ReportedItem as ReportedItem
    from dokimos.reporting._reported_run import ReportedStatus as ReportedStatus
    from dokimos.reporting._reported_run import RunEnd as RunEnd
    from dokimos.reporting._reported_run import RunOutcome as RunOutcome
    from dokimos.reporting._reported_run import RunStart as RunStart
    from dokimos.reporting._reporter_state import ReporterState as ReporterState

_MODULE_OF: Final = {
    "BaseReporter": "dokimos.reporting._protocol",
    "EvaluationEvents": "dokimos.reporting._otel",
    "MemoryReporter": "dokimos.reporting._memory",
    "ReportedItem": "dokimos.reporting._reported_run",
    "ReportedStatus": "dokimos.reporting._reported_run",
    "Reporter": "dokimos.reporting._protocol",
    "ReporterState": "dokimos.reporting._reporter_state",
    "RunEnd": "dokimos.reporting._reported_run",
    "RunHandle": "dokimos.reporting._protocol",
    "RunOutcome": "dokimos.reporting._reported_run",
    "RunReporter": "dokimos.reporting._protocol",
    "RunStart": "dokimos.reporting._reported_run",
    "make_console": "dokimos.reporting._console",
    "print_result": "dokimos.reporting._console",
}
__all__ = [
    "BaseReporter",
    "EvaluationEvents",
    "MemoryReporter",
    "ReportedItem",
    "ReportedStatus",
    "Reporter",
    "ReporterState",
    "RunEnd",
    "RunHandle",
    "RunOutcome",
    "RunReporter",
    "RunStart",
    "make_console",
    "print_result",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
