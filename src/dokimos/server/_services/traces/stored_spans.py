"""Spans as they are read back: parsed from what was sent."""

from __future__ import annotations

from dokimos.traces._otlp_records import RecordOrigin, SpanRecord, parse_record


def read_record(body: bytes, origin: RecordOrigin) -> SpanRecord:
    """Return a stored span."""
    return parse_record(body, origin)
