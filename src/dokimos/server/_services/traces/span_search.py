"""The spans of one trace in which words occur: in names, and in the keys and values of attributes."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row

from dokimos._core.jsonable import jsonable
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.traces.search_words import fold_text
from dokimos.server._services.traces.trace_details import read_part
from dokimos.traces._span import Span

MAX_SPANS: Final = 5000
"""Spans that one part of a search reads: some tenths of a second."""
_MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of spans, after which a part ends; one at a time is in memory."""
_BEFORE: Final = 30
_EXCERPT: Final = 160


class SearchPlace(StrEnum):
    """Where in spans is searched."""

    ANYWHERE = "anywhere"
    NAME = "name"
    KEY = "key"
    """The keys of attributes."""
    VALUE = "value"
    """The values of attributes."""


class _Text(NamedTuple):
    """A text of a span."""

    place: str
    key: str | None
    text: str
    value: object = None
    """Of the attribute, where the text is its key."""


@dataclass(frozen=True, slots=True)
class SpanMatch:
    """A span that has all words, and where the first of them is."""

    span_id: str
    place: str
    """`name`, `key` or `value`, or `status` for the message of a failure."""
    key: str | None
    """Of the attribute, or the name of the log record; None for other texts."""
    excerpt: str
    """What is around the word; of a key, the beginning of its value."""


@dataclass(frozen=True, slots=True)
class SpanMatches:
    """What one part of a search has found."""

    matches: tuple[SpanMatch, ...]
    searched_count: int
    next_after: str | None
    """The span behind which the next part begins; None where this was the last one."""


def search_spans(
    connection: Connection, trace: Row[Any], search: str, place: SearchPlace, *, after: str | None
) -> SpanMatches:
    """Search a part of the spans of a trace, in the order of their starts.

    Each word has to occur in the span, in any case, wherever `place` allows. Nothing but the spans themselves
    is read, one after another: an index of every attribute would take more room than the spans.

    Raises:
        InvalidRequestError: There is no word, or `after` is not the id of a span of the trace.
    """
    words = fold_text(search).split()
    if not words:
        raise InvalidRequestError("must have at least one word", field="search")
    matches: list[SpanMatch] = []
    part = read_part(connection, trace, after=after, most=MAX_SPANS, most_bytes=_MAX_BYTES)
    for stored in part:
        match = _match(stored.row.span_id, stored.record.span, words, place)
        if match is not None:
            matches.append(match)
    return SpanMatches(tuple(matches), part.count, part.next_after)


def _match(span_id: str, span: Span, words: Sequence[str], place: SearchPlace) -> SpanMatch | None:
    missing = set(words)
    first: _Text | None = None
    for text in _texts_of(span, place):
        folded = fold_text(text.text)
        if first is None and words[0] in folded:
            first = text
        missing = {word for word in missing if word not in folded}
        if not missing and first is not None:
            excerpt = _cut(_say(first.value), 0) if first.place == "key" else _excerpt(first.text, words[0])
            return SpanMatch(span_id, first.place, first.key, excerpt)
    return None


def _texts_of(span: Span, place: SearchPlace) -> Iterator[_Text]:
    if place in (SearchPlace.ANYWHERE, SearchPlace.NAME):
        yield _Text("name", None, span.name)
    if place is SearchPlace.NAME:
        return
    groups = [span.attributes, *(event.attributes for event in span.events)]
    if place in (SearchPlace.ANYWHERE, SearchPlace.KEY):
        yield from (_Text("key", key, key, value) for group in groups for key, value in group.items())
    if place in (SearchPlace.ANYWHERE, SearchPlace.VALUE):
        yield from (_Text("value", key, _say(value)) for group in groups for key, value in group.items())
        bodies = ((event.name, event.body) for event in span.events if event.body is not None)
        yield from (_Text("value", name, _say(body)) for name, body in bodies)
    if place is SearchPlace.ANYWHERE:
        yield _Text("status", None, span.status_message)
        yield from (_Text("name", None, event.name) for event in span.events)


def _say(value: object) -> str:
    """Return a value as pages show it: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False)


def _excerpt(text: str, word: str) -> str:
    """Return the surroundings of the first occurrence of a word."""
    folded = fold_text(text)
    place = folded.find(word)
    if len(folded) != len(text):  # the place in the text, some of whose letters are of several characters
        place = bisect_left(range(len(text)), place + 1, key=lambda end: len(fold_text(text[:end]))) - 1
    return _cut(text, max(0, place - _BEFORE))


def _cut(text: str, place: int) -> str:
    """Return some of a text, on one line."""
    cut = text[place : place + _EXCERPT]
    line = " ".join(cut.split())
    return f"{'…' if place else ''}{line}{'…' if place + _EXCERPT < len(text) else ''}"
