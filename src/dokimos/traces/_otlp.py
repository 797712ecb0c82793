"""Parses spans from OTLP, the export protocol of OpenTelemetry: JSON or protobuf, in bytes or files."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from dokimos.errors import TraceError
from dokimos.traces._otlp_json import parse_logs, parse_spans
from dokimos.traces._protobuf_wire import Signal
from dokimos.traces._sdk_spans import is_console_span, parse_console_span
from dokimos.traces._span import LogRecord, Span, with_logs

Encoding: TypeAlias = Literal["json", "protobuf"]

MAX_BYTES: Final = 256 * 1024 * 1024
"""How large a request may become when it is decompressed."""

_GZIP: Final = b"\x1f\x8b"


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
        tree = _load_json(data)
    except (ValueError, RecursionError) as error:
        return _from_lines(data, error)
    return _from_tree(tree)


def _load_json(data: bytes) -> Any:
    """Parse JSON with the parser that pydantic brings, and what that refuses with the standard library's."""
    from pydantic_core import from_json

    try:
        return from_json(data)
    except ValueError:
        return json.loads(data)


def _from_lines(data: bytes, cause: Exception) -> SpanBatch:
    lines = [line for line in data.splitlines() if line.strip()]
    if len(lines) < 2:
        raise TraceError(f"The export is not JSON: {cause}.") from cause
    return _merge_batches(_from_line(number, line) for number, line in enumerate(lines, 1))


def _from_line(number: int, line: bytes) -> SpanBatch:
    try:
        return _from_tree(_load_json(line))
    except (ValueError, RecursionError) as error:
        raise TraceError(f"Line {number} is not JSON: {error}.") from error


def _from_tree(tree: object) -> SpanBatch:
    return _merge_batches(map(_from_map, tree)) if isinstance(tree, list) else _from_map(tree)


def _from_map(tree: object) -> SpanBatch:
    if not isinstance(tree, Mapping):
        raise TraceError(f"An export must be a JSON object, not {type(tree).__name__}.")
    parsed = [parse_console_span(tree)] if is_console_span(tree) else parse_spans(tree)
    return make_batch(parsed, parse_logs(tree))


def _merge_batches(batches: Iterable[SpanBatch]) -> SpanBatch:
    all_batches = list(batches)
    return SpanBatch(
        tuple(span for batch in all_batches for span in batch.spans),
        tuple(record for batch in all_batches for record in batch.logs),
        sum(batch.rejected for batch in all_batches),
        dict(sum((Counter(batch.reasons) for batch in all_batches), Counter())),
    )
