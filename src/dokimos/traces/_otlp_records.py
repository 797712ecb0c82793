"""Reads OTLP with each span as it was sent, for those who keep it: nothing is lost of what is not parsed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dokimos.errors import TraceError
from dokimos.traces._json_tree import as_map, iterate_maps
from dokimos.traces._otlp import Encoding, Source, make_source, parse_resource, parse_span_map
from dokimos.traces._otlp_protobuf import (
    parse_message,
    parse_request,
    parse_span_message,
    read_attributes,
    read_source,
)
from dokimos.traces._protobuf_wire import split_spans
from dokimos.traces._span import Span


@dataclass(frozen=True, slots=True)
class SpanOrigin:
    """What the spans of one instrumentation share, as it was sent."""

    encoding: Encoding
    resource: bytes
    """A `Resource` of OTLP, in the encoding; likewise `scope`, an `InstrumentationScope`."""
    resource_schema_url: str
    scope: bytes
    schema_url: str


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A span, and how it was sent."""

    span: Span
    body: bytes
    """A `Span` of OTLP, in the encoding of its origin."""
    origin: SpanOrigin


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """The spans of one export."""

    records: tuple[SpanRecord, ...] = ()
    rejected: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why spans were rejected, each with the number of spans."""


def read_records(data: bytes, encoding: Encoding) -> RecordBatch:
    """Read the spans of an export of traces.

    Raises:
        TraceError: It is not an export in that encoding.
    """
    return _make_batch(iterate_records(data, encoding))


def iterate_records(data: bytes, encoding: Encoding) -> Iterator[SpanRecord | str]:
    """Yield each span of an export of traces, or why it is none; raises what `read_records` raises."""
    return _read_protobuf(data) if encoding == "protobuf" else _read_json(data)


def _make_batch(parsed: Iterable[SpanRecord | str]) -> RecordBatch:
    records: list[SpanRecord] = []
    reasons: Counter[str] = Counter()
    for each in parsed:
        if isinstance(each, str):
            reasons[each] += 1
        else:
            records.append(each)
    return RecordBatch(tuple(records), reasons.total(), dict(reasons))


def _read_protobuf(data: bytes) -> Iterator[SpanRecord | str]:
    try:
        request = parse_request(data, "traces")
    except TraceError:
        yield from _salvage(data)
        return
    for group in request.resource_spans:
        resource = group.resource.SerializeToString()
        attributes = read_attributes(group.resource.attributes)
        for part in group.scope_spans:
            source = read_source(group.schema_url, part.scope, part.schema_url, attributes)
            scope = part.scope.SerializeToString()
            origin = SpanOrigin("protobuf", resource, group.schema_url, scope, part.schema_url)
            for message in part.spans:
                span = parse_span_message(message, source)
                yield (
                    span if isinstance(span, str) else SpanRecord(span, message.SerializeToString(), origin)
                )


def _salvage(data: bytes) -> Iterator[SpanRecord | str]:
    """Parse each span by itself where the export as a whole cannot be parsed: one bad span costs no other."""
    parsed: list[SpanRecord | str] = []
    for group_shell, scopes in split_spans(data):
        for scope_shell, spans in scopes:
            try:
                group = parse_message("ResourceSpans", group_shell)
                part = parse_message("ScopeSpans", scope_shell)
            except TraceError:
                parsed += ["a resource or scope that is not protobuf of OTLP"] * len(spans)
                continue
            attributes = read_attributes(group.resource.attributes)
            source = read_source(group.schema_url, part.scope, part.schema_url, attributes)
            resource, scope = group.resource.SerializeToString(), part.scope.SerializeToString()
            origin = SpanOrigin("protobuf", resource, group.schema_url, scope, part.schema_url)
            parsed += [_salvage_span(body, source, origin) for body in spans]
    if all(isinstance(each, str) for each in parsed):
        parse_request(data, "traces")  # raises: it is not an export at all
    yield from parsed


def _salvage_span(body: bytes, source: Source, origin: SpanOrigin) -> SpanRecord | str:
    try:
        message = parse_message("Span", body)
    except TraceError:
        return "content that is not protobuf of OTLP"
    span = parse_span_message(message, source)
    return span if isinstance(span, str) else SpanRecord(span, message.SerializeToString(), origin)


def _read_json(data: bytes) -> Iterator[SpanRecord | str]:
    for group in iterate_maps(get_field(load_map(data), "resourceSpans", "resource_spans")):
        resource, attributes = dump_map(as_map(group.get("resource"))), parse_resource(group)
        parts = get_field(group, "scopeSpans", "scope_spans") or group.get("instrumentationLibrarySpans")
        for part in iterate_maps(parts):
            source = make_source(group, part, attributes)
            scope = dump_map(as_map(part.get("scope")))
            origin = SpanOrigin("json", resource, source["resource_schema_url"], scope, source["schema_url"])
            for each in iterate_maps(part.get("spans")):
                span = parse_span_map(each, source)
                yield span if isinstance(span, str) else SpanRecord(span, dump_map(each), origin)


def load_map(data: bytes) -> dict[str, Any]:
    """Return an export in JSON; raises `TraceError`."""
    try:
        tree = _load_with_headroom(data)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"The export is not JSON: {error}.") from error
    if not isinstance(tree, dict):
        raise TraceError(f"An export must be a JSON object, not {type(tree).__name__}.")
    return tree


def _load_with_headroom(data: bytes, frames: int = 100) -> Any:
    """Parse JSON deeper in the stack than whoever reads a span of it later, which limits its nesting."""
    return _load_with_headroom(data, frames - 1) if frames else json.loads(data)


def get_field(tree: Mapping[str, Any], name: str, other: str) -> Any:
    """Return a field in either spelling."""
    value = tree.get(name)
    return tree.get(other) if value is None else value


def dump_map(tree: Mapping[str, Any]) -> bytes:
    """Return a part of an export as JSON."""
    # Escaped: half a character of UTF-16, which JSON may hold, is none in UTF-8.
    return json.dumps(tree, separators=(",", ":")).encode()


def parse_record(body: bytes, origin: SpanOrigin) -> SpanRecord:
    """Parse a span that `read_records` returned, from how it was sent.

    Raises:
        TraceError: It is not one.
    """
    source = _read_origin(origin)
    if origin.encoding == "protobuf":
        span = parse_span_message(parse_message("Span", body), source)
    else:
        span = parse_span_map(json.loads(body), source)
    if isinstance(span, str):
        raise TraceError(f"The stored span has {span}.")
    return SpanRecord(span, body, origin)


@lru_cache(maxsize=256)
def _read_origin(origin: SpanOrigin) -> Source:
    if origin.encoding == "protobuf":
        resource = parse_message("Resource", origin.resource)
        scope = parse_message("InstrumentationScope", origin.scope)
        return read_source(
            origin.resource_schema_url, scope, origin.schema_url, read_attributes(resource.attributes)
        )
    map_group = {"resource": json.loads(origin.resource), "schemaUrl": origin.resource_schema_url}
    map_part = {"scope": json.loads(origin.scope), "schemaUrl": origin.schema_url}
    return make_source(map_group, map_part, parse_resource(map_group))
