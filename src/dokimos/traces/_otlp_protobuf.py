"""Parses spans and log records from OTLP in protobuf."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from dokimos._core.extras import require
from dokimos.errors import DokimosError, TraceError
from dokimos.traces._protobuf_parsers import LogParsers, TraceParsers, load_log_parsers, load_trace_parsers
from dokimos.traces._protobuf_values import parse_attributes, parse_value
from dokimos.traces._protobuf_wire import Signal, sort_by_signal, split_exports
from dokimos.traces._span import (
    LogRecord,
    Span,
    SpanEvent,
    SpanLink,
    SpanOrigin,
    SpanStatus,
    close_span,
    find_reason,
    open_span,
)

if TYPE_CHECKING:
    from dokimos.traces._otlp import SpanBatch

_KINDS: Final = (None, "internal", "server", "client", "producer", "consumer")
_STATUSES: Final[tuple[SpanStatus, ...]] = ("unset", "ok", "error")
_UNSET: Final[tuple[SpanStatus, str]] = ("unset", "")
_SERVICES: Final[dict[Signal, tuple[str, str]]] = {
    "traces": ("opentelemetry.proto.collector.trace.v1.trace_service_pb2", "ExportTraceServiceRequest"),
    "logs": ("opentelemetry.proto.collector.logs.v1.logs_service_pb2", "ExportLogsServiceRequest"),
}
_PARTS: Final = {
    "Span": "opentelemetry.proto.trace.v1.trace_pb2",
    "Resource": "opentelemetry.proto.resource.v1.resource_pb2",
    "InstrumentationScope": "opentelemetry.proto.common.v1.common_pb2",
    "LogRecord": "opentelemetry.proto.logs.v1.logs_pb2",
}
DAMAGED: Final = "damaged"
"""Why a span is rejected whose bytes are not a message."""


def read_protobuf(data: bytes, signal: Signal | None = None) -> SpanBatch:
    """Parse exports of traces, of logs, or of both one after the other; without `signal` it is detected.

    Several exports may each be preceded by their length, as the collector writes files. Raises
    `TraceError`, and `MissingExtraError` without the extra.
    """
    from dokimos.traces._otlp import make_batch

    spans: list[Span | str] = []
    logs: list[LogRecord] = []
    for export in split_exports(data):
        parts = ((signal, export),) if signal is not None else sort_by_signal(export)
        for kind, part in parts:
            with as_trace_error():
                if kind == "logs":
                    logs += _parse_logs(part)
                else:
                    spans += _parse_spans(part)
    return make_batch(spans, logs)


def parse_message(name: Literal["Span", "Resource", "InstrumentationScope", "LogRecord"], data: bytes) -> Any:
    """Return a part of an export as a message of protobuf's own classes; raises `TraceError`."""
    message = getattr(require(_PARTS[name], extra="otel"), name)()
    with as_trace_error():
        message.ParseFromString(data)
    return message


def new_request(signal: Signal) -> Any:
    """Return an empty message of an export of protobuf's own classes."""
    module, name = _SERVICES[signal]
    return getattr(require(module, extra="otel"), name)()


@contextlib.contextmanager
def as_trace_error() -> Iterator[None]:
    """Raise what is wrong with protobuf as a `TraceError`."""
    try:
        yield
    except DokimosError:
        raise
    except Exception as error:  # protobuf's own, which differs between its implementations
        raise TraceError(f"The export is not protobuf of OTLP: {error}.") from error


def _parse_spans(data: bytes) -> Iterator[Span | str]:
    parsers = load_trace_parsers()
    for group in read_groups(data, parsers):
        origin = parse_origin(group, parsers)
        for span in group.spans:
            yield parse_span(span, origin, parsers)


class SentGroup(NamedTuple):
    """What an export holds of one instrumentation, each message in bytes as it was sent."""

    resource: bytes
    resource_schema_url: str
    scope: bytes
    schema_url: str
    spans: Sequence[bytes] = ()


def read_groups(data: bytes, parsers: TraceParsers) -> Iterator[SentGroup]:
    """Yield the groups of an export; raises an error of protobuf for other bytes."""
    for group in parsers.parse_request(data).resource_spans:
        resource = b"".join(group.resource)
        for part in group.scope_spans:
            yield SentGroup(resource, group.schema_url, b"".join(part.scope), part.schema_url, part.spans)


def parse_origin(group: SentGroup, parsers: TraceParsers) -> SpanOrigin:
    """Return what the spans of a group share; raises an error of protobuf for other bytes."""
    resource, scope = parsers.parse_resource(group.resource), parsers.parse_scope(group.scope)
    return SpanOrigin(
        parse_attributes(resource.attributes),
        group.resource_schema_url,
        scope.name,
        scope.version,
        parse_attributes(scope.attributes),
        group.schema_url,
    )


def parse_span(data: bytes, origin: SpanOrigin, parsers: TraceParsers) -> Span | str:
    """Parse a span; return why it is none where it is not. What is wrong with it costs no other span."""
    try:
        span = parsers.parse_span(data)
        trace_id, span_id, name = span.trace_id.hex(), span.span_id.hex(), span.name
        parent_id = span.parent_span_id.hex()
        if not (trace_id.strip("0") and span_id.strip("0") and name.strip()):
            return find_reason(trace_id.strip("0"), span_id.strip("0"), name) or DAMAGED
        kind, events, links = span.kind, span.events, span.links
        status = span.status
        opened = open_span(origin)
        opened.trace_id = trace_id
        opened.span_id = span_id
        opened.name = name
        opened.parent_id = parent_id if parent_id.strip("0") else None
        opened.kind = _KINDS[kind] if 0 <= kind < len(_KINDS) else None
        opened.start_ns = span.start_time_unix_nano or None
        opened.end_ns = span.end_time_unix_nano or None
        opened.status, opened.status_message = _parse_status(b"".join(status), parsers) if status else _UNSET
        opened.attributes = parse_attributes(span.attributes[:])
        opened.events = tuple(_parse_event(event, parsers) for event in events) if events else ()
        opened.links = tuple(_parse_link(link, parsers) for link in links) if links else ()
        opened.trace_state = span.trace_state
        opened.flags = span.flags
        opened.dropped_attributes = span.dropped_attributes_count
        opened.dropped_events = span.dropped_events_count
        opened.dropped_links = span.dropped_links_count
        return close_span(opened)
    except Exception:  # protobuf's own
        return DAMAGED


def _parse_status(data: bytes, parsers: TraceParsers) -> tuple[SpanStatus, str]:
    status = parsers.parse_status(data)
    return _STATUSES[status.code] if 0 <= status.code < len(_STATUSES) else "unset", status.message


def _parse_event(data: bytes, parsers: TraceParsers) -> SpanEvent:
    event = parsers.parse_event(data)
    return SpanEvent(
        event.name,
        parse_attributes(event.attributes),
        time_ns=event.time_unix_nano or None,
        dropped_attributes=event.dropped_attributes_count,
    )


def _parse_link(data: bytes, parsers: TraceParsers) -> SpanLink:
    link = parsers.parse_link(data)
    return SpanLink(
        _identity(link.trace_id),
        _identity(link.span_id),
        parse_attributes(link.attributes),
        trace_state=link.trace_state,
        flags=link.flags,
        dropped_attributes=link.dropped_attributes_count,
    )


def _parse_logs(data: bytes) -> Iterator[LogRecord]:
    parsers = load_log_parsers()
    for group in parsers.parse_request(data).resource_logs:
        for part in group.scope_logs:
            for each in part.log_records:
                yield parse_log(each, parsers)


def parse_log(data: bytes, parsers: LogParsers) -> LogRecord:
    """Return a log record; raises an error of protobuf for other bytes."""
    record = parsers.parse_record(data)
    attributes = parse_attributes(record.attributes)
    event = SpanEvent(
        record.event_name or attributes.get("event.name") or "",
        attributes,
        time_ns=record.time_unix_nano or record.observed_time_unix_nano or None,
        body=parse_value(b"".join(record.body)),
        dropped_attributes=record.dropped_attributes_count,
    )
    return LogRecord(event, _identity(record.trace_id), _identity(record.span_id))


def _identity(value: bytes) -> str:
    return value.hex() if value.strip(b"\0") else ""
