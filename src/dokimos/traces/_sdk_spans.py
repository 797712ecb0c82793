"""Spans of OpenTelemetry's SDK, as its in-memory exporter keeps them and its console exporter prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dokimos.traces._json_tree import as_map, iterate_maps, to_plain
from dokimos.traces._span import LogRecord, Span, SpanEvent, SpanLink, SpanStatus, find_reason, with_logs

_STATUSES: Final[dict[str, SpanStatus]] = {"OK": "ok", "ERROR": "error"}
_KNOWS_REMOTE, _IS_REMOTE = 0x100, 0x200
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def spans_from_sdk(spans: Iterable[Any], logs: Iterable[Any] = ()) -> tuple[Span, ...]:
    """Return finished spans of the SDK, with the log records that name them as their events.

    `spans` are `ReadableSpan`s, as `InMemorySpanExporter.get_finished_spans()` gives them; `logs` what
    `InMemoryLogRecordExporter.get_finished_logs()` gives. The SDK itself is not imported.
    """
    return with_logs(tuple(map(_convert_span, spans)), tuple(map(_convert_log, logs)))


def is_console_span(tree: Mapping[str, Any]) -> bool:
    """Say whether JSON is one span as the console exporter prints it, by `ReadableSpan.to_json()`."""
    context = tree.get("context")
    return isinstance(context, Mapping) and "trace_id" in context and "span_id" in context and "name" in tree


def parse_console_span(tree: Mapping[str, Any]) -> Span | str:
    """Parse a span as the console exporter prints it; the reason for one without ids or name."""
    context, status = tree["context"], as_map(tree.get("status"))
    trace_id, span_id = _parse_hex_id(context["trace_id"]), _parse_hex_id(context["span_id"])
    name = tree["name"] if isinstance(tree["name"], str) else ""
    reason = find_reason(trace_id, span_id, name)
    if reason is not None:
        return reason
    resource = as_map(tree.get("resource"))
    return Span(
        trace_id,
        span_id,
        name=name,
        parent_id=_parse_hex_id(tree.get("parent_id")) or None,
        kind=str(tree.get("kind") or "").removeprefix("SpanKind.").lower() or None,
        start_ns=_parse_iso_time(tree.get("start_time")),
        end_ns=_parse_iso_time(tree.get("end_time")),
        status=_STATUSES.get(str(status.get("status_code")), "unset"),
        status_message=str(status.get("description") or ""),
        attributes=to_plain(as_map(tree.get("attributes"))),
        events=tuple(_parse_console_event(event) for event in iterate_maps(tree.get("events"))),
        resource=to_plain(as_map(resource.get("attributes"))),
        resource_schema_url=str(resource.get("schema_url") or ""),
        links=tuple(_parse_console_link(link) for link in iterate_maps(tree.get("links"))),
    )


def _convert_span(span: Any) -> Span:
    scope, status = span.instrumentation_scope, span.status
    return Span(
        f"{span.context.trace_id:032x}",
        f"{span.context.span_id:016x}",
        name=span.name,
        parent_id=None if span.parent is None else f"{span.parent.span_id:016x}",
        kind=span.kind.name.lower(),
        start_ns=span.start_time,
        end_ns=span.end_time,
        status=_STATUSES.get(status.status_code.name, "unset"),
        status_message=status.description or "",
        attributes=to_plain(span.attributes or {}),
        events=tuple(
            SpanEvent(
                event.name,
                to_plain(event.attributes or {}),
                time_ns=event.timestamp,
                dropped_attributes=event.dropped_attributes,
            )
            for event in span.events
        ),
        resource=to_plain(span.resource.attributes),
        resource_schema_url=span.resource.schema_url or "",
        scope=scope.name if scope else "",
        scope_version=(scope.version or "") if scope else "",
        scope_attributes=to_plain(scope.attributes or {}) if scope else {},
        schema_url=(scope.schema_url or "") if scope else "",
        links=tuple(map(_convert_link, span.links)),
        trace_state=span.context.trace_state.to_header(),
        flags=_flags(span.context, span.parent is not None and span.parent.is_remote),
        dropped_attributes=span.dropped_attributes,
        dropped_events=span.dropped_events,
        dropped_links=span.dropped_links,
    )


def _convert_link(link: Any) -> SpanLink:
    return SpanLink(
        f"{link.context.trace_id:032x}",
        f"{link.context.span_id:016x}",
        to_plain(link.attributes or {}),
        trace_state=link.context.trace_state.to_header(),
        flags=_flags(link.context, link.context.is_remote),
        dropped_attributes=link.dropped_attributes,
    )


def _flags(context: Any, is_remote: bool) -> int:
    """Return the flags as OTLP has them: those of W3C, and whether the context before is a remote one."""
    return int(context.trace_flags) | _KNOWS_REMOTE | (_IS_REMOTE if is_remote else 0)


def _convert_log(record: Any) -> LogRecord:
    # Versions of the SDK differ in whether a finished log is the record or holds it.
    record = getattr(record, "log_record", record)
    attributes = to_plain(record.attributes or {})
    event = SpanEvent(
        getattr(record, "event_name", None) or attributes.get("event.name") or "",
        attributes,
        time_ns=record.timestamp or record.observed_timestamp,
        body=to_plain(record.body),
        dropped_attributes=getattr(record, "dropped_attributes", 0),
    )
    return LogRecord(event, f"{record.trace_id or 0:032x}", f"{record.span_id or 0:016x}")


def _parse_console_event(event: Mapping[str, Any]) -> SpanEvent:
    time = _parse_iso_time(event.get("timestamp"))
    return SpanEvent(str(event.get("name") or ""), to_plain(as_map(event.get("attributes"))), time_ns=time)


def _parse_console_link(link: Mapping[str, Any]) -> SpanLink:
    context = as_map(link.get("context"))
    attributes = to_plain(as_map(link.get("attributes")))
    return SpanLink(_parse_hex_id(context.get("trace_id")), _parse_hex_id(context.get("span_id")), attributes)


def _parse_hex_id(value: object) -> str:
    text = value.lower().removeprefix("0x") if isinstance(value, str) else ""
    return text if text.strip("0") else ""


def _parse_iso_time(text: Any) -> int | None:
    """Parse a time as ISO 8601, which has microseconds at most, to nanoseconds since 1970."""
    try:
        since = datetime.fromisoformat(text) - _EPOCH
    except (TypeError, ValueError):
        return None
    return since // timedelta(microseconds=1) * 1000
