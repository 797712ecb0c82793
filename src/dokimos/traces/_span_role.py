"""Finds the role of a span: whether it is a call of a model, a tool, an agent or something else."""

from __future__ import annotations

from dokimos.traces._semconv import (
    CALL_ID,
    DATABASE_RESULTS,
    DOCUMENTS,
    MERGED_TOOLS,
    MODEL_NAME,
    OPENINFERENCE_KIND,
    OPENINFERENCE_KINDS,
    TOOL_NAME,
    SpanRole,
)
from dokimos.traces._span_source import SpanSource


def find_role(source: SpanSource) -> SpanRole:
    """Return the role that a span names, or the one that its attributes suggest."""
    attributes = source.attributes
    kind = attributes.get(OPENINFERENCE_KIND)
    if kind is not None:
        return OPENINFERENCE_KINDS.get(str(kind).upper(), SpanRole.OTHER)
    for key, roles in source.plan.role_tables:
        role = roles.get(str(attributes[key]))
        if role is None:
            continue
        is_merged = role is SpanRole.TOOL and attributes.get("gen_ai.tool.name") == MERGED_TOOLS
        return SpanRole.OTHER if is_merged else role
    return _guess_role(source)


def _guess_role(source: SpanSource) -> SpanRole:
    """Guess the role from the attributes of a span that does not name it."""
    if source.first(TOOL_NAME) is not None or source.first(CALL_ID) is not None:
        return SpanRole.TOOL
    if source.first(DOCUMENTS) is not None or "retrieval.documents." in source.structures:
        return SpanRole.RETRIEVAL
    if any(event.name in DATABASE_RESULTS for event in source.span.events):
        return SpanRole.RETRIEVAL
    if source.outputs or (source.inputs and source.first(MODEL_NAME) is not None):
        return SpanRole.MODEL
    return SpanRole.OTHER
