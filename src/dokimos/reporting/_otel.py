"""A reporter that puts scores on the spans that were judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dokimos.reporting._protocol import BaseReporter, RunHandle
from dokimos.reporting._reported_run import ReportedItem
from dokimos.traces._score_events import emit_evaluations


@dataclass
class EvaluationEvents(BaseReporter):
    """Sends each result as a `gen_ai.evaluation.result` event on the span that the item's metadata names.

    `to_examples` names it, under "traceId" and "spanId"; items without them are passed over and counted.
    """

    logger_provider: Any = None
    """OpenTelemetry's; None means the global one."""
    emitted: int = 0
    """Events sent so far."""
    without_span: int = 0
    """Items that name no span."""

    def report_item(self, handle: RunHandle, item: ReportedItem) -> None:
        """Send the item's results."""
        metadata = item.example.metadata
        trace_id, span_id = metadata.get("traceId"), metadata.get("spanId")
        if not (isinstance(trace_id, str) and isinstance(span_id, str)):
            self.without_span += 1
            return
        self.emitted += emit_evaluations(
            item.eval_results, (trace_id, span_id), logger_provider=self.logger_provider
        )
