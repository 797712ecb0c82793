"""What is counted of exports, for metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from dokimos.server._services.metrics import Metrics
from dokimos.server._services.traces.project_redaction import TOO_SLOW, RuleCounts

_REASONS: Final = {
    "no trace id": "incomplete",
    "no span id": "incomplete",
    "no name": "incomplete",
    TOO_SLOW: "redaction",
}
"""The kinds of reasons: texts of reasons name projects and limits, of which there may be many."""


class IngestionCounts:
    """Counts spans and log records that were stored, rejected and rewritten."""

    def __init__(self, metrics: Metrics) -> None:
        self._accepted = metrics.counter(
            "dokimos_trace_records_total", "Spans and log records that were stored.", ("kind",)
        )
        self._rejected = metrics.counter(
            "dokimos_trace_records_rejected_total",
            "Spans and log records that were rejected, by the kind of reason.",
            ("kind", "reason"),
        )
        self._redacted = metrics.counter(
            "dokimos_trace_redactions_total", "Texts and values that redaction rules replaced.", ("rule",)
        )

    def add(
        self,
        kind: Literal["span", "log"],
        accepted: int,
        reasons: Mapping[str, int],
        redactions: RuleCounts,
    ) -> None:
        """Count an export that was stored."""
        self._accepted.add((kind,), accepted)
        for reason, count in reasons.items():
            self._rejected.add((kind, _kind_of(reason)), count)
        for (_, rule), count in redactions.items():
            self._redacted.add((rule,), count)


def _kind_of(reason: str) -> str:
    if reason in _REASONS:
        return _REASONS[reason]
    return "too long" if "characters" in reason else "not allowed"
