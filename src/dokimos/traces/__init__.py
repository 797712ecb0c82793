"""What an application did, from the spans that it recorded."""

from dokimos.traces.collector import TraceCollector as TraceCollector
from dokimos.traces.otlp import SpanBatch as SpanBatch
from dokimos.traces.otlp import load_spans as load_spans
from dokimos.traces.otlp import read_otlp as read_otlp
from dokimos.traces.sdk_spans import spans_from_sdk as spans_from_sdk
from dokimos.traces.semconv import SpanRole as SpanRole
from dokimos.traces.span import LogRecord as LogRecord
from dokimos.traces.span import Span as Span
from dokimos.traces.span import SpanEvent as SpanEvent
from dokimos.traces.span import SpanTree as SpanTree
from dokimos.traces.span import group_by_trace as group_by_trace
from dokimos.traces.span import with_logs as with_logs
from dokimos.traces.span_content import SpanContent as SpanContent
from dokimos.traces.span_content import derive_text as derive_text
from dokimos.traces.span_content import parse_span as parse_span
from dokimos.traces.to_agent_trace import call_metrics as call_metrics
from dokimos.traces.to_agent_trace import to_agent_trace as to_agent_trace
from dokimos.traces.to_agent_trace import to_agent_traces as to_agent_traces
from dokimos.traces.to_agent_trace import to_examples as to_examples
from dokimos.traces.to_agent_trace import to_test_case as to_test_case
from dokimos.traces.to_conversation import to_conversation as to_conversation
from dokimos.traces.to_conversation import to_conversations as to_conversations
