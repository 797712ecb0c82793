"""Measures the usage of a span: tokens, cost, and the time to the first piece of an answer."""

from __future__ import annotations

from typing import Final, NamedTuple

from dokimos._core.fast_constructor import fast_factory
from dokimos._core.metrics import CallMetrics
from dokimos.traces._first_chunk import first_chunk_ms
from dokimos.traces._semconv import CACHED, COST, MODEL_NAME, REASONING, TOKENS_IN, TOKENS_OUT, Names
from dokimos.traces._span_source import SpanSource

UNMEASURED: Final = CallMetrics()
_make_metrics: Final = fast_factory(CallMetrics)
_TOKENS: Final = Names(*TOKENS_IN, *TOKENS_OUT, *CACHED, *REASONING)
LARGEST: Final = 1e300
"""Larger numbers were not measured."""
_NUMBERS: Final = (int, float)
"""A tuple, since `int | float` makes an object each time."""


class SpanUsage(NamedTuple):
    """The usage of one span; None means "not measured"."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    cached: int | None = None
    reasoning: int | None = None


_UNUSED: Final = SpanUsage()


def measure_usage(source: SpanSource) -> SpanUsage:
    """Return the tokens and cost of a span; only zeros mean that they were not measured."""
    plan = source.plan
    if not plan[_TOKENS]:
        return _UNUSED
    first = source.first
    tokens_in, tokens_out = _count(first(TOKENS_IN)), _count(first(TOKENS_OUT))
    cached = _count(first(CACHED)) if plan[CACHED] else None
    reasoning = _count(first(REASONING)) if plan[REASONING] else None
    if not (tokens_in or tokens_out or cached or reasoning):
        return _UNUSED
    return SpanUsage(tokens_in, tokens_out, _positive(first(COST)), cached, reasoning)


def find_model(source: SpanSource) -> str | None:
    """Return the name of the model of a span."""
    value = source.first(MODEL_NAME)
    return value if isinstance(value, str) else None


def make_metrics(source: SpanSource) -> CallMetrics:
    """Return the usage of a span as the metrics of a call."""
    usage = measure_usage(source)
    model, chunk = find_model(source), first_chunk_ms(source)
    if usage is _UNUSED:
        return make_unmeasured(model, chunk)
    return _make_metrics(
        usage.tokens_in,
        usage.tokens_out,
        cost_usd=usage.cost_usd,
        first_chunk_ms=chunk,
        model=model,
        cached_tokens_in=usage.cached,
        reasoning_tokens_out=usage.reasoning,
    )


def make_unmeasured(model: str | None, chunk: float | None) -> CallMetrics:
    """Return the metrics of a span that has no tokens."""
    is_empty = model is None and chunk is None
    return UNMEASURED if is_empty else CallMetrics(model=model, first_chunk_ms=chunk)


def _count(value: object) -> int | None:
    if value is None:
        return None
    return int(value) if isinstance(value, _NUMBERS) and 0 <= value < 2**63 else None


def _positive(value: object) -> float | None:
    return value if isinstance(value, _NUMBERS) and 0 < value < LARGEST else None
