"""What traces look like on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Row

from dokimos._core.jsonable import jsonable
from dokimos.server._db.clock import format_time
from dokimos.server._services.traces.trace_details import SHOWN_TEXT, StoredSpan, span_key
from dokimos.traces._span import Span, SpanEvent, SpanLink

_LARGE_SPAN: Final = 1024 * 1024
"""Bytes of a span from which the texts of its attributes are cut in the detail of its trace."""
_MAX_TEXT: Final = 32_768


def trace_summary(row: Row[Any], project_name: str | None) -> dict[str, Any]:
    """Return a trace as lists show it."""
    return {
        "id": row.id,
        "traceId": row.trace_id,
        "projectId": row.project_id,
        "projectName": project_name,
        "rootSpanName": row.root_name,
        "spanCount": row.span_count,
        "createdAt": format_time(row.created_at),
        "expiresAt": format_time(row.expires_at),
        "updatedAt": format_time(row.updated_at),
        **_times(row),
        "durationMs": None if row.duration_ns is None else row.duration_ns / 1e6,
        "status": "error" if row.error_count else "ok",
        "errorCount": row.error_count,
        "tokensIn": row.tokens_in,
        "tokensOut": row.tokens_out,
        "costUsd": row.cost_usd,
        "pricedCallCount": row.priced_calls,
        "unpricedCallCount": row.unpriced_calls,
        "firstChunkMs": row.first_chunk_ms,
        "sessionId": row.session_id,
        "userId": row.user_id,
        "model": row.model,
        "inputText": _shorten(row.input_text),
        "outputText": _shorten(row.output_text),
    }


def trace_details(row: Row[Any], project_name: str | None) -> dict[str, Any]:
    """Return a trace as its own page shows it, without its spans."""
    texts = {"inputText": row.input_text, "outputText": row.output_text}
    return {
        **trace_summary(row, project_name),
        "tenantId": row.tenant_id,
        "byteCount": row.byte_count,
        **texts,
    }


def span_summary(trace: Row[Any], row: Row[Any]) -> dict[str, Any]:
    """Return a span as the list of a trace shows it."""
    return {**_span_columns(trace, row), **{name: _shorten(text) for name, text in _texts(row).items()}}


def document_span(trace: Row[Any], stored: StoredSpan) -> dict[str, Any]:
    """Return a span as the documented detail of a trace shows it, with all values of its attributes."""
    span, row = stored.record.span, stored.row
    attributes = jsonable({**span.resource, **span.attributes})
    is_cut = False
    if len(stored.record.body) > _LARGE_SPAN:
        shown = {key: _cut_value(value) for key, value in attributes.items()}
        is_cut, attributes = shown != attributes, shown
    return {
        **_span_columns(trace, row),
        **_texts(row),
        "attributes": attributes,
        "attributesCut": is_cut,
    }


def span_details(trace: Row[Any], stored: StoredSpan) -> dict[str, Any]:
    """Return all that is known of a span."""
    span, row = stored.record.span, stored.row
    return {
        **_span_columns(trace, row),
        **_texts(row),
        "statusMessage": span.status_message,
        "attributes": jsonable(dict(span.attributes)),
        "events": [_event(each) for each in span.events],
        "links": [_link(each) for each in span.links],
        "resource": _resource(span),
        "scope": _scope(span),
        "traceState": span.trace_state,
        "flags": span.flags,
        "droppedAttributesCount": span.dropped_attributes,
        "droppedEventsCount": span.dropped_events,
        "droppedLinksCount": span.dropped_links,
        "receivedAt": format_time(row.received_at),
        "encoding": stored.record.origin.encoding,
    }


def _span_columns(trace: Row[Any], row: Row[Any]) -> dict[str, Any]:
    is_timed = row.start_ns is not None and row.end_ns is not None
    return {
        "id": span_key(trace.trace_id, row.span_id),
        "spanId": row.span_id,
        "parentSpanId": row.parent_id,
        "name": row.name,
        "kind": row.kind,
        "statusCode": row.status,
        **_times(row),
        "durationMs": max(0, row.end_ns - row.start_ns) / 1e6 if is_timed else None,
        "role": row.role,
        "model": row.model,
        "tokensIn": row.tokens_in,
        "tokensOut": row.tokens_out,
        "costUsd": row.cost_usd,
        "firstChunkMs": row.first_chunk_ms,
    }


def _texts(row: Row[Any]) -> dict[str, str | None]:
    return {"inputText": row.input_text, "outputText": row.output_text, "error": row.error}


def _times(row: Row[Any]) -> dict[str, int | str | None]:
    """Return when something began and ended: as the documented numbers, and as texts that keep all digits."""
    values = {"startTimeUnixNano": row.start_ns, "endTimeUnixNano": row.end_ns}
    return {**values, **{f"{name}Text": _digits(value) for name, value in values.items()}}


def _digits(value: int | None) -> str | None:
    return None if value is None else str(value)


def _shorten(text: str | None) -> str | None:
    return text if text is None or len(text) <= SHOWN_TEXT else f"{text[:SHOWN_TEXT]}\u2026"


def _cut_value(value: Any) -> Any:
    """Return a value with its long texts cut; what is nested and long becomes a text."""
    if isinstance(value, list | dict):
        text = str(value)
        return value if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}\u2026"
    is_long = isinstance(value, str) and len(value) > _MAX_TEXT
    return f"{value[:_MAX_TEXT]}\u2026" if is_long else value


def _event(event: SpanEvent) -> dict[str, Any]:
    return {
        "name": event.name,
        "timeUnixNano": event.time_ns,
        "timeUnixNanoText": _digits(event.time_ns),
        "attributes": jsonable(dict(event.attributes)),
        "body": jsonable(event.body),
        "droppedAttributesCount": event.dropped_attributes,
    }


def _link(link: SpanLink) -> dict[str, Any]:
    return {
        "traceId": link.trace_id,
        "spanId": link.span_id,
        "attributes": jsonable(dict(link.attributes)),
        "traceState": link.trace_state,
        "flags": link.flags,
        "droppedAttributesCount": link.dropped_attributes,
    }


def _resource(span: Span) -> Mapping[str, Any]:
    return {"attributes": jsonable(dict(span.resource)), "schemaUrl": span.resource_schema_url}


def _scope(span: Span) -> Mapping[str, Any]:
    return {
        "name": span.scope,
        "version": span.scope_version,
        "attributes": jsonable(dict(span.scope_attributes)),
        "schemaUrl": span.schema_url,
    }
