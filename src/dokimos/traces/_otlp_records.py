"""Reads OTLP with each span as it was sent, for those who keep it: nothing is lost of what is not parsed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from dokimos.errors import TraceError
from dokimos.traces import _otlp_json as from_json
from dokimos.traces import _otlp_protobuf as from_protobuf
from dokimos.traces._otlp import Encoding
from dokimos.traces._protobuf_parsers import load_trace_parsers
from dokimos.traces._span import Span, SpanOrigin

NO_OBJECT: Final = "something else than an object"
"""Why an entry of a list of spans or log records is none."""
DAMAGED_ORIGIN: Final = "damaged resource or scope"


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """What the spans of one instrumentation share, as it was sent."""

    encoding: Encoding
    resource: bytes
    """A `Resource` of OTLP, in the encoding; likewise `scope`, an `InstrumentationScope`."""
    resource_schema_url: str
    scope: bytes
    schema_url: str


class SpanRecord(NamedTuple):
    """A span, and how it was sent."""

    span: Span
    body: bytes
    """A `Span` of OTLP, in the encoding of its origin."""
    origin: RecordOrigin


_make_record: Final = partial(tuple.__new__, SpanRecord)
"""Of a tuple of all fields, in half the time that its constructor takes."""


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
    parsers = load_trace_parsers()
    with from_protobuf.as_trace_error():
        groups = list(from_protobuf.read_groups(data, parsers))
    for group in groups:
        sent = RecordOrigin("protobuf", *group[:4])
        try:
            origin = from_protobuf.parse_origin(group, parsers)
        except Exception:  # protobuf's own
            yield from [DAMAGED_ORIGIN] * len(group.spans)
            continue
        for body in group.spans:
            span = from_protobuf.parse_span(body, origin, parsers)
            yield span if isinstance(span, str) else _make_record((span, body, sent))


def load_map(data: bytes) -> dict[str, Any]:
    """Return an export in JSON; raises `TraceError`."""
    from pydantic_core import from_json

    try:
        tree = from_json(data)
    except ValueError:  # as for half a character of UTF-16, or deep nesting
        tree = _load_slowly(data)
    if not isinstance(tree, dict):
        raise TraceError(f"An export must be a JSON object, not {type(tree).__name__}.")
    return tree


def _load_slowly(data: bytes) -> Any:
    """Parse JSON with the parser of the standard library, which accepts more."""
    try:
        return _load_with_headroom(data)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"The export is not JSON: {error}.") from error


def _read_json(data: bytes) -> Iterator[SpanRecord | str]:
    for group in from_json.read_groups(load_map(data)):
        sent = RecordOrigin(
            "json",
            dump_map(group.resource),
            group.resource_schema_url,
            dump_map(group.scope),
            group.schema_url,
        )
        origin = from_json.parse_origin(group)
        for each in group.spans if isinstance(group.spans, list) else ():
            if not isinstance(each, dict):
                yield NO_OBJECT
                continue
            span = from_json.parse_span(each, origin)
            yield span if isinstance(span, str) else _make_record((span, dump_map(each), sent))


def _load_with_headroom(data: bytes, frames: int = 100) -> Any:
    """Parse JSON deeper in the stack than whoever reads a span of it later, which limits its nesting."""
    return _load_with_headroom(data, frames - 1) if frames else json.loads(data)


def dump_map(tree: Mapping[str, Any]) -> bytes:
    """Return a part of an export as JSON."""
    from pydantic_core import to_json

    try:
        return to_json(tree, inf_nan_mode="constants")
    except ValueError:
        # Escaped: half a character of UTF-16, which JSON may hold, is none in UTF-8.
        return json.dumps(tree, separators=(",", ":")).encode()


def parse_record(body: bytes, origin: RecordOrigin) -> SpanRecord:
    """Parse a span that `read_records` returned, from how it was sent.

    Raises:
        TraceError: It is not one.
    """
    shared = _parse_origin(origin)
    if origin.encoding == "protobuf":
        span = from_protobuf.parse_span(body, shared, load_trace_parsers())
    else:
        span = from_json.parse_span(json.loads(body), shared)
    if isinstance(span, str):
        raise TraceError(f"The stored span has {span}.")
    return SpanRecord(span, body, origin)


@lru_cache(maxsize=256)
def _parse_origin(origin: RecordOrigin) -> SpanOrigin:
    if origin.encoding == "protobuf":
        parts = (origin.resource, origin.resource_schema_url, origin.scope, origin.schema_url)
        with from_protobuf.as_trace_error():
            return from_protobuf.parse_origin(from_protobuf.SentGroup(*parts), load_trace_parsers())
    resource, scope = json.loads(origin.resource), json.loads(origin.scope)
    return from_json.parse_origin(
        from_json.SentGroup(resource, origin.resource_schema_url, scope, origin.schema_url)
    )
