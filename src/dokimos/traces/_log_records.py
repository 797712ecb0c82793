"""Reads exports of logs with each record as it was sent, for those who keep it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dokimos.traces import _otlp_json as from_json
from dokimos.traces import _otlp_protobuf as from_protobuf
from dokimos.traces._otlp import Encoding
from dokimos.traces._otlp_records import DAMAGED_ORIGIN, NO_OBJECT, RecordOrigin, dump_map, load_map
from dokimos.traces._protobuf_parsers import LogParsers, load_log_parsers, load_trace_parsers
from dokimos.traces._protobuf_values import parse_attributes
from dokimos.traces._span import LogRecord


@dataclass(frozen=True, slots=True)
class SentLog:
    """A log record, and how it was sent."""

    record: LogRecord
    body: bytes
    """A `LogRecord` of OTLP, in the encoding of its origin."""
    origin: RecordOrigin
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
        if isinstance(log, str):
            reasons[log] += 1
        elif not log.record.trace_id:
            reasons["no trace id"] += 1
        elif not log.record.span_id:
            reasons["no span id"] += 1
        else:
            logs.append(log)
    return LogBatch(tuple(logs), dict(reasons))


def parse_sent_log(body: bytes, encoding: Encoding) -> LogRecord:
    """Parse a record that `read_log_records` returned, from how it was sent."""
    if encoding == "protobuf":
        with from_protobuf.as_trace_error():
            return from_protobuf.parse_log(body, load_log_parsers())
    return from_json.parse_log(json.loads(body))


def _read_protobuf(data: bytes) -> Iterator[SentLog | str]:
    """Yield each record of an export, or why it was rejected: one that is wrong costs no other."""
    parsers, origins = load_log_parsers(), load_trace_parsers()
    with from_protobuf.as_trace_error():
        groups = list(parsers.parse_request(data).resource_logs)
    for group in groups:
        resource = b"".join(group.resource)
        try:
            attributes = parse_attributes(origins.parse_resource(resource).attributes)
        except Exception:  # protobuf's own
            yield from [DAMAGED_ORIGIN] * sum(len(part.log_records) for part in group.scope_logs)
            continue
        for part in group.scope_logs:
            scope = b"".join(part.scope)
            try:
                parse_attributes(origins.parse_scope(scope).attributes)
            except Exception:  # protobuf's own
                yield from [DAMAGED_ORIGIN] * len(part.log_records)
                continue
            origin = RecordOrigin("protobuf", resource, group.schema_url, scope, part.schema_url)
            for each in part.log_records:
                record = _parse_protobuf(each, parsers)
                yield record if isinstance(record, str) else SentLog(record, each, origin, attributes)


def _parse_protobuf(data: bytes, parsers: LogParsers) -> LogRecord | str:
    try:
        return from_protobuf.parse_log(data, parsers)
    except Exception:  # protobuf's own
        return from_protobuf.DAMAGED


def _read_json(data: bytes) -> Iterator[SentLog | str]:
    for group in from_json.read_log_groups(load_map(data)):
        resource, scope = dump_map(group.resource), dump_map(group.scope)
        origin = RecordOrigin("json", resource, group.resource_schema_url, scope, group.schema_url)
        attributes = from_json.parse_origin(group).resource
        for each in group.spans if isinstance(group.spans, list) else ():
            if isinstance(each, dict):
                yield SentLog(from_json.parse_log(each), dump_map(each), origin, attributes)
            else:
                yield NO_OBJECT
