"""The time to the first piece of a streamed answer, under all the names that it has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from dokimos._core.json_object import parse_if_json
from dokimos.traces._semconv import Names
from dokimos.traces._span import Span
from dokimos.traces._span_source import SpanSource

_SECONDS: Final = "gen_ai.response.time_to_first_chunk"
_MILLISECONDS: Final = Names("ai.response.msToFirstChunk", "ai.stream.msToFirstChunk")
"""What the AI SDK of Vercel writes, now and before version 4."""
_FIRST_TOKEN: Final = "gen_ai.server.time_to_first_token"
"""What OpenLIT writes in seconds, and Strands in milliseconds."""
_STRANDS: Final = "strands."
_STARTED: Final = "langfuse.observation.completion_start_time"
_EVENTS: Final = frozenset(
    (
        "First Token Stream Event",  # OpenInference
        "gen_ai.content.completion.chunk",  # OpenLLMetry, one for each piece
        "llm.content.completion.chunk",
        "ai.stream.firstChunk",  # Vercel
    )
)
_NAMES: Final = Names(_SECONDS, _FIRST_TOKEN, *_MILLISECONDS, _STARTED)
_MAX_DURATION: Final = 1e9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def first_chunk_ms(source: SpanSource) -> float | None:
    """Return how many milliseconds after its start a span had the first piece of an answer."""
    if not source.plan[_NAMES]:
        return _measure_delay(source) if source.span.events else None
    seconds = _duration(source.get(_SECONDS))
    if seconds is not None:
        return seconds * 1000
    first_token = _duration(source.get(_FIRST_TOKEN))
    if first_token is not None:
        return first_token if source.span.scope.startswith(_STRANDS) else first_token * 1000
    milliseconds = _duration(source.first(_MILLISECONDS))
    return _measure_delay(source) if milliseconds is None else milliseconds


def _measure_delay(source: SpanSource) -> float | None:
    """Return the time from the start of a span to the recorded time of its first chunk."""
    start, moments = source.span.start_ns, list(_moments(source.span, source.get(_STARTED)))
    if start is None or not moments or min(moments) < start:
        return None
    return (min(moments) - start) / 1e6


def _moments(span: Span, started: object) -> list[int]:
    """Return the times of the events that stand for a piece, or else when a completion started."""
    events = [event.time_ns for event in span.events if event.name in _EVENTS and event.time_ns is not None]
    if events or started is None:
        return events
    try:
        moment = datetime.fromisoformat(parse_if_json(started))
        return [(moment - _EPOCH) // timedelta(microseconds=1) * 1000]
    except (ValueError, TypeError):  # no time, or one without a zone
        return []


def _duration(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value < _MAX_DURATION else None
