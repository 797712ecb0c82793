"""What lists and searches need of a span, which each span that comes in is read for."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from dokimos.traces._first_chunk import first_chunk_ms
from dokimos.traces._semconv import CONVERSATION, USER, SpanRole
from dokimos.traces._span import Span
from dokimos.traces._span_error import find_error, find_model_error
from dokimos.traces._span_messages import MessageCache
from dokimos.traces._span_role import find_role
from dokimos.traces._span_source import SpanSource
from dokimos.traces._span_text import derive_source_text
from dokimos.traces._span_usage import find_model, measure_usage


class SpanDigest(NamedTuple):
    """What lists and searches need of a span."""

    role: SpanRole
    input_text: str | None
    output_text: str | None
    tokens_in: int | None
    """Those of the span itself, whatever its role; likewise `cost_usd`."""
    tokens_out: int | None
    cost_usd: float | None
    first_chunk_ms: float | None
    model: str | None
    conversation_id: str | None
    user_id: str | None
    error: str | None


_make_digest: Final = partial(tuple.__new__, SpanDigest)
"""Of all fields: its constructor takes half as long again."""


def digest_span(span: Span, cache: MessageCache | None = None) -> SpanDigest:
    """Return what lists need of a span: less than `parse_span` parses, and the texts of any role."""
    source = SpanSource(span, cache)
    role = find_role(source)
    input_text, output_text = derive_source_text(source)
    usage = measure_usage(source)
    conversation, user = source.first(CONVERSATION), source.first(USER)
    is_model = role is SpanRole.MODEL or role is SpanRole.AGENT
    return _make_digest(
        (
            role,
            input_text,
            output_text,
            usage.tokens_in,
            usage.tokens_out,
            usage.cost_usd,
            first_chunk_ms(source),
            find_model(source),
            None if conversation is None else str(conversation),
            None if user is None else str(user),
            find_model_error(source) if is_model else find_error(source),
        )
    )
