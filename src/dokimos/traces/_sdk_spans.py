"""Spans of OpenTelemetry's SDK, as its in-memory exporter keeps them and its console exporter prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dokimos.traces._span import MAX_DEPTH, LogRecord, Span, SpanEvent, SpanStatus, with_logs

_STATUSES: Final[dict[str, SpanStatus]] = {"OK": "ok", "ERROR": "error"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def spans_from_sdk(spans: Iterable[Any], logs: Iterable[Any] = ()) -> tuple[Span, ...]:
    """Return finished spans of the SDK, with the log records that name them as their events.

    `spans` are `ReadableSpan`s, as `InMemorySpanExporter.get_finished_spans()` gives them; `logs` what
    `InMemoryLogRecordExporter.get_finished_logs()` gives. The SDK itself is not imported.
    """
    return with_logs(tuple(map(_span, spans)), tuple(map(_log, logs)))


def _span(span: Any) -> Span:
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
        attributes=_to_plain(span.attributes or {}),
        events=tuple(
            SpanEvent(event.name, _to_plain(event.attributes or {}), time_ns=event.timestamp)
            for event in span.events
        ),
        resource=_to_plain(span.resource.attributes),
        scope=scope.name if scope else "",
    )


def _log(record: Any) -> LogRecord:
    # Versions of the SDK differ in whether a finished log is the record or holds it.
    record = getattr(record, "log_record", record)
    attributes = _to_plain(record.attributes or {})
    event = SpanEvent(
        getattr(record, "event_name", None) or attributes.get("event.name") or "",
        attributes,
        time_ns=record.timestamp or record.observed_timestamp,
        body=_to_plain(record.body),
    )
    return LogRecord(event, f"{record.trace_id or 0:032x}", f"{record.span_id or 0:016x}")


def _to_plain(value: object, depth: int = 0) -> Any:
    """Return a value with maps and sequences of the SDK's own as dicts and lists."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        return {str(key): _to_plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_to_plain(each, depth + 1) for each in value]
    return value


def is_printed(tree: Mapping[str, Any]) -> bool:
    """Say whether JSON is one span as `ReadableSpan.to_json()` writes it."""
    context = tree.get("context")
    return isinstance(context, Mapping) and "trace_id" in context and "span_id" in context and "name" in tree


def parse_printed_span(tree: Mapping[str, Any]) -> Span | None:
    """Parse a span as `ReadableSpan.to_json()` writes it; None for one without ids or name."""
    context, status = tree["context"], _map(tree.get("status"))
    trace_id, span_id = _hexadecimal(context["trace_id"]), _hexadecimal(context["span_id"])
    name = tree["name"]
    if not (trace_id and span_id and isinstance(name, str) and name.strip()):
        return None
    return Span(
        trace_id,
        span_id,
        name=name,
        parent_id=_hexadecimal(tree.get("parent_id")) or None,
        kind=str(tree.get("kind") or "").removeprefix("SpanKind.").lower() or None,
        start_ns=_nanoseconds(tree.get("start_time")),
        end_ns=_nanoseconds(tree.get("end_time")),
        status=_STATUSES.get(str(status.get("status_code")), "unset"),
        status_message=str(status.get("description") or ""),
        attributes=_to_plain(_map(tree.get("attributes"))),
        events=tuple(_parse_printed_event(event) for event in _maps(tree.get("events"))),
        resource=_map(_map(tree.get("resource")).get("attributes")),
    )


def _parse_printed_event(event: Mapping[str, Any]) -> SpanEvent:
    time = _nanoseconds(event.get("timestamp"))
    return SpanEvent(str(event.get("name") or ""), _to_plain(_map(event.get("attributes"))), time_ns=time)


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _hexadecimal(value: object) -> str:
    text = value.lower().removeprefix("0x") if isinstance(value, str) else ""
    return text if text.strip("0") else ""


def _nanoseconds(text: Any) -> int | None:
    """Parse a time as ISO 8601, which has microseconds at most."""
    try:
        since = datetime.fromisoformat(text) - _EPOCH
    except (TypeError, ValueError):
        return None
    return since // timedelta(microseconds=1) * 1000
