"""What an application did, from the spans that it recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.traces._collector import TraceCollector as TraceCollector
    from dokimos.traces._otlp import SpanBatch as SpanBatch
    from dokimos.traces._otlp import load_spans as load_spans
    from dokimos.traces._otlp import read_otlp as read_otlp
    from dokimos.traces._score_events import emit_evaluations as emit_evaluations
    from dokimos.traces._score_events import evaluation_events as evaluation_events
    from dokimos.traces._sdk_spans import spans_from_sdk as spans_from_sdk
    from dokimos.traces._semconv import SpanRole as SpanRole
    from dokimos.traces._span import LogRecord as LogRecord
    from dokimos.traces._span import Span as Span
    from dokimos.traces._span import SpanEvent as SpanEvent
    from dokimos.traces._span import SpanLink as SpanLink
    from dokimos.traces._span import SpanTree as SpanTree
    from dokimos.traces._span import group_by_trace as group_by_trace
    from dokimos.traces._span import with_logs as with_logs
    from dokimos.traces._span_content import SpanContent as SpanContent
    from dokimos.traces._span_content import parse_span as parse_span
    from dokimos.traces._span_text import derive_text as derive_text
    from dokimos.traces._to_agent_trace import PriceCoverage as PriceCoverage
    from dokimos.traces._to_agent_trace import call_metrics as call_metrics
    from dokimos.traces._to_agent_trace import price_coverage as price_coverage
    from dokimos.traces._to_agent_trace import to_agent_trace as to_agent_trace
    from dokimos.traces._to_agent_trace import to_agent_traces as to_agent_traces
    from dokimos.traces._to_agent_trace import to_examples as to_examples
    from dokimos.traces._to_agent_trace import to_test_case as to_test_case
    from dokimos.traces._to_conversation import to_conversation as to_conversation
    from dokimos.traces._to_conversation import to_conversations as to_conversations

_MODULE_OF: Final = {
    "LogRecord": "dokimos.traces._span",
    "PriceCoverage": "dokimos.traces._to_agent_trace",
    "Span": "dokimos.traces._span",
    "SpanBatch": "dokimos.traces._otlp",
    "SpanContent": "dokimos.traces._span_content",
    "SpanEvent": "dokimos.traces._span",
    "SpanLink": "dokimos.traces._span",
    "SpanRole": "dokimos.traces._semconv",
    "SpanTree": "dokimos.traces._span",
    "TraceCollector": "dokimos.traces._collector",
    "call_metrics": "dokimos.traces._to_agent_trace",
    "derive_text": "dokimos.traces._span_text",
    "emit_evaluations": "dokimos.traces._score_events",
    "evaluation_events": "dokimos.traces._score_events",
    "group_by_trace": "dokimos.traces._span",
    "load_spans": "dokimos.traces._otlp",
    "parse_span": "dokimos.traces._span_content",
    "price_coverage": "dokimos.traces._to_agent_trace",
    "read_otlp": "dokimos.traces._otlp",
    "spans_from_sdk": "dokimos.traces._sdk_spans",
    "to_agent_trace": "dokimos.traces._to_agent_trace",
    "to_agent_traces": "dokimos.traces._to_agent_trace",
    "to_conversation": "dokimos.traces._to_conversation",
    "to_conversations": "dokimos.traces._to_conversation",
    "to_examples": "dokimos.traces._to_agent_trace",
    "to_test_case": "dokimos.traces._to_agent_trace",
    "with_logs": "dokimos.traces._span",
}
__all__ = [
    "LogRecord",
    "PriceCoverage",
    "Span",
    "SpanBatch",
    "SpanContent",
    "SpanEvent",
    "SpanLink",
    "SpanRole",
    "SpanTree",
    "TraceCollector",
    "call_metrics",
    "derive_text",
    "emit_evaluations",
    "evaluation_events",
    "group_by_trace",
    "load_spans",
    "parse_span",
    "price_coverage",
    "read_otlp",
    "spans_from_sdk",
    "to_agent_trace",
    "to_agent_traces",
    "to_conversation",
    "to_conversations",
    "to_examples",
    "to_test_case",
    "with_logs",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
