"""Parses spans and log records from OTLP in JSON."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from dokimos.traces._json_tree import as_map, iterate_maps, to_plain
from dokimos.traces._span import (
    MAX_DEPTH,
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

_CAMEL_CASE: Final = {
    "trace_id": "traceId",
    "span_id": "spanId",
    "parent_span_id": "parentSpanId",
    "trace_state": "traceState",
    "start_time_unix_nano": "startTimeUnixNano",
    "end_time_unix_nano": "endTimeUnixNano",
    "time_unix_nano": "timeUnixNano",
    "observed_time_unix_nano": "observedTimeUnixNano",
    "event_name": "eventName",
    "dropped_attributes_count": "droppedAttributesCount",
    "dropped_events_count": "droppedEventsCount",
    "dropped_links_count": "droppedLinksCount",
}
_KINDS: Final = ("", "internal", "server", "client", "producer", "consumer")
_STATUSES: Final[tuple[SpanStatus, ...]] = ("unset", "ok", "error")


def parse_spans(tree: Mapping[str, Any]) -> Iterator[Span | str]:
    """Parse the spans of an export, and the reasons why others are none."""
    for group in read_groups(tree):
        origin = parse_origin(group)
        for span in iterate_maps(group.spans):
            yield parse_span(span, origin)


class SentGroup(NamedTuple):
    """What an export holds of one instrumentation, each message as it was sent."""

    resource: Mapping[str, Any]
    resource_schema_url: str
    scope: Mapping[str, Any]
    schema_url: str
    spans: Any = ()


def read_groups(tree: Mapping[str, Any]) -> Iterator[SentGroup]:
    """Yield the groups of an export."""
    for group in iterate_maps(_get(tree, "resourceSpans", "resource_spans")):
        resource, url = as_map(group.get("resource")), _parse_text(_get(group, "schemaUrl", "schema_url"))
        parts = _get(group, "scopeSpans", "scope_spans") or group.get("instrumentationLibrarySpans")
        for part in iterate_maps(parts):
            own_url = _parse_text(_get(part, "schemaUrl", "schema_url"))
            yield SentGroup(resource, url, as_map(part.get("scope")), own_url, part.get("spans"))


def parse_origin(group: SentGroup) -> SpanOrigin:
    """Return what the spans of a group share."""
    return SpanOrigin(
        _parse_attributes(group.resource.get("attributes")),
        group.resource_schema_url,
        _parse_text(group.scope.get("name")),
        _parse_text(group.scope.get("version")),
        _parse_attributes(group.scope.get("attributes")),
        group.schema_url,
    )


def read_log_groups(tree: Mapping[str, Any]) -> Iterator[SentGroup]:
    """Yield the groups of an export of logs, with its records in place of spans."""
    for group in iterate_maps(_get(tree, "resourceLogs", "resource_logs")):
        resource, url = as_map(group.get("resource")), _parse_text(_get(group, "schemaUrl", "schema_url"))
        for part in iterate_maps(_get(group, "scopeLogs", "scope_logs")):
            own_url = _parse_text(_get(part, "schemaUrl", "schema_url"))
            records = _get(part, "logRecords", "log_records")
            yield SentGroup(resource, url, as_map(part.get("scope")), own_url, records)


def parse_logs(tree: Mapping[str, Any]) -> Iterator[LogRecord]:
    """Parse the log records of an export."""
    for group in read_log_groups(tree):
        yield from map(parse_log, iterate_maps(group.spans))


def _get(tree: Mapping[str, Any], name: str, other: str) -> Any:
    """Return a field in either spelling."""
    value = tree.get(name)
    return tree.get(other) if value is None else value


def _with_camel_case(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record with the names in camelCase that it has in snake_case only."""
    if _CAMEL_CASE.keys().isdisjoint(data):
        return data
    renamed = {_CAMEL_CASE[name]: value for name, value in data.items() if name in _CAMEL_CASE}
    return {**renamed, **{name: value for name, value in data.items() if value is not None}}


def parse_span(data: Mapping[str, Any], origin: SpanOrigin) -> Span | str:
    """Return a span, or why it is none."""
    data = _with_camel_case(data)
    trace_id, span_id = _parse_id(data.get("traceId"), 16), _parse_id(data.get("spanId"), 8)
    name = _parse_text(data.get("name"))
    reason = find_reason(trace_id, span_id, name)
    if reason is not None:
        return reason
    status = as_map(data.get("status"))
    events, links = data.get("events"), data.get("links")
    span = open_span(origin)
    span.trace_id = trace_id
    span.span_id = span_id
    span.name = name
    span.parent_id = _parse_id(data.get("parentSpanId"), 8) or None
    span.kind = _parse_kind(data.get("kind"))
    span.start_ns = _parse_nanoseconds(data.get("startTimeUnixNano"))
    span.end_ns = _parse_nanoseconds(data.get("endTimeUnixNano"))
    span.status = _parse_status(status.get("code")) if status else "unset"
    span.status_message = str(status.get("message") or "") if status else ""
    span.attributes = _parse_attributes(data.get("attributes"))
    span.events = tuple(map(_parse_event, iterate_maps(events))) if events else ()
    span.links = tuple(map(_parse_link, iterate_maps(links))) if links else ()
    span.trace_state = _parse_text(data.get("traceState"))
    span.flags = _parse_count(data.get("flags"))
    span.dropped_attributes = _parse_count(data.get("droppedAttributesCount"))
    span.dropped_events = _parse_count(data.get("droppedEventsCount"))
    span.dropped_links = _parse_count(data.get("droppedLinksCount"))
    return close_span(span)


def _parse_event(data: Mapping[str, Any]) -> SpanEvent:
    data = _with_camel_case(data)
    return SpanEvent(
        str(data.get("name") or ""),
        _parse_attributes(data.get("attributes")),
        time_ns=_parse_nanoseconds(data.get("timeUnixNano")),
        dropped_attributes=_parse_count(data.get("droppedAttributesCount")),
    )


def _parse_link(data: Mapping[str, Any]) -> SpanLink:
    data = _with_camel_case(data)
    return SpanLink(
        _parse_id(data.get("traceId"), 16),
        _parse_id(data.get("spanId"), 8),
        _parse_attributes(data.get("attributes")),
        trace_state=_parse_text(data.get("traceState")),
        flags=_parse_count(data.get("flags")),
        dropped_attributes=_parse_count(data.get("droppedAttributesCount")),
    )


def parse_log(data: Mapping[str, Any]) -> LogRecord:
    """Return a log record."""
    data = _with_camel_case(data)
    attributes = _parse_attributes(data.get("attributes"))
    time = _parse_nanoseconds(data.get("timeUnixNano"))
    time = time or _parse_nanoseconds(data.get("observedTimeUnixNano"))
    name = data.get("eventName") or attributes.get("event.name") or ""
    body = data.get("body")
    event = SpanEvent(
        str(name),
        attributes,
        time_ns=time,
        body=_parse_value(body) if body else None,
        dropped_attributes=_parse_count(data.get("droppedAttributesCount")),
    )
    return LogRecord(event, _parse_id(data.get("traceId"), 16), _parse_id(data.get("spanId"), 8))


def _parse_id(value: object, size: int) -> str:
    """Return an id as lower-case hexadecimal; some JSON encoders write base64. All zeros mean none."""
    if not isinstance(value, str):
        return ""
    text = value.strip()
    if len(text) == (size + 2) // 3 * 4:  # the length of such an id in base64, never of one in hexadecimal
        with contextlib.suppress(ValueError):
            decoded = base64.b64decode(text, validate=True)
            text = decoded.hex() if len(decoded) == size else text
    return "" if not text.strip("0") else text.lower()


def _parse_nanoseconds(value: object) -> int | None:
    """Return nanoseconds, which JSON has as text; None for 0 and for anything that is not a number."""
    number = _parse_integer(value)
    return number if number is not None and 0 < number < 1 << 64 else None


def _parse_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _parse_count(value: object) -> int:
    """Return a number of 32 bits without a sign; 0 for anything else."""
    if value is None:
        return 0
    number = _parse_integer(value)
    return number if number is not None and 0 < number < 1 << 32 else 0


def _parse_kind(value: object) -> str | None:
    if isinstance(value, str) and not value.isdecimal():
        name = value.removeprefix("SPAN_KIND_").lower()
        return name if name in _KINDS and name else None
    number = _parse_nanoseconds(value) or 0
    return (_KINDS[number] or None) if number < len(_KINDS) else None


def _parse_status(value: object) -> SpanStatus:
    if isinstance(value, str) and not value.isdecimal():
        text = value.removeprefix("STATUS_CODE_").lower()
        return next((status for status in _STATUSES if status == text), "unset")
    number = _parse_nanoseconds(value) or 0
    return _STATUSES[number] if number < len(_STATUSES) else "unset"


def _parse_attributes(value: object) -> dict[str, Any]:
    """Return attributes, which OTLP has as a list of keys and values, as a map."""
    return dict(to_plain(value)) if isinstance(value, Mapping) else _parse_entries(value)


def _parse_value(value: object, depth: int = 0) -> Any:
    """Return the content of an OTLP value, which is a map with its type as the only key.

    Content nested deeper than `MAX_DEPTH` is ignored.
    """
    if type(value) is not dict and not isinstance(value, Mapping):
        return to_plain(value, depth)
    for name, content in value.items():
        parse = _VALUE_PARSERS.get(name)
        if parse is not None:
            return parse(content)
        if name in _ARRAYS:
            values = as_map(content).get("values")
            nested = values if isinstance(values, list) and depth < MAX_DEPTH else ()
            return [_parse_value(each, depth + 1) for each in nested]
        if name in _MAPS:
            return _parse_entries(as_map(content).get("values"), depth + 1) if depth < MAX_DEPTH else {}
    return None


def _parse_entries(value: object, depth: int = 0) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for each in value if isinstance(value, list) else ():
        if type(each) is not dict and not isinstance(each, Mapping):
            continue
        content = each.get("value")
        # Most are texts.
        text = content.get("stringValue") if type(content) is dict and len(content) == 1 else None
        parsed = text if type(text) is str else _parse_value(content, depth)
        entries[str(each.get("key"))] = parsed
    return entries


def _parse_integer(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _parse_double(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _parse_bytes(value: object) -> Any:
    """Return bytes, which JSON has in base64; what is not base64 stays as it is."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return base64.b64decode(value, validate=True)
    return to_plain(value)


_ARRAYS: Final = ("arrayValue", "array_value")
_MAPS: Final = ("kvlistValue", "kvlist_value")
_VALUE_PARSERS: Final[dict[str, Callable[[Any], Any]]] = {
    "stringValue": to_plain,
    "string_value": to_plain,
    "boolValue": to_plain,
    "bool_value": to_plain,
    "intValue": _parse_integer,
    "int_value": _parse_integer,
    "doubleValue": _parse_double,
    "double_value": _parse_double,
    "bytesValue": _parse_bytes,
    "bytes_value": _parse_bytes,
}
