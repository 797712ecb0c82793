"""Spans as an export of OTLP, in JSON or protobuf: what `read_otlp` reads back as the same spans."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from dokimos._core.extras import require
from dokimos.traces._otlp import Encoding
from dokimos.traces._span import Span, SpanEvent, SpanLink

_KINDS: Final = {
    name: number for number, name in enumerate((None, "internal", "server", "client", "producer", "consumer"))
}
_STATUSES: Final = {"unset": 0, "ok": 1, "error": 2}
_INT64: Final = range(-(2**63), 2**63)


def encode_spans(spans: Iterable[Span], encoding: Encoding) -> bytes:
    """Return an `ExportTraceServiceRequest` with the spans, in their order.

    What an encoding cannot hold becomes the nearest that it can: in protobuf, whole numbers of more than 64
    bits are texts, an id that is not hexadecimal is its bytes in UTF-8, and half a character is a question
    mark. The body of a log record is the attribute `body` of its event.
    """
    tree = {"resourceSpans": [*encode_groups(spans)]}
    if encoding == "json":
        return json.dumps(tree, separators=(",", ":")).encode()
    return to_protobuf(tree)


def encode_groups(spans: Iterable[Span]) -> Iterator[dict[str, Any]]:
    """Yield the spans as `ResourceSpans` of JSON, those together that follow one another."""
    for (resource, url), of_resource in groupby(spans, _resource_of):
        parts = [
            {
                "scope": _without_empty({"name": name, "version": version, "attributes": attributes}),
                "spans": [encode_span(span) for span in of_scope],
                "schemaUrl": schema_url,
            }
            for (name, version, attributes, schema_url), of_scope in groupby(of_resource, _scope_of)
        ]
        yield {"resource": {"attributes": resource}, "scopeSpans": parts, "schemaUrl": url}


def _resource_of(span: Span) -> tuple[list[dict[str, Any]], str]:
    # As OTLP has them: in Python, 1 and True are equal.
    return encode_attributes(span.resource), span.resource_schema_url


def _scope_of(span: Span) -> tuple[str, str, list[dict[str, Any]], str]:
    return span.scope, span.scope_version, encode_attributes(span.scope_attributes), span.schema_url


def encode_span(span: Span) -> dict[str, Any]:
    """Return a span as a `Span` of JSON."""
    return _without_empty(
        {
            "traceId": span.trace_id,
            "spanId": span.span_id,
            "parentSpanId": span.parent_id,
            "traceState": span.trace_state,
            "flags": span.flags,
            "name": span.name,
            "kind": _KINDS.get(span.kind, 0),
            "startTimeUnixNano": _digits(span.start_ns),
            "endTimeUnixNano": _digits(span.end_ns),
            "attributes": encode_attributes(span.attributes),
            "droppedAttributesCount": span.dropped_attributes,
            "events": [_encode_event(each) for each in span.events],
            "droppedEventsCount": span.dropped_events,
            "links": [_encode_link(each) for each in span.links],
            "droppedLinksCount": span.dropped_links,
            "status": _without_empty({"code": _STATUSES[span.status], "message": span.status_message}),
        }
    )


def _encode_event(event: SpanEvent) -> dict[str, Any]:
    attributes = event.attributes if event.body is None else {**event.attributes, "body": event.body}
    return _without_empty(
        {
            "timeUnixNano": _digits(event.time_ns),
            "name": event.name,
            "attributes": encode_attributes(attributes),
            "droppedAttributesCount": event.dropped_attributes,
        }
    )


def _encode_link(link: SpanLink) -> dict[str, Any]:
    return _without_empty(
        {
            "traceId": link.trace_id,
            "spanId": link.span_id,
            "traceState": link.trace_state,
            "attributes": encode_attributes(link.attributes),
            "droppedAttributesCount": link.dropped_attributes,
            "flags": link.flags,
        }
    )


def encode_attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return attributes as OTLP has them in JSON: a list of keys and values, each with its type."""
    return [{"key": key, "value": _encode_value(value)} for key, value in attributes.items()]


def _encode_value(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _name_of(value)}
    if isinstance(value, bytes | bytearray):
        return {"bytesValue": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": encode_attributes(value)}}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_encode_value(each) for each in value]}}
    return {"stringValue": str(value)}


def _name_of(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _digits(number: int | None) -> str | None:
    return None if number is None else str(number)  # JSON of OTLP has numbers of 64 bits as texts


def _without_empty(tree: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if value or key == "name"}


def to_protobuf(tree: Mapping[str, Any]) -> bytes:
    """Return an export that `encode_spans` or `encode_groups` made as protobuf."""
    from dokimos.traces._otlp_protobuf import new_request

    parse = require("google.protobuf.json_format", extra="otel").ParseDict
    data: bytes = parse(_for_protobuf(tree), new_request("traces")).SerializeToString()
    return data


_IDS: Final = frozenset({"traceId", "spanId", "parentSpanId"})


def _for_protobuf(tree: Any) -> Any:
    """Return what the JSON of protobuf has in another way than that of OTLP, or cannot hold."""
    if isinstance(tree, list):
        return [_for_protobuf(each) for each in tree]
    if isinstance(tree, str):
        return _whole(tree)
    if not isinstance(tree, Mapping):
        return tree
    if set(tree) == {"intValue"} and int(tree["intValue"]) not in _INT64:
        return {"stringValue": tree["intValue"]}
    return {
        key: base64.b64encode(_id_bytes(value)).decode() if key in _IDS else _for_protobuf(value)
        for key, value in tree.items()
    }


def _id_bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return text.encode("utf-8", "replace")


def _whole(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
