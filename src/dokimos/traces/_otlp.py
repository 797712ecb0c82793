"""Parses spans from OTLP, the export protocol of OpenTelemetry: JSON or protobuf, in bytes or files."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict

from dokimos.errors import TraceError
from dokimos.traces._json_tree import as_map, iterate_maps, to_plain
from dokimos.traces._protobuf_wire import Signal
from dokimos.traces._sdk_spans import is_console_span, parse_console_span
from dokimos.traces._span import (
    MAX_DEPTH,
    LogRecord,
    Span,
    SpanEvent,
    SpanLink,
    SpanStatus,
    find_reason,
    with_logs,
)

Encoding: TypeAlias = Literal["json", "protobuf"]

MAX_BYTES: Final = 256 * 1024 * 1024
"""How large a request may become when it is decompressed."""

_GZIP: Final = b"\x1f\x8b"
_KINDS: Final = ("", "internal", "server", "client", "producer", "consumer")
_STATUSES: Final[tuple[SpanStatus, ...]] = ("unset", "ok", "error")


class Source(TypedDict):
    """The fields of a span that all spans of one instrumentation share."""

    resource: Mapping[str, Any]
    resource_schema_url: str
    scope: str
    scope_version: str
    scope_attributes: Mapping[str, Any]
    schema_url: str


@dataclass(frozen=True, slots=True)
class SpanBatch:
    """The spans and log records of an export."""

    spans: tuple[Span, ...] = ()
    logs: tuple[LogRecord, ...] = ()
    rejected: int = 0
    """The number of spans ignored because they have no trace id, span id or name."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why, such as "no trace id", each with the number of spans; the first thing that a span lacks counts."""


def make_batch(parsed: Iterable[Span | str], logs: Iterable[LogRecord] = ()) -> SpanBatch:
    """Return a batch of spans, and of the reasons why others are none."""
    spans: list[Span] = []
    reasons: Counter[str] = Counter()
    for each in parsed:
        if isinstance(each, Span):
            spans.append(each)
        else:
            reasons[each] += 1
    return SpanBatch(tuple(spans), tuple(logs), reasons.total(), dict(reasons))


def read_otlp(
    body: bytes | str | Mapping[str, Any],
    *,
    encoding: Encoding | None = None,
    signal: Signal | None = None,
    max_bytes: int = MAX_BYTES,
) -> SpanBatch:
    """Read one export: spans, log records, or both.

    Bytes may be compressed with gzip. Without `encoding` it is detected from the first byte. `signal` says
    what protobuf holds; without it, that is detected too. JSON may have names in camelCase or snake_case,
    one export or several (one to a line, as the collector writes files, or in a list), and also spans as
    the SDK's console exporter prints them.

    Raises:
        TraceError: for data that is not an export, or larger than `max_bytes` when decompressed.
    """
    if isinstance(body, Mapping):
        return _from_tree(body)
    if isinstance(body, str):
        return _from_json(body.encode("utf-8", "surrogatepass"))
    data = _decompress(body, max_bytes)
    if (encoding or _detect_encoding(data)) == "protobuf":
        from dokimos.traces._otlp_protobuf import read_protobuf

        return read_protobuf(data, signal)
    return _from_json(data)


def load_spans(*paths: str | Path) -> tuple[Span, ...]:
    """Read the spans of files that hold OTLP: `.json`, `.jsonl`, protobuf, each also with gzip.

    Files may hold traces, logs or both. Log records that name a span become its events, from whichever file
    they are. Raises `TraceError`.
    """
    batch = _merge_batches(_from_file(Path(path)) for path in paths)
    return with_logs(batch.spans, batch.logs)


def _from_file(path: Path) -> SpanBatch:
    try:
        return read_otlp(path.read_bytes())
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from error
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from error


def _decompress(data: bytes, max_bytes: int) -> bytes:
    if data[:2] == _GZIP:
        # One byte more shows whether it is too large, or just as large as allowed.
        data = _gunzip(data, max_bytes + 1)
    if len(data) > max_bytes:
        raise TraceError(f"The export is larger than {max_bytes:,} bytes.")
    return data


def _gunzip(data: bytes, limit: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return stream.read(limit)
    except EOFError as error:
        raise TraceError("The gzip data is cut off.") from error
    except (OSError, zlib.error) as error:
        raise TraceError(f"The gzip data is damaged: {error}.") from error


def _detect_encoding(data: bytes) -> Encoding:
    # A file of several exports in protobuf starts with a zero; one export with 0x0A, which is also a line
    # feed, and a length; only where that is a bracket too must more be looked at.
    text = data.lstrip()
    if data[:1] == b"\0":
        return "protobuf"
    if data[:1] != b"\n" or not text:
        return "json"
    return "json" if text[:1] in (b"{", b"[") and _is_text(text) else "protobuf"


def _is_text(data: bytes) -> bool:
    return not any(byte < 0x20 and byte not in b"\t\n\r" for byte in data[:64])


def _from_json(data: bytes) -> SpanBatch:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError) as error:
        return _from_lines(data, error)
    return _from_tree(tree)


def _from_lines(data: bytes, cause: Exception) -> SpanBatch:
    lines = [line for line in data.splitlines() if line.strip()]
    if len(lines) < 2:
        raise TraceError(f"The export is not JSON: {cause}.") from cause
    return _merge_batches(_from_line(number, line) for number, line in enumerate(lines, 1))


def _from_line(number: int, line: bytes) -> SpanBatch:
    try:
        return _from_tree(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise TraceError(f"Line {number} is not JSON: {error}.") from error


def _from_tree(tree: object) -> SpanBatch:
    return _merge_batches(map(_from_map, tree)) if isinstance(tree, list) else _from_map(tree)


def _from_map(tree: object) -> SpanBatch:
    if not isinstance(tree, Mapping):
        raise TraceError(f"An export must be a JSON object, not {type(tree).__name__}.")
    parsed = [parse_console_span(tree)] if is_console_span(tree) else _parse_spans(tree)
    return make_batch(parsed, _parse_logs(tree))


def _merge_batches(batches: Iterable[SpanBatch]) -> SpanBatch:
    all_batches = list(batches)
    return SpanBatch(
        tuple(span for batch in all_batches for span in batch.spans),
        tuple(record for batch in all_batches for record in batch.logs),
        sum(batch.rejected for batch in all_batches),
        dict(sum((Counter(batch.reasons) for batch in all_batches), Counter())),
    )


def _get(tree: Mapping[str, Any], name: str, other: str) -> Any:
    """Return a field in either spelling."""
    value = tree.get(name)
    return tree.get(other) if value is None else value


def _parse_spans(tree: Mapping[str, Any]) -> Iterator[Span | str]:
    for group in iterate_maps(_get(tree, "resourceSpans", "resource_spans")):
        resource = parse_resource(group)
        for part in iterate_maps(
            _get(group, "scopeSpans", "scope_spans") or group.get("instrumentationLibrarySpans")
        ):
            source = make_source(group, part, resource)
            for span in iterate_maps(part.get("spans")):
                yield parse_span_map(span, source)


def parse_resource(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the resource of `ResourceSpans`."""
    return _parse_attributes(as_map(group.get("resource")).get("attributes"))


def make_source(group: Mapping[str, Any], part: Mapping[str, Any], resource: Mapping[str, Any]) -> Source:
    """Return what the spans of a `ScopeSpans` share.

    Args:
        group: The `ResourceSpans` that it is in.
        part: The `ScopeSpans`.
        resource: The attributes of the resource of the group.
    """
    scope = as_map(part.get("scope"))
    return Source(
        resource=resource,
        resource_schema_url=_parse_text(group, "schemaUrl", "schema_url"),
        scope=_parse_text(scope, "name"),
        scope_version=_parse_text(scope, "version"),
        scope_attributes=_parse_attributes(scope.get("attributes")),
        schema_url=_parse_text(part, "schemaUrl", "schema_url"),
    )


def parse_span_map(data: Mapping[str, Any], source: Source) -> Span | str:
    """Return a span of JSON, or why it is none."""
    trace_id = _parse_id(_get(data, "traceId", "trace_id"), 16)
    span_id = _parse_id(_get(data, "spanId", "span_id"), 8)
    name = _parse_text(data, "name")
    reason = find_reason(trace_id, span_id, name)
    if reason is not None:
        return reason
    status = as_map(data.get("status"))
    return Span(
        trace_id,
        span_id,
        name=name,
        parent_id=_parse_id(_get(data, "parentSpanId", "parent_span_id"), 8) or None,
        kind=_parse_kind(data.get("kind")),
        start_ns=_parse_nanoseconds(_get(data, "startTimeUnixNano", "start_time_unix_nano")),
        end_ns=_parse_nanoseconds(_get(data, "endTimeUnixNano", "end_time_unix_nano")),
        status=_parse_status(status.get("code")),
        status_message=str(status.get("message") or ""),
        attributes=_parse_attributes(data.get("attributes")),
        events=tuple(_parse_event(event) for event in iterate_maps(data.get("events"))),
        links=tuple(_parse_link(link) for link in iterate_maps(data.get("links"))),
        trace_state=_parse_text(data, "traceState", "trace_state"),
        flags=_parse_count(data.get("flags")),
        dropped_attributes=_parse_dropped(data, "Attributes", "attributes"),
        dropped_events=_parse_dropped(data, "Events", "events"),
        dropped_links=_parse_dropped(data, "Links", "links"),
        **source,
    )


def _parse_event(data: Mapping[str, Any]) -> SpanEvent:
    return SpanEvent(
        str(data.get("name") or ""),
        _parse_attributes(data.get("attributes")),
        time_ns=_parse_nanoseconds(_get(data, "timeUnixNano", "time_unix_nano")),
        dropped_attributes=_parse_dropped(data, "Attributes", "attributes"),
    )


def _parse_link(data: Mapping[str, Any]) -> SpanLink:
    return SpanLink(
        _parse_id(_get(data, "traceId", "trace_id"), 16),
        _parse_id(_get(data, "spanId", "span_id"), 8),
        _parse_attributes(data.get("attributes")),
        trace_state=_parse_text(data, "traceState", "trace_state"),
        flags=_parse_count(data.get("flags")),
        dropped_attributes=_parse_dropped(data, "Attributes", "attributes"),
    )


def _parse_logs(tree: Mapping[str, Any]) -> Iterator[LogRecord]:
    for group in iterate_maps(_get(tree, "resourceLogs", "resource_logs")):
        for part in iterate_maps(_get(group, "scopeLogs", "scope_logs")):
            yield from map(parse_log_map, iterate_maps(_get(part, "logRecords", "log_records")))


def parse_log_map(data: Mapping[str, Any]) -> LogRecord:
    """Return a log record of JSON."""
    attributes = _parse_attributes(data.get("attributes"))
    time = _parse_nanoseconds(_get(data, "timeUnixNano", "time_unix_nano"))
    time = time or _parse_nanoseconds(_get(data, "observedTimeUnixNano", "observed_time_unix_nano"))
    name = _get(data, "eventName", "event_name") or attributes.get("event.name") or ""
    body = data.get("body")
    event = SpanEvent(
        str(name),
        attributes,
        time_ns=time,
        body=_parse_value(body) if body else None,
        dropped_attributes=_parse_dropped(data, "Attributes", "attributes"),
    )
    trace_id = _parse_id(_get(data, "traceId", "trace_id"), 16)
    return LogRecord(event, trace_id, _parse_id(_get(data, "spanId", "span_id"), 8))


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


def _parse_text(data: Mapping[str, Any], name: str, other: str = "") -> str:
    value = _get(data, name, other)
    return value if isinstance(value, str) else ""


def _parse_dropped(data: Mapping[str, Any], name: str, other: str) -> int:
    return _parse_count(_get(data, f"dropped{name}Count", f"dropped_{other}_count"))


def _parse_count(value: object) -> int:
    """Return a number of 32 bits without a sign; 0 for anything else."""
    number = None if value is None else _parse_integer(value)
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
    if not isinstance(value, Mapping):
        return to_plain(value, depth)
    for name, content in value.items():
        if name in _ARRAYS:
            values = as_map(content).get("values")
            nested = values if isinstance(values, list) and depth < MAX_DEPTH else ()
            return [_parse_value(each, depth + 1) for each in nested]
        if name in _MAPS:
            return _parse_entries(as_map(content).get("values"), depth + 1) if depth < MAX_DEPTH else {}
        parse = _VALUE_PARSERS.get(name)
        if parse is not None:
            return parse(content)
    return None


def _parse_entries(value: object, depth: int = 0) -> dict[str, Any]:
    return {str(each.get("key")): _parse_value(each.get("value"), depth) for each in iterate_maps(value)}


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
