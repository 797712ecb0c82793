"""Finds the error of a span."""

from __future__ import annotations

from typing import Final

from dokimos.traces import _langfuse_attributes as langfuse_attributes
from dokimos.traces._semconv import ERROR_TYPE
from dokimos.traces._span_source import SpanSource

NO_MESSAGE: Final = "error"
"""The error of a span whose status has no message."""

CUT_OFF: Final = "The answer of the model was cut off: its finish reason is 'error'."


def find_error(source: SpanSource) -> str | None:
    """Return the error: the message of the status, the last recorded exception, or the type of error."""
    span = source.span
    if span.status != "error" and not source.plan.may_have_failed:
        return None
    kind = source.get(ERROR_TYPE)
    if span.status == "error" or kind is not None or langfuse_attributes.is_failed(source.attributes):
        exception = next((e.attributes for e in reversed(span.events) if e.name == "exception"), {})
        candidates = (
            span.status_message,
            source.get(langfuse_attributes.STATUS_MESSAGE),
            exception.get("exception.message"),
        )
        return next((str(each) for each in (*candidates, kind) if each), NO_MESSAGE)
    return None


def find_model_error(source: SpanSource) -> str | None:
    """Return the error of a model; an answer that was cut off has it in the finish reason only."""
    error = find_error(source)
    return CUT_OFF if error is None and source.is_cut_off() else error
