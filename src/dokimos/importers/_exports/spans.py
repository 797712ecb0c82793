"""Spans of exports that are not OTLP: times, errors, and the examples that whole traces make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from dokimos._core.example import Example
from dokimos.importers._exports.row import Row
from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.traces import Span, to_examples


def take_time(row: Row, *names: str) -> int | None:
    """Take a time as nanoseconds since 1970: ISO 8601, or a number of milliseconds as pandas writes it."""
    value = row.take(*names)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value * 1_000_000)
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        row.fail(f"{names[0]!r} must be a time in ISO 8601, not {value!r:.60}.")
    # Both tools record in UTC; their tables leave the zone out.
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def read_traces(spans: Iterable[Span], notes: Notes) -> Iterator[Example]:
    """Yield one example for each trace in which something ran.

    Spans of one trace may be anywhere in a file, so all of them are in memory.
    """
    spans = list(spans)
    examples = to_examples(spans)
    yield from examples
    for _ in {span.trace_id for span in spans} - {example.id for example in examples}:
        notes.lose("a trace in which nothing ran")


def text_of(value: Any) -> str:
    """Return what spans have for a value that may be structured: its JSON, or the text itself."""
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
