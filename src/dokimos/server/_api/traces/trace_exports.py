"""A trace as the export of OTLP that it came in, sent while it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final, Literal

from fastapi.responses import StreamingResponse
from sqlalchemy import Row

from dokimos.server._db.database import Database, Lane
from dokimos.server._services.traces.trace_details import read_spans_by_id
from dokimos.traces._otlp import Encoding
from dokimos.traces._otlp_originals import export_records

OtlpFormat = Literal["json", "protobuf"]
_TYPES: Final = {"json": "application/json", "protobuf": "application/x-protobuf"}
OTLP_CONTENT: Final[dict[str, dict[str, Any]]] = {
    _TYPES["json"]: {"schema": {"type": "object"}},
    _TYPES["protobuf"]: {"schema": {"type": "string", "format": "binary"}},
}
_AT_ONCE: Final = 200
"""Spans that are in memory at a time."""


def choose_format(format: OtlpFormat | None, accept: str) -> Encoding:
    """Return in which encoding to answer: as the parameter says, else the header `Accept`, else JSON."""
    if format is not None:
        return format
    return "protobuf" if "protobuf" in accept and "json" not in accept else "json"


def export_trace(traces: Database, trace: Row[Any], encoding: Encoding) -> StreamingResponse:
    """Return all spans of a trace as they were sent, those in the other encoding converted."""
    ending = "json" if encoding == "json" else "pb"
    headers = {"Content-Disposition": f'attachment; filename="trace-{trace.id}.{ending}"'}
    parts = _read_parts(traces, trace, encoding)
    return StreamingResponse(
        _as_json(parts) if encoding == "json" else parts, media_type=_TYPES[encoding], headers=headers
    )


async def _read_parts(traces: Database, trace: Row[Any], encoding: Encoding) -> AsyncIterator[bytes]:
    after: str | None = None
    while True:
        spans = await traces.read(
            partial(read_spans_by_id, trace=trace, after=after, limit=_AT_ONCE), Lane.WORK
        )
        if not spans:
            return
        records = [each.record for each in spans]
        yield await asyncio.to_thread(export_records, records, encoding)
        if len(spans) < _AT_ONCE:
            return
        after = spans[-1].row.span_id


async def _as_json(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    opening = b'{"resourceSpans":['
    async for part in parts:
        yield opening + part
        opening = b","
    yield b"]}" if opening == b"," else opening + b"]}"
