"""What the library makes of a trace: what its agent did, and what was said."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Row

from dokimos._core.jsonable import jsonable
from dokimos.server._services.errors import ConflictError
from dokimos.server._services.traces.trace_details import read_spans
from dokimos.traces import Span, call_metrics, price_coverage, to_agent_trace, to_conversation

_MAX_SPANS: Final = 5000
_MAX_BYTES: Final = 32 * 1024 * 1024


def read_whole_trace(connection: Connection, trace: Row[Any]) -> list[Span]:
    """Return all spans of a trace, for what needs them at once.

    Raises:
        ConflictError: There are too many of them.
    """
    spans, is_whole = read_spans(connection, trace, most=_MAX_SPANS, most_bytes=_MAX_BYTES)
    if not is_whole:
        raise ConflictError(
            f"The trace has {trace.span_count} spans, and more than {_MAX_SPANS} or 32 MiB are not looked at "
            "as a whole; its spans can be listed and downloaded."
        )
    return [each.record.span for each in spans]


def view_agent_trace(spans: list[Span]) -> dict[str, Any]:
    """Return what an agent did as JSON: its calls, its answer, its tools, and what that cost."""
    trace: Any = jsonable(to_agent_trace(spans))
    coverage = price_coverage(spans)
    return {
        "agentTrace": trace,
        "metrics": jsonable(call_metrics(spans)),
        "pricedCallCount": coverage.priced,
        "unpricedCallCount": coverage.unpriced,
    }


def view_conversation(spans: list[Span]) -> dict[str, Any]:
    """Return what was said as JSON: the messages of user and agent in their order, with calls of tools."""
    conversation = to_conversation(spans)
    return {
        "conversation": jsonable(conversation),
        "messages": jsonable(conversation.to_messages()),
        "turnCount": conversation.turn_count,
        "error": conversation.error,
    }
