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
from dokimos.traces import Span, SpanTree, derive_text, to_examples

SOURCE: Final = "source"
"""In the metadata of an item: the trace and the span that it comes from."""


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
    question, answer = derive_text(named or (tree.roots or tree.spans)[0])
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
