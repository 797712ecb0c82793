"""Reads exports of logs with each record as it was sent, for those who keep it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dokimos.traces._json_tree import as_map, iterate_maps
from dokimos.traces._otlp import Encoding, make_source, parse_log_map, parse_resource
from dokimos.traces._otlp_protobuf import (
    parse_log_message,
    parse_message,
    parse_request,
    read_attributes,
)
from dokimos.traces._otlp_records import SpanOrigin, dump_map, get_field, load_map
from dokimos.traces._span import LogRecord


@dataclass(frozen=True, slots=True)
class SentLog:
    """A log record, and how it was sent."""

    record: LogRecord
    body: bytes
    """A `LogRecord` of OTLP, in the encoding of its origin."""
    origin: SpanOrigin
    resource: Mapping[str, Any]
    """Attributes of what recorded it."""


@dataclass(frozen=True, slots=True)
class LogBatch:
    """The log records of one export that name a span."""

    logs: tuple[SentLog, ...] = ()
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why others were rejected, each with the number of records."""


def read_log_records(data: bytes, encoding: Encoding) -> LogBatch:
    """Read the log records of an export of logs.

    Raises:
        TraceError: It is not an export in that encoding.
    """
    logs: list[SentLog] = []
    reasons: Counter[str] = Counter()
    for log in _read_protobuf(data) if encoding == "protobuf" else _read_json(data):
        if not log.record.trace_id:
            reasons["no trace id"] += 1
        elif not log.record.span_id:
            reasons["no span id"] += 1
        else:
            logs.append(log)
    return LogBatch(tuple(logs), dict(reasons))


def parse_sent_log(body: bytes, encoding: Encoding) -> LogRecord:
    """Parse a record that `read_log_records` returned, from how it was sent."""
    if encoding == "protobuf":
        return parse_log_message(parse_message("LogRecord", body))
    return parse_log_map(json.loads(body))


def _read_protobuf(data: bytes) -> Iterator[SentLog]:
    for group in parse_request(data, "logs").resource_logs:
        resource = group.resource.SerializeToString()
        attributes = read_attributes(group.resource.attributes)
        for part in group.scope_logs:
            scope = part.scope.SerializeToString()
            origin = SpanOrigin("protobuf", resource, group.schema_url, scope, part.schema_url)
            for each in part.log_records:
                yield SentLog(parse_log_message(each), each.SerializeToString(), origin, attributes)


def _read_json(data: bytes) -> Iterator[SentLog]:
    for group in iterate_maps(get_field(load_map(data), "resourceLogs", "resource_logs")):
        resource, attributes = dump_map(as_map(group.get("resource"))), parse_resource(group)
        for part in iterate_maps(get_field(group, "scopeLogs", "scope_logs")):
            source = make_source(group, part, attributes)
            scope = dump_map(as_map(part.get("scope")))
            origin = SpanOrigin("json", resource, source["resource_schema_url"], scope, source["schema_url"])
            for each in iterate_maps(get_field(part, "logRecords", "log_records")):
                yield SentLog(parse_log_map(each), dump_map(each), origin, attributes)
