"""Parsers of OTLP's messages that leave the messages in these as bytes.

Protobuf's own classes make an object of each nested message that is looked at, which takes twenty times as
long as to parse the export. As bytes, most of them need no object; and a span can be kept as it was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from dokimos._core.extras import require

_PACKAGE: Final = "dokimos"
_OTEL: Final = "opentelemetry.proto"


Parser: TypeAlias = Callable[[bytes], Any]
"""Parses bytes to a message. Raises an error of protobuf, which differs between its implementations."""


class TraceParsers(NamedTuple):
    """Parses the messages of exports of traces."""

    parse_request: Parser
    """Down to the groups of a scope, in which each span is bytes."""
    parse_resource: Parser
    parse_scope: Parser
    parse_span: Parser
    parse_event: Parser
    parse_link: Parser
    parse_status: Parser


class LogParsers(NamedTuple):
    """Parses the messages of exports of logs."""

    parse_request: Parser
    """Down to the groups of a scope, in which each record is bytes."""
    parse_record: Parser


class ValueParsers(NamedTuple):
    """Parses the messages of attributes and values; only the first two with all messages in them."""

    parse_pair: Parser
    parse_value: Parser
    parse_array: Parser
    parse_map: Parser


@cache
def load_trace_parsers() -> TraceParsers:
    """Return the parsers for traces. Raises `MissingExtraError` without the extra."""
    service = _load("collector.trace.v1.trace_service_pb2").ExportTraceServiceRequest
    trace = _load("trace.v1.trace_pb2")
    resource = _load("resource.v1.resource_pb2").Resource
    scope = _load("common.v1.common_pb2").InstrumentationScope
    singles = (resource, scope, trace.Span, trace.Span.Event, trace.Span.Link, trace.Status)
    request = _derive_parser(service, trace.ResourceSpans, trace.ScopeSpans)
    return TraceParsers(request, *map(_derive_parser, singles))


@cache
def load_log_parsers() -> LogParsers:
    """Return the parsers for logs. Raises `MissingExtraError` without the extra."""
    service = _load("collector.logs.v1.logs_service_pb2").ExportLogsServiceRequest
    logs = _load("logs.v1.logs_pb2")
    request = _derive_parser(service, logs.ResourceLogs, logs.ScopeLogs)
    return LogParsers(request, _derive_parser(logs.LogRecord))


@cache
def load_value_parsers() -> ValueParsers:
    """Return the parsers for attributes. Raises `MissingExtraError` without the extra."""
    common = _load("common.v1.common_pb2")
    whole = (common.KeyValue.FromString, common.AnyValue.FromString)
    return ValueParsers(*whole, *map(_derive_parser, (common.ArrayValue, common.KeyValueList)))


def _load(name: str) -> Any:
    return require(f"{_OTEL}.{name}", extra="otel")


def _derive_parser(kind: Any, *below: Any) -> Parser:
    """Return a parser for the messages of `kind` that leaves messages as bytes, except those of `below`.

    A field with a message becomes one with any number of bytes: where a message comes in several parts, the
    parts joined are the message, as the wire format says.
    """
    descriptors = require("google.protobuf.descriptor_pb2", extra="otel")
    kinds = {f".{each.DESCRIPTOR.full_name}": each.DESCRIPTOR.name for each in (kind, *below)}
    file = descriptors.FileDescriptorProto(name="derived.proto", package=_PACKAGE, syntax="proto3")
    for each in (kind, *below):
        message = file.message_type.add()
        each.DESCRIPTOR.CopyToProto(message)
        for part in ("nested_type", "enum_type", "oneof_decl"):
            message.ClearField(part)
        for field in message.field:
            _derive_field(field, kinds)
    pool = require("google.protobuf.descriptor_pool", extra="otel").DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.{kind.DESCRIPTOR.name}")
    parse: Parser = (
        require("google.protobuf.message_factory", extra="otel").GetMessageClass(descriptor).FromString
    )
    return parse


def _derive_field(field: Any, kinds: dict[str, str]) -> None:
    field.ClearField("oneof_index")
    if field.type == field.TYPE_ENUM:
        field.type = field.TYPE_INT32
        field.ClearField("type_name")
    elif field.type_name in kinds:
        field.type_name = f".{_PACKAGE}.{kinds[field.type_name]}"
    elif field.type == field.TYPE_MESSAGE:
        field.type, field.label = field.TYPE_BYTES, field.LABEL_REPEATED
        field.ClearField("type_name")
