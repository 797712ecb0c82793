"""Parses spans and log records from OTLP in protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from dokimos._core.extras import require
from dokimos.errors import TraceError
from dokimos.traces._protobuf_wire import Signal, sort_by_signal, split_exports
from dokimos.traces._span import LogRecord, Span, SpanEvent, SpanLink, SpanStatus, find_reason

if TYPE_CHECKING:
    from dokimos.traces._otlp import Source, SpanBatch

_KINDS: Final = (None, "internal", "server", "client", "producer", "consumer")
_STATUSES: Final[tuple[SpanStatus, ...]] = ("unset", "ok", "error")
_SERVICES: Final[dict[Signal, tuple[str, str]]] = {
    "traces": ("opentelemetry.proto.collector.trace.v1.trace_service_pb2", "ExportTraceServiceRequest"),
    "logs": ("opentelemetry.proto.collector.logs.v1.logs_service_pb2", "ExportLogsServiceRequest"),
}
_PARTS: Final = {
    "ResourceSpans": "opentelemetry.proto.trace.v1.trace_pb2",
    "ScopeSpans": "opentelemetry.proto.trace.v1.trace_pb2",
    "Span": "opentelemetry.proto.trace.v1.trace_pb2",
    "Resource": "opentelemetry.proto.resource.v1.resource_pb2",
    "InstrumentationScope": "opentelemetry.proto.common.v1.common_pb2",
    "LogRecord": "opentelemetry.proto.logs.v1.logs_pb2",
}


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
            if kind == "logs":
                logs += _parse_logs(parse_request(part, kind))
            else:
                spans += _parse_spans(parse_request(part, kind))
    return make_batch(spans, logs)


def parse_request(data: bytes, signal: Signal) -> Any:
    """Return the message of an export of traces or of logs; raises `TraceError`."""
    module, name = _SERVICES[signal]
    request = getattr(require(module, extra="otel"), name)()
    try:
        request.ParseFromString(data)
    except Exception as error:  # protobuf's own, which differs between its implementations
        raise TraceError(f"The export is not protobuf of OTLP: {error}.") from error
    return request


def parse_message(
    name: Literal["ResourceSpans", "ScopeSpans", "Span", "Resource", "InstrumentationScope", "LogRecord"],
    data: bytes,
) -> Any:
    """Return a part of an export that was serialized by itself; raises `TraceError`."""
    message = getattr(require(_PARTS[name], extra="otel"), name)()
    try:
        message.ParseFromString(data)
    except Exception as error:  # protobuf's own, which differs between its implementations
        raise TraceError(f"This is not a {name} of OTLP: {error}.") from error
    return message


def _parse_spans(request: Any) -> Iterator[Span | str]:
    for group in request.resource_spans:
        resource = read_attributes(group.resource.attributes)
        for part in group.scope_spans:
            source = read_source(group.schema_url, part.scope, part.schema_url, resource)
            for span in part.spans:
                yield parse_span_message(span, source)


def read_source(resource_schema_url: str, scope: Any, schema_url: str, resource: Mapping[str, Any]) -> Source:
    """Return what the spans of a `ScopeSpans` share.

    Args:
        resource_schema_url: That of the `ResourceSpans` that it is in.
        scope: The message of the scope.
        schema_url: That of the `ScopeSpans`.
        resource: The attributes of the resource.
    """
    return {
        "resource": resource,
        "resource_schema_url": resource_schema_url,
        "scope": scope.name,
        "scope_version": scope.version,
        "scope_attributes": read_attributes(scope.attributes),
        "schema_url": schema_url,
    }


def parse_span_message(span: Any, source: Source) -> Span | str:
    """Return a span of protobuf, or why it is none."""
    trace_id, span_id = _identity(span.trace_id), _identity(span.span_id)
    if not (trace_id and span_id and span.name.strip()):
        return find_reason(trace_id, span_id, span.name) or ""
    return Span(
        trace_id,
        span_id,
        name=span.name,
        parent_id=_identity(span.parent_span_id) or None,
        kind=_KINDS[span.kind] if 0 <= span.kind < len(_KINDS) else None,
        start_ns=span.start_time_unix_nano or None,
        end_ns=span.end_time_unix_nano or None,
        status=_STATUSES[span.status.code] if 0 <= span.status.code < len(_STATUSES) else "unset",
        status_message=span.status.message,
        attributes=read_attributes(span.attributes),
        events=tuple(
            SpanEvent(
                event.name,
                read_attributes(event.attributes),
                time_ns=event.time_unix_nano or None,
                dropped_attributes=event.dropped_attributes_count,
            )
            for event in span.events
        ),
        links=tuple(map(_parse_link, span.links)),
        trace_state=span.trace_state,
        flags=span.flags,
        dropped_attributes=span.dropped_attributes_count,
        dropped_events=span.dropped_events_count,
        dropped_links=span.dropped_links_count,
        **source,
    )


def _parse_link(link: Any) -> SpanLink:
    return SpanLink(
        _identity(link.trace_id),
        _identity(link.span_id),
        read_attributes(link.attributes),
        trace_state=link.trace_state,
        flags=link.flags,
        dropped_attributes=link.dropped_attributes_count,
    )


def _parse_logs(request: Any) -> Iterator[LogRecord]:
    for group in request.resource_logs:
        for part in group.scope_logs:
            yield from map(parse_log_message, part.log_records)


def parse_log_message(record: Any) -> LogRecord:
    """Return a log record of protobuf."""
    attributes = read_attributes(record.attributes)
    event = SpanEvent(
        record.event_name or attributes.get("event.name") or "",
        attributes,
        time_ns=record.time_unix_nano or record.observed_time_unix_nano or None,
        body=_parse_value(record.body),
        dropped_attributes=record.dropped_attributes_count,
    )
    return LogRecord(event, _identity(record.trace_id), _identity(record.span_id))


def _identity(value: bytes) -> str:
    return value.hex() if value.strip(b"\0") else ""


def read_attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    """Return attributes of a message as a map."""
    attributes = {}
    for pair in pairs:
        value = pair.value
        # Most are texts, and asking which kind a value is costs as much as reading it.
        attributes[pair.key] = value.string_value or _parse_value(value)
    return attributes


def _parse_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "string_value":
        return value.string_value
    content = getattr(value, kind)
    if kind == "array_value":
        return [_parse_value(each) for each in content.values]
    return read_attributes(content.values) if kind == "kvlist_value" else content
