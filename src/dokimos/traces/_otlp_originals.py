"""Spans as they were sent, put together to an export again: nothing is lost, also in the other encoding."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from dokimos._core.extras import require
from dokimos.traces._otlp import Encoding
from dokimos.traces._otlp_encoder import encode_spans
from dokimos.traces._otlp_protobuf import new_request
from dokimos.traces._otlp_records import RecordOrigin, SpanRecord

_IDS: Final = frozenset({"traceId", "spanId", "parentSpanId"})


def export_records(records: Iterable[SpanRecord], encoding: Encoding) -> bytes:
    """Return the spans of an export: a message of protobuf, or the `ResourceSpans` of JSON with commas.

    Those that were sent in this encoding are what was sent. Of two such parts, one behind the other, both
    are in the export: in protobuf as it is, in JSON with a comma between them.
    """
    if encoding == "json":
        return b",".join(each for group in _by_origin(records) for each in _json_groups(*group))
    return b"".join(_protobuf_part(*group) for group in _by_origin(records))


def _by_origin(records: Iterable[SpanRecord]) -> Iterator[tuple[RecordOrigin, list[SpanRecord]]]:
    for origin, group in groupby(records, lambda record: record.origin):
        yield origin, list(group)


def _json_groups(origin: RecordOrigin, records: list[SpanRecord]) -> Iterator[bytes]:
    if origin.encoding == "protobuf":
        message = _message(origin, records)
        convert = require("google.protobuf.json_format", extra="otel").MessageToDict
        for each in convert(message, use_integers_for_enums=True).get("resourceSpans", ()):
            yield json.dumps(_with_hexadecimal_ids(each), separators=(",", ":")).encode()
        return
    spans = b",".join(record.body for record in records)
    yield b'{"resource":%b,"scopeSpans":[{"scope":%b,"spans":[%b],"schemaUrl":%b}],"schemaUrl":%b}' % (
        origin.resource,
        origin.scope,
        spans,
        json.dumps(origin.schema_url).encode(),
        json.dumps(origin.resource_schema_url).encode(),
    )


def _protobuf_part(origin: RecordOrigin, records: list[SpanRecord]) -> bytes:
    if origin.encoding == "json":
        # What was sent may be looser than the JSON of protobuf allows; what was read of it is not.
        return encode_spans([record.span for record in records], "protobuf")
    data: bytes = _message(origin, records).SerializeToString()
    return data


def _message(origin: RecordOrigin, records: list[SpanRecord]) -> Any:
    request = new_request("traces")
    group = request.resource_spans.add(schema_url=origin.resource_schema_url)
    group.resource.ParseFromString(origin.resource)
    part = group.scope_spans.add(schema_url=origin.schema_url)
    part.scope.ParseFromString(origin.scope)
    for record in records:
        part.spans.add().ParseFromString(record.body)
    return request


def _with_hexadecimal_ids(tree: Any) -> Any:
    """Return the JSON of protobuf, which has ids in base64, as that of OTLP, where they are hexadecimal."""
    if isinstance(tree, list):
        return [_with_hexadecimal_ids(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        key: base64.b64decode(value).hex() if key in _IDS else _with_hexadecimal_ids(value)
        for key, value in tree.items()
    }
