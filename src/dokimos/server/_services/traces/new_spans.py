"""A span as it is stored: how it was sent, and what lists and searches need of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from dokimos.server._services.traces.attribute_hashes import MAX_HASHED, hash_attributes
from dokimos.server._services.traces.span_origins import origin_id
from dokimos.traces._otlp_records import RecordOrigin, SpanRecord
from dokimos.traces._semconv import SpanRole
from dokimos.traces._span import LogRecord, Span
from dokimos.traces._span_digest import digest_span
from dokimos.traces._span_messages import MessageCache

MAX_TEXT: Final = 32_768
"""Characters of an input or output that lists and searches keep; the whole is in the span itself."""
MAX_ID: Final = 64
"""Characters of a trace id; those of OpenTelemetry have 32."""
_MAX_SPAN_ID: Final = 64
_MAX_PROJECT_NAME: Final = 255
_MAX_KEY: Final = 255
"""Characters of a session or user: an index of PostgreSQL takes no value of more than 2,704 bytes."""
_MAX_TOKENS: Final = 10**10
_MAX_COST: Final = 10_000.0
"""Dollars of one span. More, or more tokens, was not measured, and sums have to stay within 64 bits."""
LAST_START: Final = 2**63 - 1
"""Of a column of 64 bits: in the year 2262. A span whose start is unknown stands there among others."""
_KINDS: Final[dict[str | None, str]] = {
    name: f"SPAN_KIND_{name.upper()}" for name in ("internal", "server", "client", "producer", "consumer")
}
_ROLES: Final = {role: role.value for role in SpanRole}
_STATUSES: Final = {"unset": None, "ok": "STATUS_CODE_OK", "error": "STATUS_CODE_ERROR"}
ENCODINGS: Final = ("protobuf", "json")
"""By the number that stands for them in the tables."""
ERROR: Final = "STATUS_CODE_ERROR"
Completeness: TypeAlias = tuple[int, int, bytes, int]
PROJECT_KEYS: Final = ("dokimos.project", "dokimos.project.name")
"""Attributes of a resource that name the project of its spans."""


class NewSpan(NamedTuple):
    """A span that is to be stored."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str | None
    """As OTLP calls it, such as `SPAN_KIND_CLIENT`; likewise `status`, such as `STATUS_CODE_ERROR`."""
    status: str | None
    role: str
    start_ns: int | None
    end_ns: int | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    first_chunk_ms: float | None
    model: str | None
    input_text: str | None
    output_text: str | None
    error: str | None
    session_id: str | None
    user_id: str | None
    attribute_hashes: tuple[int, ...]
    encoding: Literal["protobuf", "json"]
    body: bytes
    origin: RecordOrigin
    source: int
    """The id of its origin."""

    @property
    def rank(self) -> tuple[int, str]:
        """Where it stands among the spans of its trace: by its start, then by its id."""
        return (self.start_ns if self.start_ns is not None else LAST_START, self.span_id)

    @property
    def completeness(self) -> Completeness:
        """Of two copies of a span that differ, the higher one counts, whichever comes first."""
        return measure_completeness(self.end_ns, self.body, self.source)


_make_span: Final = partial(tuple.__new__, NewSpan)
"""Of all fields: its constructor takes nearly twice as long."""


def measure_completeness(end_ns: int | None, body: bytes, source: int) -> Completeness:
    """Return what copies of a span are compared by.

    One that was exported again once it had ended has a later end, or more in it. Of two that differ only in
    the resource or scope that they came with, either would do, but always the same one.
    """
    return (end_ns or 0, len(body), body, source)


def find_problem(span: Span | LogRecord) -> str | None:
    """Return why a span or the record of a log cannot be stored, None where it can."""
    trace_id, span_id = span.trace_id, span.span_id
    both = trace_id + span_id
    if len(both) <= _MAX_SPAN_ID and both.isascii() and "\0" not in both:
        return None  # as nearly all
    if len(trace_id) > MAX_ID:
        return f"a trace id of more than {MAX_ID} characters"
    if len(span_id) > _MAX_SPAN_ID:
        return f"a span id of more than {_MAX_SPAN_ID} characters"
    if not is_text(trace_id):
        return "a trace id with NUL or half a character"
    if not is_text(span_id):
        return "a span id with NUL or half a character"
    return None


def project_name_in(resource: Mapping[str, Any]) -> str | None:
    """Return the name of the project that the attributes of a resource name, None where they name none."""
    for key in PROJECT_KEYS:
        value = resource.get(key)
        if isinstance(value, str) and value.strip():
            return value if len(value) <= _MAX_PROJECT_NAME and is_text(value) else None
    return None


class DigestCache:
    """Remembers what spans that are digested one after the other repeat: their messages and their origin."""

    __slots__ = ("_hashes", "_origin", "_source", "messages")

    def __init__(self) -> None:
        self.messages = MessageCache()
        self._origin: RecordOrigin | None = None
        self._source = 0
        self._hashes: list[int] = []

    def begin_trace(self) -> None:
        """Forget the messages: those of another trace are others."""
        self.messages = MessageCache()

    def describe_origin(self, span: Span, origin: RecordOrigin) -> tuple[int, list[int]]:
        """Return the id of the origin of a span, and the numbers of the attributes of its resource."""
        if origin is not self._origin:
            self._origin, self._source = origin, origin_id(origin)
            self._hashes = hash_attributes(span.resource)
        return self._source, self._hashes


def digest_record(record: SpanRecord, cache: DigestCache | None = None) -> NewSpan:
    """Return a span as it is stored; nothing raises, whatever it holds."""
    cache = DigestCache() if cache is None else cache
    span, body, origin = record
    digest = digest_span(span, cache.messages)
    # At once: to ask for each field by its name takes three times as long.
    role, input_text, output_text, tokens_in, tokens_out, cost_usd, first_chunk_ms = digest[:7]
    model, session, user, error = digest[7:]
    source, of_resource = cache.describe_origin(span, origin)
    parent, start, end = span.parent_id, span.start_ns, span.end_ns
    hashes = hash_attributes(span.attributes)
    hashes += of_resource
    return _make_span(
        (
            span.trace_id,
            span.span_id,
            None if parent is None else _cut(parent, 2 * _MAX_SPAN_ID),
            clean(span.name),
            _KINDS.get(span.kind),
            _STATUSES[span.status],
            _ROLES[role],
            None if start is None or start > LAST_START else start,
            None if end is None or end > LAST_START else end,
            None if tokens_in is None or tokens_in > _MAX_TOKENS else tokens_in,
            None if tokens_out is None or tokens_out > _MAX_TOKENS else tokens_out,
            None if cost_usd is None or not cost_usd <= _MAX_COST else cost_usd,
            first_chunk_ms,
            None if model is None else _cut(model),
            None if input_text is None else _cut(input_text),
            None if output_text is None else _cut(output_text),
            None if error is None else _cut(error),
            None if session is None else _cut(session, _MAX_KEY),
            None if user is None else _cut(user, _MAX_KEY),
            tuple(hashes[:MAX_HASHED]),
            origin.encoding,
            body,
            origin,
            source,
        )
    )


def clean(text: str) -> str:
    """Return a text that every database holds: without NUL and half characters, which it shows as signs."""
    if "\0" in text:
        text = text.replace("\0", "\u2400")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def canonical_id(text: str) -> str:
    """Return the id of a span, or OpenTelemetry's of a trace, as it is stored: with small letters."""
    return clean(text).lower()


def is_text(text: str) -> bool:
    """Whether every database holds a text as it is."""
    return clean(text) == text


def _cut(text: str, length: int = MAX_TEXT) -> str:
    if len(text) > length:
        text = text[:length]
    return text if text.isascii() and "\0" not in text else clean(text)
