"""A trace, or a part of it, as an item of a dataset: what went in, what came out, and what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Row

from dokimos._core.example import Example
from dokimos._core.jsonable import compact_json, jsonable
from dokimos._core.keys import INPUT, OUTPUT, TOOLS
from dokimos.replay import record_calls
from dokimos.replay._recordings import RECORDED
from dokimos.server._services.datasets.dataset_items import NewDatasetItem, hash_parts
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.runs.new_items import NewEvaluation, NewItem
from dokimos.traces import Span, SpanRole, SpanTree, derive_text, parse_span, to_examples

SOURCE: Final = "source"
"""In the metadata of an item: the trace and the span that it comes from."""


_MAX_RECORDED: Final = 1_000_000
"""Characters of the recordings that an item of a run has; longer ones stay with the trace alone."""


@dataclass(frozen=True, slots=True)
class TracePart:
    """What an item is made of."""

    trace: Row[Any]
    spans: Sequence[Span]
    span_id: str | None
    """The span that stands for it, None for the whole trace."""


def make_trace_item(part: TracePart, expected: dict[str, Any] | None, place: str) -> NewDatasetItem:
    """Return an item of a dataset.

    Args:
        expected: The expected outputs; None takes the answer that was recorded.
        place: Where the request names it, for errors.

    Raises:
        InvalidRequestError: Nothing says what went in.
    """
    spans = _spans_of(part, place)
    example = next(iter(to_examples(spans)), None)
    question, answer = _texts(spans, part.span_id, example)
    if question is None:
        raise InvalidRequestError("has no recorded input, which an item needs", field=place)
    if expected is None and answer is not None:
        expected = {OUTPUT: answer}
    parts: list[Any] = [
        {INPUT: jsonable(question)},
        jsonable(expected),
        _metadata(part, spans, answer, example),
    ]
    content, first = hash_parts(*parts)
    return NewDatasetItem(
        inputs=compact_json(parts[0]),
        expected_outputs=None if parts[1] is None else compact_json(parts[1]),
        metadata=compact_json(parts[2]),
        content_hash=content,
        inputs_hash=first,
        place=place,
    )


def make_review_item(part: TracePart, scores: Sequence[Row[Any]], place: str) -> NewItem:
    """Return an item of a run that people review: what went in, what came out, and what rules said.

    It expects nothing: whether the answer is right, and what would have been, is for people to say.

    Args:
        scores: Jobs that have a score; the first one of each evaluator counts.
        place: Where the request names the trace, for errors.

    Raises:
        InvalidRequestError: Nothing says what went in.
    """
    spans = _spans_of(part, place)
    example = next(iter(to_examples(spans)), None)
    question, answer = _texts(spans, part.span_id, example)
    if question is None:
        raise InvalidRequestError("has no recorded input, which an item needs", field=place)
    outputs = {} if example is None else dict(example.actual_outputs or {})
    if answer is not None:
        outputs[OUTPUT] = answer
    metadata = _metadata(part, spans, answer, example)
    if len(compact_json(metadata[RECORDED])) > _MAX_RECORDED:
        metadata[RECORDED] = {OUTPUT: jsonable(answer), "isTooLarge": True}
    by_name: dict[str, NewEvaluation] = {}
    for row in scores:
        passed = row.success is not False
        new = NewEvaluation(row.evaluator_name, row.score, None, passed, row.reason, row.label)
        by_name.setdefault(row.evaluator_name, new)
    unjudged = {row.evaluator_name for row in scores if row.success is None}
    metrics = None if example is None else example.metrics
    return NewItem(
        input=compact_json({INPUT: jsonable(question)}),
        actual_output=compact_json(jsonable(outputs)),
        metadata=compact_json(metadata),
        error=None if example is None else example.actual_error,
        tokens_in=None if metrics is None else metrics.tokens_in,
        tokens_out=None if metrics is None else metrics.tokens_out,
        cost_usd=None if metrics is None else metrics.cost_usd,
        latency_ms=None if metrics is None or metrics.latency_ms is None else round(metrics.latency_ms),
        evaluations=list(by_name.values()),
        unjudged=[number for number, name in enumerate(by_name) if name in unjudged],
    )


def _spans_of(part: TracePart, place: str) -> Sequence[Span]:
    if part.span_id is None:
        return part.spans
    spans = SpanTree(part.spans).subtree(part.span_id)
    if not spans:
        raise InvalidRequestError("is not a span of the trace", field=f"{place}.spanId")
    return spans


def _texts(spans: Sequence[Span], span_id: str | None, example: Example | None) -> tuple[Any, Any]:
    """Return what went in and came out: of the span that is named, else of what ran, else of the root."""
    tree = SpanTree(spans)
    named = next((span for span in spans if span.span_id == span_id), None)
    span = named or (tree.roots or tree.spans)[0]
    question, answer = derive_text(span)
    if question is None and (content := parse_span(span)).role is SpanRole.TOOL:
        return content.arguments, content.result
    if example is None or (named is not None and question is not None):
        return question, answer
    outputs = example.actual_outputs or {}
    return example.inputs.get(INPUT, question), outputs.get(OUTPUT, answer)


def _metadata(part: TracePart, spans: Sequence[Span], answer: Any, example: Example | None) -> dict[str, Any]:
    source = {"traceId": part.trace.trace_id, "spanId": part.span_id, "id": part.trace.id}
    record = {**record_calls(spans), OUTPUT: jsonable(answer)}
    metadata: dict[str, Any] = {SOURCE: source, RECORDED: record}
    if example is not None and TOOLS in example.metadata:
        metadata[TOOLS] = jsonable(example.metadata[TOOLS])
    return metadata
